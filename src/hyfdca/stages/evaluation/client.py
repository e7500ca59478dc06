"""The evaluation, a client's half; ``server.py`` has the exchanges."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import power_above
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.federation.messages import Arrangements, Opened, OpenRequest, Vouched
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sealing.opening import Opening
from hyfdca.model.model import Model
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import (
    RefusedError,
    RemoteProtocolError,
    unpack_indices,
    unpack_reals,
)
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.evaluation import messages as m
from hyfdca.stages.evaluation.bins import are_edges, shown_bins
from hyfdca.stages.evaluation.calibration import N_TENTHS, bin_sums, derivatives
from hyfdca.stages.evaluation.curves import pairs_within
from hyfdca.stages.evaluation.measures import ScoredRows
from hyfdca.stages.evaluation.scores import ScoresClient
from hyfdca.stages.evaluation.totals import sealed_parts
from hyfdca.stages.score_parts import OwnParts, own_parts

# By phase, in a test of one model
_MOST_ANSWERS = {
    "score bins": m.MOST_PASSES,
    "calibration bins": 1,
    "recalibration": m.MOST_STEPS,
}
_REAL_BYTES = 8


@dataclass(frozen=True, repr=False)
class EvaluationInputs:
    """What a client tests a model with.

    Parameters
    ----------
    table : AlignedTable
        Its rows that are set aside.
    accept : callable
        Returns the model of a file, if it is the one that the client released.
    tag_key : bytes
        Of the proofs of which model a client was sent; the server does not have it.
    min_bin, least_rows : int
        Rows of a class in a bin, by the study, and of all kinds in a sum, by the
        client's own policy.
    """

    table: AlignedTable
    sealers: Callable[[], Sealers]
    accept: Callable[[bytes], Model]
    tag_key: bytes
    rank: int
    n_clients: int
    min_bin: int
    least_rows: int


class EvaluationClient:
    """Gives parts of scores to label holders, and sums over the rows it labels."""

    def __init__(self, inputs: EvaluationInputs) -> None:
        self._inputs = inputs
        self._begin()

    def _begin(self) -> None:
        """Forget everything: the stage starts, perhaps again."""
        self._content = b""
        self._is_same = False
        self._model: Model | None = None
        self._parts: OwnParts | None = None
        self._scores: ScoresClient | None = None
        self._rows: ScoredRows | None = None
        self._n_asked = dict.fromkeys(_MOST_ANSWERS, 0)
        # It seals to the client that a request names, and opens totals if it is that.
        sealers = self._inputs.sealers()
        self._sealing = Sealing("sealed", sealers, (0, 0), 1)
        scheme = sealers.encryption.scheme
        self._sealing.arrange(Arrangements(scheme, scheme))
        self._opening = Opening(self._sealing, self._inputs.rank)

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            "evaluated model": self._take_model,
            "same model": self._compare,
            "arrange held-out": self._arrange,
            "held-out bound": lambda _: self._scoring.bound(self._own_parts),
            "held-out parts": lambda r: self._scoring.give(self._own_parts, r),
            "held-out scores": self._take_scores,
            "measure bounds": self._bounds,
            "measures": self._measure,
            "score bins": self._count,
            "calibration bins": self._calibrate,
            "recalibration": self._recalibrate,
            "open measures": self._open,
        }

    # The model

    def _take_model(self, request: m.EvaluatedModel) -> m.ModelTag:
        content = bytes(request.model)
        model = self._inputs.accept(content)
        self._begin()
        self._model, self._content = model, content
        return m.ModelTag(self._tag(self._inputs.rank))

    def _tag(self, rank: int) -> bytes:
        return hmac.digest(
            self._inputs.tag_key, b"%d:" % rank + self._content, "sha256"
        )

    def _compare(self, request: m.ModelTags) -> None:
        """Refuse to go on unless all clients were sent this very model."""
        expected = map(self._tag, range(self._inputs.n_clients))
        if not hmac.compare_digest(b"".join(expected), b"".join(request.tags)):
            raise RefusedError(
                "the server did not send all organisations the same model to test; "
                "do not continue with this server"
            )
        self._is_same = True

    @property
    def _tested(self) -> Model:
        if self._model is None or not self._is_same:
            raise RemoteProtocolError("no model was sent that all clients have")
        return self._model

    # Scores

    def _arrange(self, notice: m.HeldOutArrangements) -> None:
        inputs, table = self._inputs, self._inputs.table
        shape = (table.cells.shape[0], self._tested.weights.shape[1])
        ranks = (inputs.rank, inputs.n_clients)
        scores = ScoresClient(inputs.sealers(), shape, *ranks)
        scores.arrange(notice)
        if len(own := scores.own_rows):
            targets = table.targets
            if targets is None or not targets.is_known[own].all():
                raise RemoteProtocolError("it does not have the label of a score")
        self._scores = scores

    @property
    def _scoring(self) -> ScoresClient:
        if self._scores is None:
            raise RemoteProtocolError("nothing has been arranged yet")
        return self._scores

    @property
    def _own_parts(self) -> OwnParts:
        """What the client's cells add, as in training: absent cells add nothing."""
        model = self._tested
        if self._parts is None:
            offset = model.scaling.offset
            self._parts = own_parts(model, self._inputs.table, offset)
        return self._parts

    def _take_scores(self, notice: m.HeldOutScores) -> None:
        model, table, rows = self._tested, self._inputs.table, self._scoring.own_rows
        assert table.targets is not None  # noqa: S101  # it has labels of its own rows
        targets = table.targets.of_rows(rows)
        margins = self._scoring.take(notice) + model.intercept
        if targets.offsets is not None:
            margins = margins + targets.offsets[:, None]
        weights = np.ones(len(rows)) if targets.weights is None else targets.weights
        labels = targets.values[:, 0]
        n_classes = len(table.classes)
        self._rows = ScoredRows(margins, labels, weights, n_classes, model.loss)

    @property
    def _scored(self) -> ScoredRows:
        if self._rows is None:
            raise RemoteProtocolError("its rows have no scores yet")
        return self._rows

    # Sums over the rows whose labels it has

    def _bounds(self, request: m.BoundsRequest) -> m.MeasureBounds:
        rows = self._scored
        largest = float(np.abs(rows.scores).max(initial=0.0))
        sums = rows.sums(request.centre)
        bounds = [power_above(float(np.abs(own).max())) for own in sums]
        return m.MeasureBounds(power_above(largest), bounds)

    def _measure(self, request: m.MeasuresRequest) -> m.MeasureParts:
        sums = self._scored.sums(request.centre)
        return sealed_parts(self._sealing, sums, request.grids)

    def _count(self, request: m.BinsRequest) -> m.MeasureParts:
        self._check_asked("score bins")
        edges = [_reals(own) for own in request.edges]
        is_fine = all(map(are_edges, edges))
        if not is_fine or len(edges) != self._scored.scores.shape[1]:
            raise RemoteProtocolError("these cannot be the bins of all scores")
        least = max(self._inputs.min_bin, self._inputs.least_rows)
        counts, weights = shown_bins(self._scored, edges, least)
        pairs = pairs_within(self._scored, edges, least).ravel()
        parts = sealed_parts(self._sealing, [counts, weights, pairs], request.grids)
        self._n_asked["score bins"] += 1
        return parts

    def _calibrate(self, request: m.CalibrationRequest) -> m.MeasureParts | m.Withheld:
        self._check_asked("calibration bins")
        ends = [unpack_indices(own, N_TENTHS + 1) for own in request.tenths]
        are_bins = all(len(own) and own[0] and own[-1] == N_TENTHS for own in ends)
        if not are_bins or len(ends) != self._scored.scores.shape[1]:
            raise RemoteProtocolError("these cannot be bins of all probabilities")
        counts, sums = bin_sums(self._scored, ends)
        if np.any((counts > 0) & (counts < self._inputs.least_rows)):
            return m.Withheld()
        parts = sealed_parts(self._sealing, [counts, sums], request.grids)
        self._n_asked["calibration bins"] += 1
        return parts

    def _recalibrate(self, request: m.RecalibrationRequest) -> m.MeasureParts:
        self._check_asked("recalibration")
        n_outputs = self._scored.scores.shape[1]
        points = unpack_reals(request.points, 2 * n_outputs).reshape(n_outputs, 2)
        sums = derivatives(self._scored, points)
        parts = sealed_parts(self._sealing, sums, request.grids)
        self._n_asked["recalibration"] += 1
        return parts

    def _check_asked(self, phase: str) -> None:
        """Refuse to answer more often than a test of one model needs."""
        if not self._scored.n_classes:
            raise RemoteProtocolError("numbers have no classes")
        most = _MOST_ANSWERS[phase]
        if self._n_asked[phase] >= most:
            raise RemoteProtocolError(f"phase {phase!r} was answered {most} times")

    def _open(self, request: OpenRequest) -> Opened | Vouched:
        return self._opening.answer(request)


def _reals(payload: memoryview) -> FloatArray:
    return unpack_reals(payload, len(payload) // _REAL_BYTES)

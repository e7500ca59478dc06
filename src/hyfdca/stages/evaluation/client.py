"""The evaluation, a client's half; ``server.py`` has the exchanges."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import power_above
from hyfdca.data.targets import Targets
from hyfdca.model.model import Model
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import (
    RefusedError,
    RemoteProtocolError,
    unpack_indices,
    unpack_reals,
)
from hyfdca.stages.evaluation import messages as m
from hyfdca.stages.evaluation.bins import are_edges, shown_bins
from hyfdca.stages.evaluation.calibration import N_TENTHS, bin_sums, derivatives
from hyfdca.stages.evaluation.curves import pairs_within
from hyfdca.stages.evaluation.held_out_client import (
    HeldOutClient,
    HeldOutInputs,
    bounds_of,
    weights_of,
)
from hyfdca.stages.evaluation.measures import ScoredRows
from hyfdca.stages.evaluation.totals import sealed_parts
from hyfdca.stages.score_parts import OwnParts, own_parts

_REAL_BYTES = 8


@dataclass(frozen=True, repr=False)
class EvaluationInputs(HeldOutInputs):
    """What a client needs to test the released model.

    Parameters
    ----------
    accept : callable
        Returns the model of a file, if it is the one that the client released.
    tag_key : bytes
        The key of proofs of the model that a client was sent; unknown to the server.
    min_bin : int
        The study's least number of rows of a class in a bin.
    """

    accept: Callable[[bytes], Model]
    tag_key: bytes
    min_bin: int


class EvaluationClient(HeldOutClient[EvaluationInputs]):
    """Gives parts of scores to label holders, and sums over the rows it labels."""

    def _forget(self) -> None:
        super()._forget()
        self._content = b""
        self._is_same = False
        self._model: Model | None = None
        self._parts: OwnParts | None = None
        self._rows: ScoredRows | None = None

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "evaluated model": self._take_model,
            "same model": self._compare,
            "measure bounds": self._bounds,
            "measures": self._measure,
            "score bins": self._count,
            "calibration bins": self._calibrate,
            "recalibration": self._recalibrate,
        }

    # The model

    def _take_model(self, request: m.EvaluatedModel) -> m.ModelTag:
        content = bytes(request.model)
        model = self._inputs.accept(content)
        self._forget()
        self._inputs.answered.begin_test()
        self._model, self._content = model, content
        return m.ModelTag(self._tag(self._inputs.rank))

    def _tag(self, rank: int) -> bytes:
        return hmac.digest(
            self._inputs.tag_key, b"%d:" % rank + self._content, "sha256"
        )

    def _compare(self, request: m.ModelTags) -> None:
        """Refuse to continue unless all clients were sent this same model."""
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

    @property
    def _own_parts(self) -> OwnParts:
        """The contribution of the client's cells; absent cells add nothing."""
        model = self._tested
        if self._parts is None:
            offset = model.scaling.offset
            self._parts = own_parts(model, self._inputs.table, offset)
        return self._parts

    def _score(self, sums: FloatArray, targets: Targets) -> None:
        model, n_classes = self._tested, len(self._inputs.table.classes)
        margins = sums + model.intercept
        if targets.offsets is not None:
            margins = margins + targets.offsets[:, None]
        self._inputs.answered.check_scores(margins.tobytes())
        labels, weights = targets.values[:, 0], weights_of(targets)
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
        bounds = bounds_of(rows.sums(request.centre))
        self._inputs.answered.take("measure bounds", request.centre)
        return m.MeasureBounds(power_above(largest), bounds)

    def _measure(self, request: m.MeasuresRequest) -> m.MeasureParts:
        sums = self._scored.sums(request.centre)
        parts = sealed_parts(self._sealing, sums, request.grids)
        self._inputs.answered.take("measures", request.centre)
        return parts

    def _count(self, request: m.BinsRequest) -> m.MeasureParts:
        self._check_classes()
        edges = [_reals(own) for own in request.edges]
        is_fine = all(map(are_edges, edges))
        if not is_fine or len(edges) != self._scored.scores.shape[1]:
            raise RemoteProtocolError("these cannot be the bins of all scores")
        least = max(self._inputs.min_bin, self._inputs.least_rows)
        counts, weights = shown_bins(self._scored, edges, least)
        pairs = pairs_within(self._scored, edges, least).ravel()
        parts = sealed_parts(self._sealing, [counts, weights, pairs], request.grids)
        self._inputs.answered.take("score bins", request.edges)
        return parts

    def _calibrate(self, request: m.CalibrationRequest) -> m.MeasureParts | m.Withheld:
        self._check_classes()
        ends = [unpack_indices(own, N_TENTHS + 1) for own in request.tenths]
        are_bins = all(len(own) and own[0] and own[-1] == N_TENTHS for own in ends)
        if not are_bins or len(ends) != self._scored.scores.shape[1]:
            raise RemoteProtocolError("these cannot be bins of all probabilities")
        self._inputs.answered.take("calibration bins", request.tenths)
        counts, sums = bin_sums(self._scored, ends)
        if np.any((counts > 0) & (counts < self._inputs.least_rows)):
            return m.Withheld()
        return sealed_parts(self._sealing, [counts, sums], request.grids)

    def _recalibrate(self, request: m.RecalibrationRequest) -> m.MeasureParts:
        self._check_classes()
        n_outputs = self._scored.scores.shape[1]
        points = unpack_reals(request.points, 2 * n_outputs).reshape(n_outputs, 2)
        sums = derivatives(self._scored, points)
        parts = sealed_parts(self._sealing, sums, request.grids)
        self._inputs.answered.take("recalibration", request.points)
        return parts

    def _check_classes(self) -> None:
        if not self._scored.n_classes:
            raise RemoteProtocolError("numbers have no classes")


def _reals(payload: memoryview) -> FloatArray:
    return unpack_reals(payload, len(payload) // _REAL_BYTES)

"""A client's part in every test of a model: scores of rows set aside, and sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import power_above
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.data.targets import Targets
from hyfdca.federation.client import check_few
from hyfdca.federation.messages import Arrangements, Opened, OpenRequest, Vouched
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sealing.opening import Opening
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.evaluation import messages as m
from hyfdca.stages.evaluation.answered import Answered
from hyfdca.stages.evaluation.scores import ScoresClient
from hyfdca.stages.score_parts import OwnParts

# Numbers that are opened at once: two histograms of at most 2000 edges, of four numbers
_MOST_PER_OUTPUT = 1 << 15


@dataclass(frozen=True, repr=False)
class HeldOutInputs:
    """What a client needs to test any model.

    Parameters
    ----------
    table : AlignedTable
        Its rows that are set aside.
    order : array (rows,)
        The places of these among the rows that the client set aside.
    least_rows : int
        The least number of its own rows in a sum, by the client's policy.
    answered : Answered
        What it has answered in this run.
    """

    table: AlignedTable
    order: IntArray
    sealers: Callable[[], Sealers]
    rank: int
    n_clients: int
    least_rows: int
    answered: Answered


Inputs = TypeVar("Inputs", bound=HeldOutInputs)


class HeldOutClient(ABC, Generic[Inputs]):
    """Gives parts of scores to label holders, and opens sums if asked to."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        # It seals to the client that a request names, and opens totals if it is this.
        # Made once: a witness must remember what it has vouched for.
        sealers = inputs.sealers()
        self._sealing = Sealing("sealed", sealers, (0, 0), 1)
        scheme = sealers.encryption.scheme
        self._sealing.arrange(Arrangements(scheme, scheme))
        self._opening = Opening(self._sealing, inputs.rank)
        self._forget()

    def _forget(self) -> None:
        """Forget everything: another model is tested, or the same one again."""
        self._scores: ScoresClient | None = None

    @property
    def handlers(self) -> Handlers:
        """What the client does in the phases of any test."""
        return {
            "arrange held-out": self._arrange,
            "held-out bound": lambda _: self._scoring.bound(self._own_parts),
            "held-out parts": lambda r: self._scoring.give(self._own_parts, r),
            "held-out scores": self._take_scores,
            "open measures": self._open,
        }

    @property
    @abstractmethod
    def _own_parts(self) -> OwnParts:
        """What the client's cells add to the margins of its rows."""

    @abstractmethod
    def _score(self, sums: FloatArray, targets: Targets) -> None:
        """Take the sums of all parts of the rows whose labels the client holds."""

    def _arrange(self, notice: m.HeldOutArrangements) -> None:
        inputs, table = self._inputs, self._inputs.table
        shape = self._own_parts.margins.shape
        ranks = (inputs.rank, inputs.n_clients)
        scores = ScoresClient(inputs.sealers(), shape, *ranks)
        scores.arrange(notice, table.own.row_groups)
        if len(own := scores.own_rows):
            targets = table.targets
            if targets is None or not targets.is_known[own].all():
                raise RemoteProtocolError("it does not have the label of a score")
        check_few(inputs.least_rows, len(own), "the test of the rows it labels")
        self._check_owners(scores.owners)
        self._scores = scores

    def _check_owners(self, owners: IntArray) -> None:
        """Refuse other label holders than before, in the order of its own table."""
        places = np.argsort(self._inputs.order)
        rows = np.stack([self._inputs.order[places], owners[places]])
        self._inputs.answered.check_owners(rows.astype(np.int64).tobytes())

    @property
    def _scoring(self) -> ScoresClient:
        if self._scores is None:
            raise RemoteProtocolError("nothing has been arranged yet")
        return self._scores

    def _take_scores(self, notice: m.HeldOutScores) -> None:
        targets = self._inputs.table.targets
        assert targets is not None  # noqa: S101  # it has labels of its own rows
        own = targets.of_rows(self._scoring.own_rows)
        self._score(self._scoring.take(notice), own)

    def _open(self, request: OpenRequest) -> Opened | Vouched:
        n_outputs = self._own_parts.margins.shape[1]
        return self._opening.answer(request, n_free=_MOST_PER_OUTPUT * n_outputs)


def bounds_of(sums: Sequence[FloatArray]) -> list[float]:
    """Return a power of two above each of a client's sums."""
    return [power_above(float(np.abs(own).max())) for own in sums]


def weights_of(targets: Targets) -> FloatArray:
    """Return how often each row counts: weights of classes do not."""
    weights = targets.weights
    return np.ones(len(targets.values)) if weights is None else weights

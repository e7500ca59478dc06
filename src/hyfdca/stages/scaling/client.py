"""A client's half of the scaling: statistics of its own cells."""

from __future__ import annotations

import math

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.holdings.ownership import Cells, n_stored
from hyfdca.model.scaling import Missing, Scale, Scaling
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_reals,
)
from hyfdca.protocol.messages import (
    Message,
    Part,
    Sums,
)
from hyfdca.stages.scaling.learned import Learned
from hyfdca.stages.scaling.messages import (
    LARGEST,
    ScalingNotice,
    Statistics,
    StatisticsRequest,
    exchanges,
)
from hyfdca.stages.secure_max import BASE


class ScalingClient:
    """A client's half: statistics of its own cells."""

    def __init__(
        self,
        cells: Cells,
        scale: Scale,
        missing: Missing,
        sealers: Sealers,
        is_centred: bool = False,
    ) -> None:
        self._is_centred = is_centred or scale == "standard"
        if self._is_centred and not cells.is_dense:
            raise ValueError(
                "Centring features would fill a sparse table; use scale='maxabs' or "
                "'none', and uncovered='zero'."
            )
        self._cells = cells
        self._sealing = Sealing("sealed", sealers, (0, cells.stored.shape[1]), 1)
        self._sum_bits = sealers.encryption.sum_bits
        self._scale, self._missing = scale, missing
        self._observed = ~np.isnan(cells.stored.data)
        self._columns = cells.stored.indices[self._observed]
        self._values = cells.stored.data[self._observed]
        self._learned = Learned.nothing(cells.stored.shape[1])
        self._plan = [phase for phase, _ in exchanges(scale, missing, is_centred)]
        self._n_sent = 0  # exchanges so far; the sum of the last comes with the next
        self._sum_error = 0.0  # a bound on the error of the last sum, from its grid
        self._is_known = not self._plan

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            "arrange": self._sealing.arrange,
            "digits": self._digits,
            "means": self._sums,
            "spread": self._spread_digits,
            "deviations": self._squares,
            "scaling": self._finish,
            "statistics": self._release,
        }

    @property
    def scaling(self) -> Scaling:
        """What the exchanges revealed about this client's features."""
        return self._scaling_by(self._learned)

    def _scaling_by(self, learned: Learned) -> Scaling:
        zeros, means = np.zeros(len(learned.means)), learned.means
        offset = means if self._is_centred else zeros
        scale = np.ones(len(means))
        if self._scale == "standard":
            scale = learned.deviations()
        elif self._scale == "maxabs":
            scale = learned.sizes.number()
        filling = means if self._missing == "mean" else zeros
        return Scaling(offset, np.where(scale > 0.0, scale, 1.0), filling)

    def _digits(self, request: StatisticsRequest) -> Part:
        learned = self._begin("digits", request)
        zeros = self._n_unstored() > 0
        largest = self._largest(np.abs(self._values), np.where(zeros, 0.0, -1.0))
        return self._part(learned.sizes.next_digit(largest), request, learned)

    def _sums(self, request: StatisticsRequest) -> Part:
        learned = self._begin("means", request)
        counts = self._count_observed() + self._n_unstored()
        sums = self._sum(self._values / learned.sizes.unit()[self._columns])
        return self._part(np.column_stack([counts, sums]), request, learned)

    def _spread_digits(self, request: StatisticsRequest) -> Part:
        learned = self._begin("spread", request)
        none = np.full(len(learned.means), -1.0)
        largest = self._largest(np.abs(self._distances(learned)), none)
        return self._part(learned.spread.next_digit(largest), request, learned)

    def _squares(self, request: StatisticsRequest) -> Part:
        learned = self._begin("deviations", request)
        distances = self._distances(learned) / learned.spread.unit()[self._columns]
        return self._part(self._sum(distances**2)[:, None], request, learned)

    def _finish(self, notice: ScalingNotice) -> None:
        if self._n_sent < len(self._plan) or self._is_known:
            raise RemoteProtocolError("scaling ends before its exchanges or twice")
        learned = self._with_sum(notice.known)
        found = self._scaling_by(learned)
        if not np.isfinite([found.offset, found.scale, found.filling]).all():
            raise RemoteProtocolError("the sums of the statistics are impossible")
        self._learned, self._is_known = learned, True

    def _release(self, _: Message) -> Statistics:
        if not self._is_known:
            raise RemoteProtocolError("the scaling is not known yet")
        scaling = self.scaling
        return Statistics(
            pack_reals(scaling.offset),
            pack_reals(scaling.scale),
            pack_reals(scaling.filling),
        )

    # Sums that come back

    def _begin(self, phase: str, request: StatisticsRequest) -> Learned:
        """Check that this is the next exchange; return what is known with its sum.

        Nothing changes until there is an answer, because requests may be refused.
        """
        if self._plan[self._n_sent : self._n_sent + 1] != [phase]:
            raise RemoteProtocolError(f"phase {phase!r} is out of order")
        if (request.known is None) != (self._n_sent == 0):
            raise RemoteProtocolError("the sum of the exchange before is missing")
        reach = request.grid.limit_bits - request.grid.fraction_bits
        if math.log2(LARGEST * max(self._cells.stored.shape[0], 1)) > reach:
            raise RemoteProtocolError("the grid is too fine for sums of these cells")
        if request.known is None:
            return self._learned
        return self._with_sum(request.known)

    def _with_sum(self, known: Sums) -> Learned:
        """Return what is known with the sum over holders of what was sent last."""
        last, learned = self._plan[self._n_sent - 1], self._learned
        if last in ("digits", "spread"):
            return learned.with_digit(last, self._opened(known, BASE))
        if last == "means":
            counts, sums = self._opened(known, 2).T
            return learned.with_means(counts, sums, self._sum_error)
        [squares] = self._opened(known, 1).T
        return learned.with_squares(squares)

    def _opened(self, sums: Sums, width: int) -> FloatArray:
        return self._sealing.opened_features("statistics", sums, width)

    # Sums of this client

    def _part(
        self, values: FloatArray, request: StatisticsRequest, learned: Learned
    ) -> Part:
        try:
            sealed = self._sealing.sealed_features("statistics", values, request.grid)
        except GridOverflowError:
            raise RemoteProtocolError("a maximum is below this client's own") from None
        self._learned, self._n_sent = learned, self._n_sent + 1
        # A grid leaves room for all holders, each of which rounds by half a step.
        holder_bits = self._sum_bits - request.grid.limit_bits
        self._sum_error = math.ldexp(1.0, holder_bits - request.grid.fraction_bits)
        return Part(sealed)

    def _distances(self, learned: Learned) -> FloatArray:
        distances: FloatArray = self._values - learned.means[self._columns]
        return distances

    def _sum(self, values: FloatArray) -> FloatArray:
        sums = np.zeros(len(self._learned.means))
        np.add.at(sums, self._columns, values)
        return sums

    def _count_observed(self) -> IntArray:
        return np.bincount(self._columns, minlength=len(self._learned.means))

    def _n_unstored(self) -> IntArray:
        """Return how many owned cells of a feature are zero and not stored."""
        return self._cells.n_owned - n_stored(self._cells.stored)

    def _largest(self, values: FloatArray, start: FloatArray) -> FloatArray:
        """Return the largest value of each feature, below 0 where there is none."""
        largest = start.copy()
        np.maximum.at(largest, self._columns, values)
        return largest

"""Scaling and missing values, from sums over holders: no cell leaves its client.

It comes before training, as a conversation of its own. Statistics are over the cells
that are held, owned and observed: a cell held twice counts at its owner alone, NaN is
a missing cell, a cell nobody holds is in no statistic (and zero afterwards).

| phase      | down                          | up                                   |
|------------|-------------------------------|--------------------------------------|
| digits     | counts of the digit before    | one-hot count of the next digit      |
| means      | counts of the last digit      | number and sum of cells              |
| spread     | numbers and sums, then counts | as digits, of distances to the mean  |
| deviations | counts of the last digit      | sum of squared distances to the mean |
| scaling    | the sum of the last exchange  | -                                    |
| statistics | -                             | offset, scale and filling, open      |

All are sums by feature, sealed; a client opens those of its own features. Digits are
those of the largest number of a feature (``secure_max.py``). Sums are sent in units of
that number, so features of any size keep their precision, and no part can be too
large for its grid: there is nothing to ask again on a coarser one.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError, grid_for
from hyfdca.crypto.schemes.registry import Adders, Sealers, Use
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.owner_groups import OwnerGroups, by_feature
from hyfdca.federation.sealing import Sealing
from hyfdca.federation.sums import CachedSum, check_grid, layout_for
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.ownership import Cells, n_stored
from hyfdca.model.scaling import Missing, Scale, Scaling
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_reals,
    unpack_reals,
)
from hyfdca.protocol.messages import (
    GridSpec,
    Message,
    OnGrid,
    Part,
    Seen,
    Sums,
)
from hyfdca.protocol.phases import START, Phase, Phases
from hyfdca.protocol.sessions import (
    BadReplyError,
    Conversation,
    Handlers,
    ServerSession,
    reply_of,
)
from hyfdca.stages.secure_max import BASE, DIGITS, EXPONENT_DIGITS, SecureMax

_LARGEST = 4.0  # above the square of a number in units of its feature


class StatisticsRequest(Message, frozen=True):
    """The sum of the exchange before down, a sum by feature up."""

    known: Annotated[Sums | None, Seen("statistics")]
    grid: OnGrid


class ScalingNotice(Message, frozen=True):
    """The sum of the last exchange; no answer."""

    known: Annotated[Sums, Seen("statistics")]


class Statistics(Message, frozen=True):
    """Scaling of a client's features, in the clear, as part of the model."""

    offset: Annotated[memoryview, Seen("released scaling")]  # float64
    scale: Annotated[memoryview, Seen("released scaling")]
    filling: Annotated[memoryview, Seen("released scaling")]


def _sum(*after: str) -> Phase:
    return Phase(StatisticsRequest, (Part,), after, "statistics")


PHASES: Phases = {
    "arrange": Phase(Arrangements, after=(START,)),
    "digits": _sum("arrange", "digits"),
    "means": _sum("digits"),
    "spread": _sum("means", "spread"),
    "deviations": _sum("spread"),
    "scaling": Phase(ScalingNotice, after=("digits", "means", "deviations")),
    # Where nothing is scaled there is nothing to sum.
    "statistics": Phase(Message, (Statistics,), ("scaling", START)),
}


class ScalingServer:
    """The server's half: it adds, and reads nothing."""

    def __init__(
        self, features: Axis, n_samples: int, adders: Adders, session: ServerSession
    ) -> None:
        self._features, self._session = features, session
        self._n_samples = n_samples
        self._sum_bits = adders.encryption.sum_bits
        self._groups = OwnerGroups(features, adders.group_secret, "scaled features")
        holders = int(features.counts.max(initial=1))
        use = Use(self._groups.arrangement, BASE, n_summands=holders)
        self._scheme = adders.pick(use)
        self._adder = adders.named(self._scheme)

    def run(
        self, scale: Scale, missing: Missing, is_centred: bool = False
    ) -> Conversation[None]:
        """Sum what these settings need; every client then knows its scaling."""
        plan = exchanges(scale, missing, is_centred)
        if plan:
            notices = {client: self._arrangements(client) for client in self._everyone}
            yield from self._session.tell("arrange", notices)
        known: CachedSum | None = None
        for phase, width in plan:
            known = yield from self._exchange(phase, width, known)
        if known is not None:
            sums = {c: ScalingNotice(known.take(c)) for c in self._everyone}
            yield from self._session.tell("scaling", sums)

    def release(self) -> Conversation[Scaling]:
        """Return the scaling of all features, each from its lowest-ranked holder."""
        replies = yield from self._session.ask(
            "statistics", dict.fromkeys(self._everyone, Message()), Statistics
        )
        # Of a feature that nobody holds, the scale is 1.
        result = np.repeat([[0.0], [1.0], [0.0]], self._features.n_items, axis=1)
        first = self._features.first_holders([True] * len(replies))
        for client in self._everyone:
            items, reply = self._features.items[client], replies[client]
            with reply_of(client):
                found = _unpacked(reply, len(items))
            is_first = first[items] == client
            result[:, items[is_first]] = found[:, is_first]
            differs = (result[:, items] != found).any(axis=0)
            if differs.any():
                others = np.unique(first[items[differs]]).tolist()
                reason = "they found different statistics of a column"
                raise BadReplyError("", [*others, client], reason)
        return Scaling(*result)

    def _arrangements(self, client: int) -> Arrangements:
        return by_feature(self._scheme, self._groups, client)

    @property
    def _everyone(self) -> range:
        return range(len(self._features.items))

    def _exchange(
        self, phase: str, width: int, known: CachedSum | None
    ) -> Conversation[CachedSum]:
        holders = int(self._features.counts.max(initial=1))
        grid = grid_for(_LARGEST * self._n_samples, holders, self._sum_bits)
        spec = GridSpec(grid.fraction_bits, grid.limit_bits)
        requests = {
            c: StatisticsRequest(known.take(c) if known else None, spec)
            for c in self._everyone
        }
        parts = yield from self._session.ask(phase, requests, Part)
        layout = layout_for(self._features, self._groups.numbers, width, self._adder)
        total = CachedSum(layout)
        for client, part in parts.items():
            check_grid(client, part.vector, grid.fraction_bits)
            total.put(client, part.vector)
        return total


def _unpacked(reply: Statistics, n_features: int) -> FloatArray:
    """Return offset, scale and filling of a client's features, (3, features)."""
    numbers = (reply.offset, reply.scale, reply.filling)
    found = np.stack([unpack_reals(own, n_features) for own in numbers])
    if not (found[1] > 0.0).all():
        raise RemoteProtocolError("a scale is not positive")
    return found


def exchanges(
    scale: Scale, missing: Missing, is_centred: bool = False
) -> list[tuple[str, int]]:
    """Return the phases that these settings need, with their numbers per feature.

    Parameters
    ----------
    is_centred : bool
        Whether features are centred even if the scale does not do it: then a cell that
        nobody holds, which is zero, is the mean.
    """
    if scale == "none" and missing == "refuse" and not is_centred:
        return []
    n_digits = DIGITS if scale == "maxabs" else EXPONENT_DIGITS
    phases = [("digits", BASE)] * n_digits
    if scale == "standard" or missing == "mean" or is_centred:
        phases.append(("means", 2))
    if scale == "standard":
        phases += [*[("spread", BASE)] * EXPONENT_DIGITS, ("deviations", 1)]
    return phases


@dataclass(frozen=True)
class _Learned:
    """What the sums so far say of a client's features."""

    counts: FloatArray
    means: FloatArray
    variances: FloatArray
    sizes: SecureMax
    spread: SecureMax

    @classmethod
    def nothing(cls, n_features: int) -> _Learned:
        """Return what is known before the first sum."""
        zeros = np.zeros(n_features)
        return cls(zeros, zeros, zeros, SecureMax(n_features), SecureMax(n_features))

    def with_digit(self, phase: str, counts: FloatArray) -> _Learned:
        """Return the same with one more digit of a maximum."""
        largest = copy(self.sizes if phase == "digits" else self.spread)
        largest.take(counts)
        if phase == "digits":
            return replace(self, sizes=largest)
        return replace(self, spread=largest)

    def with_means(self, counts: FloatArray, sums: FloatArray) -> _Learned:
        """Return the same with means, of sums in units of the sizes."""
        means = sums / np.maximum(counts, 1.0) * self.sizes.unit()
        return replace(self, counts=counts, means=means)

    def with_squares(self, squares: FloatArray) -> _Learned:
        """Return the same with variances, of squares in units of the spread."""
        mean_square = squares / np.maximum(self.counts, 1.0)
        return replace(self, variances=mean_square * self.spread.unit() ** 2)

    def deviations(self) -> FloatArray:
        """Return standard deviations, 0 where only rounding differs from the mean."""
        epsilon = np.finfo(np.float64).eps
        noise = self.counts * epsilon * self.variances
        noise += (self.counts * self.means * epsilon) ** 2
        return np.sqrt(np.where(self.variances > noise, self.variances, 0.0))


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
        self._scale, self._missing = scale, missing
        self._observed = ~np.isnan(cells.stored.data)
        self._columns = cells.stored.indices[self._observed]
        self._values = cells.stored.data[self._observed]
        self._learned = _Learned.nothing(cells.stored.shape[1])
        self._plan = [phase for phase, _ in exchanges(scale, missing, is_centred)]
        self._n_sent = 0  # exchanges so far; the sum of the last comes with the next
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
        """What the exchanges said of this client's features."""
        return self._scaling_by(self._learned)

    def _scaling_by(self, learned: _Learned) -> Scaling:
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

    def _begin(self, phase: str, request: StatisticsRequest) -> _Learned:
        """Check that this is the next exchange; return what is known with its sum.

        Nothing changes before there is an answer, because requests may be refused.
        """
        if self._plan[self._n_sent : self._n_sent + 1] != [phase]:
            raise RemoteProtocolError(f"phase {phase!r} is out of order")
        if (request.known is None) != (self._n_sent == 0):
            raise RemoteProtocolError("the sum of the exchange before is missing")
        reach = request.grid.limit_bits - request.grid.fraction_bits
        if math.log2(_LARGEST * max(self._cells.stored.shape[0], 1)) > reach:
            raise RemoteProtocolError("the grid is too fine for sums of these cells")
        if request.known is None:
            return self._learned
        return self._with_sum(request.known)

    def _with_sum(self, known: Sums) -> _Learned:
        """Return what is known with the sum over holders of what was sent last."""
        last, learned = self._plan[self._n_sent - 1], self._learned
        if last in ("digits", "spread"):
            return learned.with_digit(last, self._opened(known, BASE))
        if last == "means":
            return learned.with_means(*self._opened(known, 2).T)
        [squares] = self._opened(known, 1).T
        return learned.with_squares(squares)

    def _opened(self, sums: Sums, width: int) -> FloatArray:
        return self._sealing.opened_features("statistics", sums, width)

    # Sums of this client

    def _part(
        self, values: FloatArray, request: StatisticsRequest, learned: _Learned
    ) -> Part:
        try:
            sealed = self._sealing.sealed_features("statistics", values, request.grid)
        except GridOverflowError:
            raise RemoteProtocolError("a maximum is below this client's own") from None
        self._learned, self._n_sent = learned, self._n_sent + 1
        return Part(sealed)

    def _distances(self, learned: _Learned) -> FloatArray:
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

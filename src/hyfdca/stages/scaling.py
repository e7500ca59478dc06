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
from typing import Annotated

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError, grid_for
from hyfdca.crypto.schemes.registry import Adders, Sealers, Use
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.owner_groups import OwnerGroups, by_feature
from hyfdca.federation.sealing import Sealing
from hyfdca.federation.sums import CachedSum, layout_for
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
from hyfdca.protocol.sessions import Conversation, Handlers, ServerSession
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
        result = Scaling(*np.zeros((3, self._features.n_items)))
        result.scale[:] = 1.0  # of a feature nobody holds
        for client in reversed(self._everyone):
            items, reply = self._features.items[client], replies[client]
            result.offset[items] = unpack_reals(reply.offset, len(items))
            result.scale[items] = unpack_reals(reply.scale, len(items))
            result.filling[items] = unpack_reals(reply.filling, len(items))
        return result

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
            total.put(client, part.vector)
        return total


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
        n_features = cells.stored.shape[1]
        self._counts = np.zeros(n_features)
        self._means, self._variances = np.zeros(n_features), np.zeros(n_features)
        self._sizes, self._spread = SecureMax(n_features), SecureMax(n_features)
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
        n_features = len(self._means)
        offset = self._means if self._is_centred else np.zeros(n_features)
        scale = np.ones(n_features)
        if self._scale == "standard":
            scale = self._deviations()
        elif self._scale == "maxabs":
            scale = self._sizes.number()
        filling = self._means if self._missing == "mean" else np.zeros(n_features)
        return Scaling(offset, np.where(scale > 0.0, scale, 1.0), filling)

    def _deviations(self) -> FloatArray:
        """Return standard deviations, 0 where only rounding differs from the mean."""
        epsilon = np.finfo(np.float64).eps
        noise = self._counts * epsilon * self._variances
        noise += (self._counts * self._means * epsilon) ** 2
        return np.sqrt(np.where(self._variances > noise, self._variances, 0.0))

    def _digits(self, request: StatisticsRequest) -> Part:
        self._begin("digits", request)
        zeros = self._n_unstored() > 0
        largest = self._largest(np.abs(self._values), np.where(zeros, 0.0, -1.0))
        return self._part(self._sizes.next_digit(largest), request)

    def _sums(self, request: StatisticsRequest) -> Part:
        self._begin("means", request)
        counts = self._count_observed() + self._n_unstored()
        sums = self._sum(self._values / self._sizes.unit()[self._columns])
        return self._part(np.column_stack([counts, sums]), request)

    def _spread_digits(self, request: StatisticsRequest) -> Part:
        self._begin("spread", request)
        none = np.full(len(self._means), -1.0)
        largest = self._largest(np.abs(self._distances()), none)
        return self._part(self._spread.next_digit(largest), request)

    def _squares(self, request: StatisticsRequest) -> Part:
        self._begin("deviations", request)
        distances = self._distances() / self._spread.unit()[self._columns]
        return self._part(self._sum(distances**2)[:, None], request)

    def _finish(self, notice: ScalingNotice) -> None:
        if self._n_sent < len(self._plan) or self._is_known:
            raise RemoteProtocolError("scaling ends before its exchanges or twice")
        self._take(notice.known)
        self._is_known = True

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

    def _begin(self, phase: str, request: StatisticsRequest) -> None:
        """Check that this is the next exchange and can be answered, then take part."""
        if self._plan[self._n_sent : self._n_sent + 1] != [phase]:
            raise RemoteProtocolError(f"phase {phase!r} is out of order")
        if (request.known is None) != (self._n_sent == 0):
            raise RemoteProtocolError("the sum of the exchange before is missing")
        reach = request.grid.limit_bits - request.grid.fraction_bits
        if math.log2(_LARGEST * max(self._cells.stored.shape[0], 1)) > reach:
            raise RemoteProtocolError("the grid is too fine for sums of these cells")
        if request.known is not None:
            self._take(request.known)

    def _take(self, known: Sums) -> None:
        """Note the sum over holders of what this client sent last."""
        last = self._plan[self._n_sent - 1]
        if last == "digits":
            self._sizes.take(self._opened(known, BASE))
        elif last == "spread":
            self._spread.take(self._opened(known, BASE))
        elif last == "means":
            self._counts, sums = self._opened(known, 2).T
            self._means = sums / np.maximum(self._counts, 1.0) * self._sizes.unit()
        else:
            [squares] = self._opened(known, 1).T
            mean_square = squares / np.maximum(self._counts, 1.0)
            self._variances = mean_square * self._spread.unit() ** 2

    def _opened(self, sums: Sums, width: int) -> FloatArray:
        return self._sealing.opened_features("statistics", sums, width)

    # Sums of this client

    def _part(self, values: FloatArray, request: StatisticsRequest) -> Part:
        try:
            sealed = self._sealing.sealed_features("statistics", values, request.grid)
        except GridOverflowError:
            raise RemoteProtocolError("a maximum is below this client's own") from None
        self._n_sent += 1
        return Part(sealed)

    def _distances(self) -> FloatArray:
        distances: FloatArray = self._values - self._means[self._columns]
        return distances

    def _sum(self, values: FloatArray) -> FloatArray:
        sums = np.zeros(len(self._means))
        np.add.at(sums, self._columns, values)
        return sums

    def _count_observed(self) -> IntArray:
        return np.bincount(self._columns, minlength=len(self._means))

    def _n_unstored(self) -> IntArray:
        """Return how many owned cells of a feature are zero and not stored."""
        return self._cells.n_owned - n_stored(self._cells.stored)

    def _largest(self, values: FloatArray, start: FloatArray) -> FloatArray:
        """Return the largest value of each feature, below 0 where there is none."""
        largest = start.copy()
        np.maximum.at(largest, self._columns, values)
        return largest

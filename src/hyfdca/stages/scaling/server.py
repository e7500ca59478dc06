"""Scaling and missing values, from sums over holders: no cell leaves its client.

It comes before training, as a separate conversation. Statistics are over the cells
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

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import grid_for
from hyfdca.crypto.schemes.registry import Adders, Use
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.owner_groups import OwnerGroups, by_feature
from hyfdca.federation.sums import CachedSum, check_grid, whole_layout
from hyfdca.holdings.axis import Axis
from hyfdca.model.scaling import Missing, Scale, Scaling
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    unpack_reals,
)
from hyfdca.protocol.messages import (
    GridSpec,
    Message,
    Part,
)
from hyfdca.protocol.server_session import (
    BadReplyError,
    Conversation,
    ServerSession,
    reply_of,
)
from hyfdca.stages.scaling.messages import (
    LARGEST,
    ScalingNotice,
    Statistics,
    StatisticsRequest,
    exchanges,
)
from hyfdca.stages.secure_max import BASE


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
        grid = grid_for(LARGEST * self._n_samples, holders, self._sum_bits)
        spec = GridSpec(grid.fraction_bits, grid.limit_bits)
        requests = {
            c: StatisticsRequest(known.take(c) if known else None, spec)
            for c in self._everyone
        }
        parts = yield from self._session.ask(phase, requests, Part)
        layout = whole_layout(self._features, self._groups.numbers, width, self._adder)
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

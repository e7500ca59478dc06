"""What the servers of dual ascent keep: sealed duals, margins and shares.

| exchange | down                       | up                        |
|----------|----------------------------|---------------------------|
| shares   | duals that changed, sealed | Σ α_i x_{k,i}, by profile |
| margins  | weights, by profile        | x_{k,i}·w, sealed         |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.registry import Adders
from hyfdca.federation.problem import Problem
from hyfdca.federation.server import Coordinator
from hyfdca.federation.sums import CachedSum, RunningSum, read_sum
from hyfdca.holdings.layout import Layout
from hyfdca.protocol import messages as m
from hyfdca.protocol.codec import LocalProtocolError, pack_indices
from hyfdca.protocol.server_session import Conversation, ServerSession

RESEAL_PHASE = "reseal"
_NEWS_KEPT = 64  # lists of changed duals that wait for an absent client, then joined


class DualCoordinator(Coordinator):
    """The sums of a study that changes duals, and who has heard of what."""

    kept: ClassVar[tuple[str, ...]] = (
        "duals",
        "margins",
        "shares",
        "_news",
        "_informed",
        "n_measured",
        "is_exact",
    )

    def __init__(
        self,
        problem: Problem,
        layout: Layout,
        adders: Adders,
        session: ServerSession,
        drawn_share: float = 1.0,
    ) -> None:
        super().__init__(problem, layout, adders, session, drawn_share)
        self.duals = RunningSum(self.vaults.by_sample(problem.n_outputs))
        self.margins = self.sample_sum()
        self.shares = self.feature_sum()
        # Positions whose dual changed since the client last heard of it; None for all.
        self._news: list[list[IntArray | None]] = [[] for _ in self.everyone]
        self._informed: set[int] = set()  # who has the present weights
        self.n_measured = 0
        # Whether shares and margins of all samples are those of the present duals.
        self.is_exact = True

    def read_features(self, total: CachedSum) -> FloatArray:
        """Return a sum by feature over λN; only the open profile shows it."""
        if self.problem.profile != "open":
            raise LocalProtocolError("only the open profile shows sums by feature")
        shape = (self.layout.features.n_items, self.problem.n_outputs)
        return read_sum(total.take_all(), shape) / self.problem.l2_scale

    # The two primitives

    def refresh_shares(self, clients: Iterable[int]) -> Conversation[None]:
        """PrimalAggregation: duals that changed down, shares up; w is their sum."""
        positions = {client: self._take_news(client) for client in clients}
        parts = yield from self.gather(
            "shares",
            positions,
            ["shares"],
            lambda client: self.shares_request(client, positions[client]),
            m.Part,
        )
        self.put_shares(parts)

    def put_shares(self, parts: dict[int, m.Part]) -> None:
        """Take new shares; nobody has the new weights yet."""
        for client, part in parts.items():
            self.shares.put(client, part.vector)
        if parts:
            self._informed.clear()

    def refresh_margins(
        self,
        clients: Iterable[int],
        positions: Callable[[int], IntArray | None] = lambda _: None,
    ) -> Conversation[None]:
        """SecureInnerProduct: weights down, margins (of some samples) up."""

        def wanted(client: int) -> IntArray | None:
            # A part stands on one grid: after a change of grid all of it is sent.
            held = self.margins.fraction_bits(client)
            same_grid = held in (None, self.grids["margins"].fraction_bits)
            return positions(client) if same_grid else None

        parts = yield from self.gather(
            "margins",
            clients,
            ["margins"],
            lambda client: m.MarginsRequest(
                self.weights_for(client),
                pack_indices(wanted(client)),
                self.spec("margins"),
            ),
            m.Part,
        )
        for client, part in parts.items():
            self.margins.put(client, part.vector, wanted(client))
        self._informed.update(parts)

    def send_weights(self, clients: Iterable[int]) -> Conversation[None]:
        """Tell the present weights to those who do not have them."""
        new = [client for client in clients if client not in self._informed]
        notices = {c: m.WeightsNotice(self.shares.take(c)) for c in new}
        yield from self.session.tell("weights", notices)
        self._informed.update(new)

    def add_dual_changes(
        self, parts: dict[int, m.Part], drawn: dict[int, IntArray | None]
    ) -> None:
        """Add changes of drawn duals to the sealed duals."""
        for client, part in parts.items():
            self.duals.add(client, part.vector, drawn[client])

    def reseal_duals(self, present: Iterable[int]) -> Conversation[None]:
        """Have sums of many changes sealed anew, each by its first holder present."""
        if not self.duals.is_worn:
            return
        here, samples = set(present), self.layout.samples
        first = samples.first_holders([client in here for client in self.everyone])
        rows = {c: np.flatnonzero(first[samples.items[c]] == c) for c in sorted(here)}
        requests = {
            client: m.ResealRequest(
                self.duals.take(client, positions), pack_indices(positions)
            )
            for client, positions in rows.items()
            if len(positions)
        }
        replies = yield from self.session.ask(RESEAL_PHASE, requests, m.Resealed)
        for client, reply in replies.items():
            self.duals.replace(client, reply.vectors, rows[client])

    def announce(self, positions: dict[int, IntArray | None]) -> None:
        """Note for every holder, absent or not, whose duals it must hear of."""
        for client, rows in positions.items():
            self._news[client].append(rows)
            if len(self._news[client]) > _NEWS_KEPT:
                self._news[client] = [self.pending(client)]

    def has_news(self, client: int) -> bool:
        """Return whether duals changed since the client last heard of them."""
        return bool(self._news[client])

    def shares_request(self, client: int, rows: IntArray | None) -> m.SharesRequest:
        """Return the request for a share, with the duals of some rows."""
        duals = self.duals.take(client, rows)
        return m.SharesRequest(duals, pack_indices(rows), self.spec("shares"))

    def weights_for(self, client: int) -> m.Sums | None:
        """Return the weights for a client, or none if it has them."""
        return None if client in self._informed else self.shares.take(client)

    def pending(self, client: int) -> IntArray | None:
        """Return the positions whose dual the client has not heard of; None for all."""
        known = [rows for rows in self._news[client] if rows is not None]
        if len(known) < len(self._news[client]):
            return None
        if len(known) == 1:
            return known[0]
        return np.unique(np.concatenate([*known, np.empty(0, np.int64)]))

    def _take_news(self, client: int) -> IntArray | None:
        news = self.pending(client)
        self._news[client].clear()
        return news

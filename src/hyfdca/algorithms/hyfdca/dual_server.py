"""The server's side of dual ascent: sealed duals, margins and shares, and measuring.

| exchange        | down                               | up                        |
|-----------------|------------------------------------|---------------------------|
| shares          | duals that changed, sealed         | Σ α_i x_{k,i}, by profile |
| margins         | weights, by profile                | x_{k,i}·w, sealed         |
| measure shares  | duals a client missed, sealed      | Σ α_i x_{k,i}             |
| measure margins | weights                            | x_{k,i}·w, sealed         |
| losses          | margins of samples counted, sealed | totals, sealed            |
| open            | grand totals, to one client        | P and D, open             |

The two ``measure`` exchanges are needed only where some client is behind. What they
collect is kept apart from the training state, so that measuring does not bring anybody
up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.hyfdca import messages as m
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.evaluation.measuring import counted_positions, measured
from hyfdca.federation.margins import gather_margins
from hyfdca.federation.messages import ReleaseRequest
from hyfdca.federation.sealing.client_sealing import read_sum
from hyfdca.federation.server import Federation, FederationState, Point
from hyfdca.federation.sums import CachedSum, CachedSumState, RunningSumState
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.codec import LocalProtocolError, pack_indices
from hyfdca.protocol.messages import Part, Sums
from hyfdca.protocol.server_session import Conversation

_NEWS_KEPT = 64  # lists of changed duals that wait for an absent client, then joined
_N_TOTALS = 4  # loss, conjugate, λ/2||w||² for P and for D


@dataclass(frozen=True, repr=False)
class DualServerState:
    """What a checkpoint keeps of the server's side of dual ascent."""

    federation: FederationState
    duals: RunningSumState
    margins: CachedSumState
    shares: CachedSumState
    news: list[list[IntArray | None]]
    informed: set[int]
    n_measured: int
    is_exact: bool


class DualServer:
    """The sums of a training that changes duals, and what each client knows."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.duals = federation.running_drawn_sum()
        self.margins = federation.drawn_sum()
        self.shares = federation.feature_sum()
        # Positions whose dual the client has not received since it changed; None: all.
        self._news: list[list[IntArray | None]] = [[] for _ in federation.everyone]
        self._informed: set[int] = set()  # who has the present weights
        self._n_measured = 0
        # Whether shares and margins of all samples are those of the present duals.
        self.is_exact = True

    def state(self) -> DualServerState:
        """Return what a checkpoint keeps."""
        return DualServerState(
            self.federation.state(),
            self.duals.state(),
            self.margins.state(),
            self.shares.state(),
            self._news,
            self._informed,
            self._n_measured,
            self.is_exact,
        )

    def restore(self, state: DualServerState) -> None:
        """Take a state."""
        self.federation.restore(state.federation)
        self.duals.restore(state.duals)
        self.margins.restore(state.margins)
        self.shares.restore(state.shares)
        self._news = [list(news) for news in state.news]
        self._informed = set(state.informed)
        self._n_measured, self.is_exact = state.n_measured, state.is_exact

    def read_features(self, total: CachedSum) -> FloatArray:
        """Return a sum by feature over λN; only the open profile shows it."""
        if self.federation.problem.profile != "open":
            raise LocalProtocolError("only the open profile shows sums by feature")
        shape = (
            self.federation.layout.features.n_items,
            self.federation.problem.n_outputs,
        )
        return read_sum(total.take_all(), shape) / self.federation.problem.l2_scale

    # The two primitives

    def refresh_shares(self, clients: Iterable[int]) -> Conversation[None]:
        """PrimalAggregation: duals that changed down, shares up; w is their sum."""
        positions = {client: self._take_news(client) for client in clients}
        parts = yield from self.federation.gather(
            "shares",
            positions,
            [self.federation.grids.shares],
            lambda client: self.shares_request(client, positions[client]),
            Part,
        )
        self.put_shares(parts)

    def put_shares(self, parts: dict[int, Part]) -> None:
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
        parts = yield from gather_margins(
            self.federation,
            "margins",
            clients,
            self.margins,
            positions,
            lambda client, rows, grid: m.MarginsRequest(
                self.weights_for(client), rows, grid
            ),
        )
        self._informed.update(parts)

    def send_weights(self, clients: Iterable[int]) -> Conversation[None]:
        """Send the present weights to clients that do not have them."""
        new = [client for client in clients if client not in self._informed]
        notices = {c: m.WeightsNotice(self.shares.take(c)) for c in new}
        yield from self.federation.session.tell("weights", notices)
        self._informed.update(new)

    def add_dual_changes(
        self, parts: dict[int, Part], drawn: dict[int, IntArray | None]
    ) -> None:
        """Add changes of drawn duals to the sealed duals."""
        for client, part in parts.items():
            self.duals.add(client, part.vector, drawn[client])

    def reseal_duals(self, present: Iterable[int]) -> Conversation[None]:
        """Let the first holder present reseal each sum of many changes."""
        if not self.duals.is_worn:
            return
        here, samples = set(present), self.federation.layout.samples
        first = samples.first_holders(
            [client in here for client in self.federation.everyone]
        )
        rows = {c: np.flatnonzero(first[samples.items[c]] == c) for c in sorted(here)}
        requests = {
            client: m.ResealRequest(
                self.duals.take(client, positions), pack_indices(positions)
            )
            for client, positions in rows.items()
            if len(positions)
        }
        replies = yield from self.federation.session.ask("reseal", requests, m.Resealed)
        for client, reply in replies.items():
            self.duals.replace(client, reply.vectors, rows[client])

    def announce(self, positions: dict[int, IntArray | None]) -> None:
        """Note which changed duals every holder, present or absent, must receive."""
        for client, rows in positions.items():
            self._news[client].append(rows)
            if len(self._news[client]) > _NEWS_KEPT:
                self._news[client] = [self.pending(client)]

    def has_news(self, client: int) -> bool:
        """Return whether duals have changed since the client last received them."""
        return bool(self._news[client])

    def shares_request(self, client: int, rows: IntArray | None) -> m.SharesRequest:
        """Return the request for a share, with the duals of some rows."""
        duals = self.duals.take(client, rows)
        return m.SharesRequest(
            duals, pack_indices(rows), self.federation.grids.shares.spec
        )

    def weights_for(self, client: int) -> Sums | None:
        """Return the weights for a client, or none if it has them."""
        return None if client in self._informed else self.shares.take(client)

    def pending(self, client: int) -> IntArray | None:
        """Return the positions whose dual the client has not received; None for all."""
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

    # Measuring

    def measure(self) -> Conversation[Measurement]:
        """Measure P and D of the present duals and of the weights they give."""
        federation, number = self.federation, self._n_measured + 1
        margins, is_current = self.margins, self.is_exact
        if not is_current:
            margins = yield from self._margins_on_the_side()
        grid = federation.grids.totals
        total = yield from federation.gather_total(
            "losses",
            grid,
            lambda client, spec: m.LossesRequest(
                margins.take(client, counted_positions(federation, client)),
                is_current,
                number,
                spec,
            ),
            (_N_TOTALS, federation.problem.n_outputs),
        )
        [totals] = yield from federation.open_totals([total])
        self._n_measured = number
        return measured(totals)

    def _margins_on_the_side(self) -> Conversation[CachedSum]:
        """Sum shares, then margins, of all clients at the present duals."""
        federation, grids = self.federation, self.federation.grids
        missed = [self.pending(client) for client in federation.everyone]
        shares = yield from federation.gather_sum(
            "measure shares",
            [grids.shares],
            lambda client: self.shares_request(client, missed[client]),
            federation.feature_sum(),
        )
        return (
            yield from federation.gather_sum(
                "measure margins",
                [grids.margins],
                lambda client: m.MarginsRequest(
                    shares.take(client), None, grids.margins.spec
                ),
                federation.sample_sum(),
            )
        )

    def released_point(self) -> Point:
        """Return where the weights last measured are."""
        return Point(ReleaseRequest(self._n_measured))

    def release(self) -> Conversation[FloatArray]:
        """Return the weights last measured."""
        return self.federation.release(self.released_point())

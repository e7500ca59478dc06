"""What every server half does: set-up, the two primitives, sealed totals.

| exchange       | down                        | up                        |
|----------------|-----------------------------|---------------------------|
| bounds         | -                           | public bounds, open       |
| norms, prepare | sums of ||x_i||², counts    | parts of ||x_i||², sealed |
| shares         | duals that changed, sealed  | Σ α_i x_{k,i}, by profile |
| margins        | weights, by profile         | x_{k,i}·w, sealed         |
| open           | grand totals, to one client | totals, open              |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from hyfdca.algorithms.aggregation import CachedSum, RunningSum, open_sum, sum_of
from hyfdca.algorithms.problem import Problem
from hyfdca.axis import IntArray
from hyfdca.crypto.base import Adder
from hyfdca.crypto.fixedpoint import EXACT_BITS, Grid, grid_for
from hyfdca.crypto.plain import PlainAdder, PlainSealer
from hyfdca.layout import Layout
from hyfdca.losses import FloatArray
from hyfdca.protocol import messages as m
from hyfdca.protocol.codec import (
    LocalProtocolError,
    RemoteProtocolError,
    pack_indices,
)
from hyfdca.protocol.server import Conversation, ServerSession

_MARGIN_HEADROOM = 64.0  # over the largest margin of any point that is not worse than 0
_DUAL_HEADROOM = 64.0  # over the steepest slope at 0, where duals are unbounded
_NEWS_KEPT = 64  # lists of changed duals that wait for an absent client, then joined
_COARSEST_BITS = 128  # a grid may get coarser by; beyond it, a run has diverged


Reply = TypeVar("Reply")


class DivergenceError(ArithmeticError):
    """Numbers outgrew every grid: the steps are too long for this problem."""


class Coordinator:
    """The server's sums and the exchanges that all algorithms share."""

    def __init__(
        self, problem: Problem, layout: Layout, adder: Adder, session: ServerSession
    ) -> None:
        self.problem, self.layout, self.session = problem, layout, session
        self.adder = adder
        self._feature_adder = PlainAdder() if problem.profile == "open" else adder
        self.everyone = list(range(layout.n_clients))
        self.grids: dict[str, Grid] = {}
        self._finest: dict[str, int] = {}
        self.duals = RunningSum(layout.samples, problem.n_outputs, adder)
        self.margins = self.sample_sum()
        self.shares = self.feature_sum()
        # Positions whose dual changed since the client last heard of it; None for all.
        self._news: list[list[IntArray | None]] = [[] for _ in self.everyone]
        self._informed: set[int] = set()  # who has the present weights
        self.n_measured = 0
        # Whether shares and margins of all samples are those of the present duals.
        self.is_exact = True

    def sample_sum(self, n_outputs: int | None = None) -> CachedSum:
        """Return an empty sum by sample."""
        width = n_outputs or self.problem.n_outputs
        return CachedSum(self.layout.samples, width, self.adder)

    def feature_sum(self, n_outputs: int | None = None) -> CachedSum:
        """Return an empty sum by feature, readable as the profile says."""
        width = n_outputs or self.problem.n_outputs
        return CachedSum(self.layout.features, width, self._feature_adder)

    def read_features(self, total: CachedSum) -> FloatArray:
        """Return a sum by feature over λN; only the open profile shows it."""
        if self.problem.profile != "open":
            raise LocalProtocolError("only the open profile shows sums by feature")
        shape = (self.layout.features.n_items, self.problem.n_outputs)
        read = open_sum(total.take_all(), shape, PlainSealer())
        return read / self.problem.l2_scale

    # Set-up

    def set_up(self) -> Conversation[None]:
        """Choose grids, sum ||x_i||² over holders, tell clients the counts."""
        bounds = yield from self.session.ask(
            "bounds", dict.fromkeys(self.everyone, m.Message()), m.Bounds
        )
        self._choose_grids(list(bounds.values()))
        norms = yield from self.gather_sum(
            "norms",
            ["norms"],
            lambda _: m.GridRequest(self.spec("norms")),
            self.sample_sum(1),
        )
        yield from self.session.tell(
            "prepare", {c: self._prepare(c, norms) for c in self.everyone}
        )

    def _prepare(self, client: int, norms: CachedSum) -> m.Prepare:
        samples, features = self.layout.samples, self.layout.features
        held = samples.items[client]
        label_holders = self.layout.label_counts[held]
        return m.Prepare(
            norms.take(client),
            _packed(samples.counts[held]),
            _packed(label_holders),
            _packed(features.counts[features.items[client]]),
        )

    def _choose_grids(self, bounds: list[m.Bounds]) -> None:
        """Set the grids from public numbers so that no sum can overflow.

        Duals: their domain, or a multiple of the steepest slope at 0. Margins: where D
        is above D(0) = 0, λ/2||w||² is below P(0), so |x_i·w| <= ||x_i|| sqrt(2P(0)/λ);
        a run that leaves that region (the paper's step may) asks for coarser grids.
        """
        problem, layout = self.problem, self.layout
        holders = int(layout.samples.counts.max(initial=1))
        feature_holders = int(layout.features.counts.max(initial=1))
        row_norm = sum(b.row_norm for b in bounds)
        loss_at_zero = sum(b.loss_at_zero for b in bounds) / problem.n_samples
        # A change can be as large as the domain is wide.
        largest_dual = problem.loss.shape.high - problem.loss.shape.low
        if math.isinf(largest_dual):
            largest_dual = _DUAL_HEADROOM * max(b.slope_at_zero for b in bounds)
        reach = math.sqrt(2 * loss_at_zero / problem.l2_strength * row_norm)
        column_sum = max(b.column_sum for b in bounds)
        n_clients = layout.n_clients
        self.grids = {
            "norms": grid_for(max(b.row_norm for b in bounds), holders),
            "duals": grid_for(largest_dual, holders, EXACT_BITS),
            "margins": grid_for(_MARGIN_HEADROOM * reach, holders),
            "shares": grid_for(largest_dual * column_sum, feature_holders),
            "totals": grid_for(_MARGIN_HEADROOM * loss_at_zero, n_clients),
        }

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

    def announce(self, positions: dict[int, IntArray | None]) -> None:
        """Note for every holder, absent or not, whose duals it must hear of."""
        for client, rows in positions.items():
            self._news[client].append(rows)
            if len(self._news[client]) > _NEWS_KEPT:
                self._news[client] = [self.pending(client)]

    def has_news(self, client: int) -> bool:
        """Return whether duals changed since the client last heard of them."""
        return bool(self._news[client])

    # Totals

    def open_totals(
        self,
        totals: list[list[m.Sealed]],
        shapes: list[tuple[int, int]],
        phase: str = "open",
    ) -> Conversation[list[FloatArray]]:
        """Add up sealed totals and have the lowest-ranked client open the sums.

        Each list has the parts of one kind of totals.
        """
        request = m.OpenRequest(
            [sum_of(p, s, self.adder) for p, s in zip(totals, shapes, strict=True)],
            [height * width for height, width in shapes],
        )
        replies = yield from self.session.ask(phase, {0: request}, m.Opened)
        numbers = np.array(replies[0].values)
        if numbers.size != sum(request.counts):
            raise RemoteProtocolError("client 0 opened another number of totals")
        parts = np.split(numbers, np.cumsum(request.counts)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    # Asking on a grid

    def gather(
        self,
        phase: str,
        clients: Iterable[int],
        grids: Sequence[str],
        request: Callable[[int], m.Message],
        kind: type[Reply],
    ) -> Conversation[dict[int, Reply]]:
        """Ask for parts of sums, again on coarser grids while some part does not fit.

        ``grids`` names those that the requests and so the replies use.
        """
        asked = list(clients)
        while True:
            requests = {client: request(client) for client in asked}
            either: Any = kind | m.TooLarge
            replies: dict[int, Any] = yield from self.session.ask(
                phase, requests, either
            )
            if not any(isinstance(reply, m.TooLarge) for reply in replies.values()):
                for client, reply in replies.items():
                    self._check_grids(client, reply, grids)
                return replies
            for grid in grids:
                self._coarsen(grid)

    def gather_sum(
        self,
        phase: str,
        grids: Sequence[str],
        request: Callable[[int], m.Message],
        total: CachedSum,
    ) -> Conversation[CachedSum]:
        """Ask everybody for parts of a sum and return it with them put in."""
        parts = yield from self.gather(phase, self.everyone, grids, request, m.Part)
        for client, part in parts.items():
            total.put(client, part.vector)
        return total

    def _check_grids(self, client: int, reply: m.Message, grids: Sequence[str]) -> None:
        """Refuse a reply whose vectors are not on the grids asked for, in order."""
        vectors = [getattr(reply, name) for name in reply.__struct_fields__]
        for vector, grid in zip(vectors, grids, strict=False):
            wanted = self.grids[grid].fraction_bits
            if vector is not None and vector.fraction_bits != wanted:
                raise RemoteProtocolError(f"client {client} answers on another grid")

    def _coarsen(self, name: str) -> None:
        coarser = self.grids[name].coarser()
        finest = self._finest.setdefault(name, self.grids[name].fraction_bits)
        if finest - coarser.fraction_bits > _COARSEST_BITS:
            raise DivergenceError(f"The {name} outgrew every grid; take shorter steps.")
        self.grids[name] = coarser

    def spec(self, grid: str) -> m.GridSpec:
        """Return the present grid of a kind of vector as it travels."""
        return m.GridSpec(self.grids[grid].fraction_bits, self.grids[grid].limit_bits)

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


def _packed(counts: IntArray) -> memoryview:
    packed = pack_indices(counts)
    assert packed is not None  # noqa: S101  # for the type checker
    return packed

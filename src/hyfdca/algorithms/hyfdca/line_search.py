"""HyFDCA with an exact line search on the dual, for complete participation.

All holders of a sample compute the same change Δα_i from the same margin, so changes
need not travel. The server learns how D behaves along Δα and picks, for each output,
the γ in [0, 1] that maximises it: D never falls, whatever the number of samples.

    D(α + γ Δα) = -λ/2 ||w + γ v||² - 1/N Σ l_i*(-(α_i + γ Δα_i)),   v = A Δα

| phase     | down                                 | up                            |
|-----------|--------------------------------------|-------------------------------|
| direction | margins of drawn samples, sealed     | share of v; conjugate totals  |
| adopt     | Δα, sealed, to those without labels  | share of v                    |
| products  | v by feature (sealed profile only)   | totals of w·v and v·v, sealed |
| open step | grand totals, to one client          | totals, open                  |
| move      | γ                                    | new share                     |
| margins   | weights                              | partial margins, sealed       |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hyfdca.algorithms.hyfdca.draws import HyfdcaSettings, local_steps
from hyfdca.algorithms.hyfdca.dual_client import DualHolder
from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.federation.client import Rows
from hyfdca.federation.evaluation import DualServer
from hyfdca.federation.problem import Problem
from hyfdca.federation.sums import EVERYWHERE, CachedSum, RunningSum
from hyfdca.holdings.block import Block
from hyfdca.maths.seeds import stream
from hyfdca.protocol import messages as m
from hyfdca.protocol.client_session import Phase
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices
from hyfdca.protocol.server_session import Conversation

# What a round takes beyond HyFDCA's three trips, to find its step.
SEARCH_PHASES = frozenset({"adopt", "products", "open step"})

# Powers of two: the best step can be far below 1 where many samples are alike.
TRIAL_STEPS = np.concatenate([[0.0], 0.5 ** np.arange(16, -1, -1)])


def best_step(values: FloatArray) -> float:
    """Return the maximiser of a concave function from its values at the trial steps.

    A parabola through the best trial and its neighbours is exact where D is quadratic
    (all losses but the logistic and the insensitive ones); it is taken only where D,
    being concave, cannot be below its value at 0.
    """
    best = int(np.argmax(values))
    middle = min(max(best, 1), len(values) - 2)
    x, f = TRIAL_STEPS[middle - 1 : middle + 2], values[middle - 1 : middle + 2]
    left, right = (f[1] - f[0]) / (x[1] - x[0]), (f[2] - f[1]) / (x[2] - x[1])
    if left <= right:  # no curvature left to measure
        return float(TRIAL_STEPS[best])
    vertex = 0.5 * (x[0] + x[1]) + left * (x[2] - x[0]) / (2 * (left - right))
    vertex = float(np.clip(vertex, x[0], x[2]))
    at_least = float(np.interp(vertex, x, f))
    return vertex if at_least >= values[0] else float(TRIAL_STEPS[best])


@dataclass
class LineSearchServer(DualServer):
    """The server's half."""

    kept: ClassVar[tuple[str, ...]] = ("round_number",)

    settings: HyfdcaSettings
    round_number: int = 0

    def set_up(self) -> Conversation[None]:
        """Sum what every round needs."""
        yield from self.coordinator.set_up()

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Move the drawn duals along one direction; everybody takes part."""
        coordinator = self.coordinator
        self.round_number += 1
        drawn = self._draw(self.round_number)
        image, conjugates = yield from self._direction(drawn)
        steps = yield from self._search(image, conjugates)
        parts = yield from coordinator.gather(
            "move",
            coordinator.everyone,
            ["shares"],
            lambda _: m.MoveRequest(
                steps, coordinator.spec("duals"), coordinator.spec("shares")
            ),
            m.Part,
        )
        coordinator.put_shares(parts)
        upcoming = self._draw(self.round_number + 1)
        yield from coordinator.refresh_margins(coordinator.everyone, upcoming.get)
        coordinator.is_exact = not upcoming

    def _draw(self, round_number: int) -> dict[int, IntArray | None]:
        """Draw samples for all their holders alike; empty stands for all samples."""
        layout = self.coordinator.layout
        samples = layout.samples
        steps = [local_steps(self.settings, layout, c) for c in range(layout.n_clients)]
        n_held = sum(len(items) for items in samples.items)
        n_drawn = -(-sum(steps) * samples.n_items // n_held)
        if n_drawn == samples.n_items:
            return {}
        random = stream(self.settings.seed, "draw", round_number)
        drawn = random.choice(samples.n_items, n_drawn, replace=False)
        nothing = dict.fromkeys(self.coordinator.everyone, np.empty(0, np.int64))
        return {**nothing, **samples.positions_of(np.sort(drawn))}

    def _direction(
        self, drawn: dict[int, IntArray | None]
    ) -> Conversation[tuple[CachedSum, list[m.Sealed]]]:
        """Have every holder form Δα; return the sum v and the parts of conjugates."""
        coordinator, labelled = self.coordinator, self.coordinator.layout.labelled
        replies = yield from coordinator.gather(
            "direction",
            [client for client in coordinator.everyone if labelled[client]],
            ["shares", "totals", "duals"],
            lambda client: self._direction_request(client, drawn.get(client)),
            m.Image,
        )
        image = coordinator.feature_sum()
        for client, reply in replies.items():
            image.put(client, reply.vector)
        if not all(labelled):
            yield from self._lend(replies, drawn, image)
        return image, [reply.totals for reply in replies.values()]

    def _direction_request(
        self, client: int, drawn: IntArray | None
    ) -> m.DirectionRequest:
        coordinator = self.coordinator
        return m.DirectionRequest(
            drawn=pack_indices(drawn),
            margins=coordinator.margins.take(client, drawn),
            trial_steps=TRIAL_STEPS.tolist(),
            grid=coordinator.spec("shares"),
            totals_grid=coordinator.spec("totals"),
            duals_grid=coordinator.spec("duals"),
            is_lent=not all(coordinator.layout.labelled),
        )

    def _lend(
        self,
        replies: dict[int, m.Image],
        drawn: dict[int, IntArray | None],
        image: CachedSum,
    ) -> Conversation[None]:
        """Pass the designated holders' Δα on to the holders without labels."""
        coordinator = self.coordinator
        problem, layout = coordinator.problem, coordinator.layout
        lent = RunningSum(coordinator.vaults.by_sample(problem.n_outputs))
        for client, reply in replies.items():
            if reply.direction is None:
                raise RemoteProtocolError(f"client {client} kept its direction")
            lent.add(client, reply.direction, drawn.get(client))
        adopted = yield from coordinator.gather(
            "adopt",
            [c for c in coordinator.everyone if not layout.labelled[c]],
            ["shares"],
            lambda client: m.AdoptRequest(
                pack_indices(drawn.get(client)),
                lent.take(client, drawn.get(client)),
                coordinator.spec("shares"),
            ),
            m.Part,
        )
        for client, part in adopted.items():
            image.put(client, part.vector)

    def _search(
        self, image: CachedSum, conjugates: list[m.Sealed]
    ) -> Conversation[list[float]]:
        """Return the best step of each output."""
        coordinator, problem = self.coordinator, self.coordinator.problem
        shape = (TRIAL_STEPS.size, problem.n_outputs)
        total = coordinator.sum_of(conjugates, shape)
        if problem.profile == "open":
            products = self._open_products(image)
            [totals] = yield from coordinator.open_totals([total], [shape], "open step")
        else:
            parts = yield from coordinator.gather(
                "products",
                coordinator.everyone,
                ["totals"],
                lambda client: m.ProductsRequest(
                    image.take(client), coordinator.spec("totals")
                ),
                m.Part,
            )
            sealed = [part.vector for part in parts.values()]
            sealed_products = coordinator.sum_of(sealed, (2, shape[1]))
            totals, products = yield from coordinator.open_totals(
                [total, sealed_products], [shape, (2, shape[1])], "open step"
            )
        along, squared = products
        quadratic = np.outer(TRIAL_STEPS, along) + np.outer(TRIAL_STEPS**2, squared) / 2
        values = -problem.l2_strength * quadratic - totals
        return [best_step(column) for column in values.T]

    def _open_products(self, image: CachedSum) -> FloatArray:
        """Return w·v and v·v from what the server sees in the open profile."""
        weights = self.coordinator.read_features(self.coordinator.shares)
        change = self.coordinator.read_features(image)
        return np.stack([(weights * change).sum(axis=0), (change**2).sum(axis=0)])


class LineSearchClient(DualHolder):
    """A client's half."""

    kept: ClassVar[tuple[str, ...]] = ("_rows", "_direction")

    def __init__(self, problem: Problem, block: Block, sealers: Sealers) -> None:
        super().__init__(problem, block, sealers)
        self._rows: Rows = EVERYWHERE
        self._direction = np.zeros_like(self.duals)
        self.phases = {
            **self.phases,
            "direction": Phase(m.DirectionRequest, self._find_direction),
            "adopt": Phase(m.AdoptRequest, self._adopt),
            "products": Phase(m.ProductsRequest, self._products),
            "move": Phase(m.MoveRequest, self._move),
            "open step": self.phases["open"],
        }

    def _find_direction(self, request: m.DirectionRequest) -> m.Message:
        """Form Δα (Algorithm 5 on every drawn sample) and say what it would do."""
        if self.block.labels is None:
            raise RemoteProtocolError("this client has no labels to find a direction")
        rows = self.unpack_rows(request.drawn)
        margins = self.opened_samples(request.margins, rows)
        labels, duals = self.block.labels[rows], self.duals[rows]
        change = self.problem.loss.dual_step(
            duals, margins, labels, self.curvatures[rows]
        )
        counted = self.block.counts_sample[rows]
        try:
            # On the grid, so that holders without labels can go exactly as far.
            self._rows, self._direction = rows, self.on_grid(change, request.duals_grid)
            lent = np.where(counted[:, None], self._direction, 0.0)
            direction = None
            if request.is_lent:
                numbers = self.encoded(lent, request.duals_grid)
                direction = self.sealed_samples(numbers, request.duals_grid, rows)
            image = self.combine(rows, self.weighted(self._direction, rows))
            conjugates = self._conjugates(counted, request.trial_steps)
            return m.Image(
                self.sealed_features(image, request.grid),
                self.sealed_totals(conjugates, request.totals_grid),
                direction,
            )
        except GridOverflowError:
            return m.TooLarge()

    def _conjugates(self, counted: BoolArray, steps: list[float]) -> FloatArray:
        """Return 1/N Σ l*(-(α + γ Δα)) over the counted drawn samples, by trial γ."""
        assert self.block.labels is not None  # noqa: S101  # for the type checker
        rows = (
            np.flatnonzero(counted)
            if isinstance(self._rows, slice)
            else self._rows[counted]
        )
        labels, duals = self.block.labels[rows], self.duals[rows]
        change = self._direction[counted]
        totals = [
            self.weighted(
                self.problem.loss.conjugate(duals + step * change, labels), rows
            ).sum(axis=0)
            for step in steps
        ]
        return np.array(totals) / self.problem.n_samples

    def _adopt(self, request: m.AdoptRequest) -> m.Message:
        """Take Δα from the samples' designated holders."""
        rows = self.unpack_rows(request.drawn)
        self._direction = self.opened_samples(request.direction, rows)
        self._rows = rows
        image = self.combine(rows, self.weighted(self._direction, rows))
        return self.feature_part(image, request.grid)

    def _products(self, request: m.ProductsRequest) -> m.Message:
        """Return w·v and v·v over the features this client is designated for."""
        counted = self.block.counts_feature
        change = self.opened_weights(request.image)[counted]
        weights = self.weights[counted]
        products = np.stack([(weights * change).sum(axis=0), (change**2).sum(axis=0)])
        return self.total_part(products, request.grid)

    def _move(self, request: m.MoveRequest) -> m.Message:
        """Take the step, rounded towards zero on the grid of duals."""
        if len(request.steps) != self.problem.n_outputs:
            raise RemoteProtocolError("there must be one step for each output")
        rows = self._rows
        try:
            change = self._direction * np.array(request.steps)
            change = self.on_grid(change, request.duals_grid)
        except GridOverflowError:
            raise RemoteProtocolError("the step is on a finer grid") from None
        self.set_duals(rows, self.duals[rows] + change)
        self._direction = np.zeros_like(self._direction)
        return self.feature_part(self.share, request.grid)

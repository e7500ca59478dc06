"""HyFDCA with an exact line search on the dual, for complete participation.

All holders of a sample compute the same change Δα_i from the same margin, so changes
need not travel. The server learns how D behaves along Δα and picks, for each output,
the γ in [0, 1] that maximises it: D never falls, whatever the number of samples.

    D(α + γ Δα) = -λ/2 ||w + γ v||² - 1/N Σ l_i*(-(α_i + γ Δα_i)),   v = A Δα

| phase     | down                                 | up                            |
|-----------|--------------------------------------|-------------------------------|
| direction | margins of drawn samples, sealed     | share of v; conjugate totals  |
| forward   | Δα, sealed, to those without labels  | share of v                    |
| products  | v by feature (sealed profile only)   | totals of w·v and v·v, sealed |
| open step | grand totals, to one client          | totals, open                  |
| move      | γ                                    | new share                     |
| margins   | weights                              | partial margins, sealed       |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.hyfdca import messages as m
from hyfdca.algorithms.hyfdca.draws import check_searched, local_steps
from hyfdca.algorithms.hyfdca.dual_client import DualClient, DualClientState
from hyfdca.algorithms.hyfdca.dual_server import DualServer, DualServerState
from hyfdca.algorithms.hyfdca.settings import HyfdcaSettings
from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.federation.client import Party
from hyfdca.federation.sealing.client_sealing import Rows
from hyfdca.federation.server import Federation, Point
from hyfdca.federation.sums import EVERYWHERE, CachedSum
from hyfdca.maths.objective import Measurement
from hyfdca.maths.seeds import stream
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices
from hyfdca.protocol.messages import (
    Message,
    Part,
    SealedTotals,
    TooLarge,
)
from hyfdca.protocol.server_session import BadReplyError, Conversation

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


@dataclass(frozen=True, repr=False)
class LineSearchServerState:
    """What a checkpoint keeps of the server's half."""

    dual: DualServerState
    round_number: int


class LineSearchServer:
    """The server's half."""

    is_between_steps = True

    def __init__(self, federation: Federation, settings: HyfdcaSettings) -> None:
        self._federation, self._settings = federation, settings
        self.dual = DualServer(federation)
        self.round_number = 0

    def state(self) -> LineSearchServerState:
        """Return what a checkpoint keeps."""
        return LineSearchServerState(self.dual.state(), self.round_number)

    def restore(self, state: LineSearchServerState) -> None:
        """Take a state."""
        self.dual.restore(state.dual)
        self.round_number = state.round_number

    def set_up(self) -> Conversation[None]:
        """Sum what every round needs."""
        yield from self._federation.set_up()

    def measure(self) -> Conversation[Measurement]:
        """Measure P and D."""
        return self.dual.measure()

    def released_point(self) -> Point:
        """Return where the weights last measured are."""
        return self.dual.released_point()

    def release(self) -> Conversation[FloatArray]:
        """Return the weights last measured."""
        return self.dual.release()

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Move the drawn duals along one direction; everybody takes part."""
        federation, grids = self._federation, self._federation.grids
        self.round_number += 1
        drawn = self._draw(self.round_number)
        image, conjugates = yield from self._direction(drawn)
        steps = yield from self._search(image, conjugates)
        parts = yield from federation.gather(
            "move",
            federation.everyone,
            [grids.shares],
            lambda _: m.MoveRequest(steps, grids.duals.spec, grids.shares.spec),
            Part,
        )
        self.dual.put_shares(parts)
        upcoming = self._draw(self.round_number + 1)
        yield from self.dual.refresh_margins(federation.everyone, upcoming.get)
        self.dual.is_exact = not upcoming

    def _draw(self, round_number: int) -> dict[int, IntArray | None]:
        """Draw samples for all their holders alike; empty stands for all samples."""
        layout = self._federation.layout
        samples = layout.samples
        steps = [
            local_steps(self._settings, layout, c) for c in range(layout.n_clients)
        ]
        n_held = sum(len(items) for items in samples.items)
        n_drawn = -(-sum(steps) * samples.n_items // n_held)
        if n_drawn == samples.n_items:
            return {}
        random = stream(self._federation.seed, "draw", round_number)
        drawn = random.choice(samples.n_items, n_drawn, replace=False)
        nothing = dict.fromkeys(self._federation.everyone, np.empty(0, np.int64))
        return {**nothing, **samples.positions_of(np.sort(drawn))}

    def _direction(
        self, drawn: dict[int, IntArray | None]
    ) -> Conversation[tuple[CachedSum, dict[int, SealedTotals]]]:
        """Let every holder form Δα; return the sum v and the parts of conjugates."""
        federation, grids = self._federation, self._federation.grids
        replies = yield from federation.gather(
            "direction",
            federation.labelled,
            [grids.shares, grids.totals, grids.duals],
            lambda client, spec: m.DirectionRequest(
                drawn=pack_indices(drawn.get(client)),
                margins=self.dual.margins.take(client, drawn.get(client)),
                trial_steps=TRIAL_STEPS.tolist(),
                grid=grids.shares.spec,
                totals_grid=spec,
                duals_grid=grids.duals.spec,
                forwards=bool(federation.unlabelled),
            ),
            m.Image,
            grids.totals,
        )
        image = federation.feature_sum()
        for client, reply in replies.items():
            image.put(client, reply.vector)
        if federation.unlabelled:
            yield from self._forward(replies, drawn, image)
        return image, {c: reply.totals for c, reply in replies.items()}

    def _forward(
        self,
        replies: dict[int, m.Image],
        drawn: dict[int, IntArray | None],
        image: CachedSum,
    ) -> Conversation[None]:
        """Pass the designated holders' Δα on to the holders without labels."""
        federation, grid = self._federation, self._federation.grids.shares
        direction = federation.running_drawn_sum()
        for client, reply in replies.items():
            if reply.direction is None:
                raise BadReplyError("direction", client, "it withheld its direction")
            direction.add(client, reply.direction, drawn.get(client))
        parts = yield from federation.gather(
            "forward direction",
            federation.unlabelled,
            [grid],
            lambda client: m.ForwardedDirection(
                pack_indices(drawn.get(client)),
                direction.take(client, drawn.get(client)),
                grid.spec,
            ),
            Part,
        )
        for client, part in parts.items():
            image.put(client, part.vector)

    def _search(
        self, image: CachedSum, conjugates: dict[int, SealedTotals]
    ) -> Conversation[list[float]]:
        """Return the best step of each output."""
        federation, problem = self._federation, self._federation.problem
        shape = (TRIAL_STEPS.size, problem.n_outputs)
        total = federation.sum_of(conjugates, shape)
        if problem.profile == "open":
            products = self._open_products(image)
            [totals] = yield from federation.open_totals([total], "open step")
        else:
            grid = federation.grids.totals
            sealed_products = yield from federation.gather_total(
                "products",
                grid,
                lambda client, spec: m.ProductsRequest(image.take(client), spec),
                (2, shape[1]),
            )
            totals, products = yield from federation.open_totals(
                [total, sealed_products], "open step"
            )
        along, squared = products
        quadratic = np.outer(TRIAL_STEPS, along) + np.outer(TRIAL_STEPS**2, squared) / 2
        values = -problem.l2_strength * quadratic - totals
        return [best_step(column) for column in values.T]

    def _open_products(self, image: CachedSum) -> FloatArray:
        """Return w·v and v·v from what the server sees in the open profile."""
        weights = self.dual.read_features(self.dual.shares)
        change = self.dual.read_features(image)
        return np.stack([(weights * change).sum(axis=0), (change**2).sum(axis=0)])


@dataclass(frozen=True, repr=False)
class LineSearchClientState:
    """What a checkpoint keeps of a client's half."""

    dual: DualClientState
    rows: IntArray | slice
    direction: FloatArray


class LineSearchClient:
    """A client's half."""

    def __init__(self, party: Party, settings: HyfdcaSettings) -> None:
        self._party, self._sealing, self._settings = party, party.sealing, settings
        self.dual = DualClient(party, settings.min_rows)
        self._rows: Rows = EVERYWHERE
        self._direction = np.zeros_like(self.dual.duals)

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **self._party.handlers,
            **self.dual.handlers,
            "direction": self._find_direction,
            "forward direction": self._take_direction,
            "products": self._products,
            "open step": self._party.open_totals,
            "move": self._move,
        }

    def state(self) -> LineSearchClientState:
        """Return what a checkpoint keeps."""
        return LineSearchClientState(self.dual.state(), self._rows, self._direction)

    def restore(self, state: LineSearchClientState) -> None:
        """Take a state."""
        self.dual.restore(state.dual)
        self._rows, self._direction = state.rows, state.direction

    def _find_direction(self, request: m.DirectionRequest) -> Message:
        """Form Δα (Algorithm 5 on every drawn sample); return what it would do."""
        party, sealing = self._party, self._sealing
        rows = sealing.unpack_rows(request.drawn)
        check_searched(self._settings, party, sealing.count(rows))
        labels, duals = party.labels[rows], self.dual.duals[rows]
        margins = party.margins(request.margins, rows, kind="drawn margins")
        change = party.problem.loss.dual_step(
            duals, margins, labels, party.curvatures[rows]
        )
        counted = party.block.counts_sample[rows]
        before = self._rows, self._direction
        try:
            # On the grid, so that holders without labels can go exactly as far.
            self._rows = rows
            self._direction = sealing.on_grid(change, request.duals_grid)
            own = np.where(counted[:, None], self._direction, 0.0)
            direction = None
            if request.forwards:
                numbers = sealing.encoded(own, request.duals_grid)
                direction = sealing.sealed_samples(
                    "dual changes", numbers, request.duals_grid, rows
                )
            image = party.combine(rows, party.weighted(self._direction, rows))
            conjugates = self._conjugates(counted, request.trial_steps)
            return m.Image(
                sealing.sealed_features("images", image, request.grid),
                sealing.sealed_totals("totals", conjugates, request.totals_grid),
                direction,
            )
        except GridOverflowError:
            return TooLarge()
        except Exception:
            self._rows, self._direction = before
            raise

    def _conjugates(self, counted: BoolArray, steps: list[float]) -> FloatArray:
        """Return 1/N Σ l*(-(α + γ Δα)) over the counted drawn samples, by trial γ."""
        party = self._party
        rows = (
            np.flatnonzero(counted)
            if isinstance(self._rows, slice)
            else self._rows[counted]
        )
        duals, change = self.dual.duals[rows], self._direction[counted]
        totals = [
            party.weighted(party.conjugates(duals + step * change, rows), rows).sum(
                axis=0
            )
            for step in steps
        ]
        return np.array(totals) / party.problem.n_samples

    def _take_direction(self, request: m.ForwardedDirection) -> Message:
        """Take Δα from the samples' designated holders."""
        party, rows = self._party, self._sealing.unpack_rows(request.drawn)
        check_searched(self._settings, party, self._sealing.count(rows))
        direction = self._sealing.opened_samples(
            "dual changes", request.direction, rows
        )
        image = party.combine(rows, party.weighted(direction, rows))
        reply = self._sealing.feature_part("images", image, request.grid)
        self._rows, self._direction = rows, direction
        return reply

    def _products(self, request: m.ProductsRequest) -> Message:
        """Return w·v and v·v over the features this client is designated for."""
        counted = self._party.block.counts_feature
        change = self.dual.opened_weights(request.image, "images")[counted]
        weights = self.dual.weights[counted]
        products = np.stack([(weights * change).sum(axis=0), (change**2).sum(axis=0)])
        return self._sealing.total_part("totals", products, request.grid)

    def _move(self, request: m.MoveRequest) -> Message:
        """Take the step, rounded towards zero on the grid of duals."""
        if len(request.steps) != self._party.problem.n_outputs:
            raise RemoteProtocolError("there must be one step for each output")
        rows = self._rows
        try:
            change = self._direction * np.array(request.steps)
            change = self._sealing.on_grid(change, request.duals_grid)
        except GridOverflowError:
            raise RemoteProtocolError("the step is on a finer grid") from None
        duals, share = self.dual.changed(rows, self.dual.duals[rows] + change)
        reply = self._sealing.feature_part("weights", share, request.grid)
        self.dual.duals, self.dual.share = duals, share
        self._direction = np.zeros_like(self._direction)
        return reply

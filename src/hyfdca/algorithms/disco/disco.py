"""DiSCO: damped Newton steps, each solved by conjugate gradients across all clients.

From Y. Zhang, X. Lin, "DiSCO: distributed optimization for self-concordant empirical
loss", ICML 2015: the inexact damped step w ← w - v/(1 + √(v·Hv)), where Hv is near the
gradient. From C. Ma, M. Takáč, "Distributed inexact damped Newton method", 2016: every
vector is split by features, so that only margins and inner products are exchanged.

| phase           | down                                  | up                         |
|-----------------|---------------------------------------|----------------------------|
| newton margins  | -                                     | x_{k,i}·w, sealed          |
| newton gradient | margins, sealed                       | parts of the gradient and  |
|                 |                                       | of the diagonal of H       |
| direction       | their sums (first), or the step along | x_{k,i}·d of the next      |
| margins         | the last direction                    | direction, sealed          |
| hessian product | x_i·d, sealed                         | part of X'(l'' ∘ X d)/N    |
| inner products  | its sum                               | parts of inner products    |
| open curvature  | their totals, to one client           | totals, open               |
| newton step     | how far to go                         | - (a notice)               |

``direction margins`` to ``open curvature`` is one step of conjugate gradients. Ours:
features may have several holders, which add up parts; the preconditioner is the
diagonal of H instead of some samples' H, since nobody has whole samples; the next
residual's length comes from inner products of the last one, which saves an exchange.
The proof needs a self-concordant loss (logistic, squared); others that are smooth
usually converge too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hyfdca.algorithms.disco.client import DiscoClient
from hyfdca.algorithms.disco.messages import (
    DirectionRequest,
    GradientParts,
    GradientRequest,
    HessianRequest,
    InnerProductsRequest,
    NewtonNotice,
)
from hyfdca.arrays import FloatArray
from hyfdca.federation.algorithm import Algorithm, Needs
from hyfdca.federation.client import Party
from hyfdca.federation.grids import GridState, VectorGrid
from hyfdca.federation.local.work import AtLeastOne, Fraction
from hyfdca.federation.messages import (
    SET_UP,
    GridRequest,
    evaluation_phases,
    opening,
    summing,
    totalling,
)
from hyfdca.federation.primal import (
    PrimalServer,
    PrimalServerState,
    before_round,
)
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import CachedSum
from hyfdca.maths.linear import ratio
from hyfdca.protocol.messages import (
    TooLarge,
)
from hyfdca.protocol.phases import Phase, Phases
from hyfdca.protocol.server_session import Conversation

_N_TOTALS = 4  # r·s, d·Hd, s·Hd, Hd·M⁻¹Hd
_RESOLVED = 2.0**24  # steps of the grid that the largest total should have
_FINER = 2.0**-30  # factor by which the grid of totals shrinks where it shows nothing
_LEAST_BOUND = 1e-60  # of inner products; below, there is nothing left to gain
_HEADROOM = 64.0

_WITHIN = (  # a round
    "newton margins",
    "newton gradient",
    "direction margins",
    "hessian product",
    "inner products",
    "open curvature",
)


@dataclass(frozen=True, repr=False)
class DiscoServerState:
    """What a checkpoint keeps of the server's half."""

    primal: PrimalServerState
    curves: GridState
    products: GridState
    n_directions: int


class DiscoServer(PrimalServer):
    """The server's half: sums of parts, and the scalars of conjugate gradients."""

    _curves: VectorGrid
    _products: VectorGrid

    def __init__(self, federation: Federation, settings: Disco) -> None:
        super().__init__(federation)
        self._settings, self._n_directions = settings, 0

    def weights_for(self, client: int) -> None:
        """Send nothing: every holder of a feature has its weight."""

    def set_up(self) -> Conversation[None]:
        """Sum what every round needs; choose the grids of curvatures."""
        yield from super().set_up()
        federation, make = self.federation, self.federation.grid_maker
        bounds, loss = federation.bounds, federation.problem.loss
        largest = max(loss.smoothness * np.sqrt(bounds.row_norm), bounds.slope_at_zero)
        bound = _HEADROOM * largest * max(bounds.column_sum, 1e-300)
        self._curves = make.grid("curvatures", bound, make.feature_holders)
        total = _HEADROOM * max(bounds.loss_at_zero, 1e-300)
        self._products = make.grid("products", total, make.n_clients)

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Take one damped Newton step."""
        self.round_number += 1
        federation, n_outputs = self.federation, self.federation.problem.n_outputs
        margins_grid = federation.grids.margins
        margins = yield from federation.gather_sum(
            "newton margins",
            [margins_grid],
            lambda _: GridRequest(margins_grid.spec),
            federation.sample_sum(),
        )
        first = yield from self._gradient(margins)
        lengths, turns = np.zeros(n_outputs), np.zeros(n_outputs)
        decrement, begun = np.zeros(n_outputs), np.zeros(n_outputs)
        for step in range(self._settings.cg_steps):
            start = first if step == 0 else None
            curved = yield from self._direct(start, lengths, turns)
            size, curvature, across, bent = yield from self._inner_products(curved)
            begun = size if step == 0 else begun
            lengths = ratio(size, curvature)
            decrement = decrement + lengths**2 * curvature
            left = np.maximum(size - 2 * lengths * across + lengths**2 * bent, 0.0)
            turns = ratio(left, size)
            if np.all(left <= self._settings.cg_tolerance**2 * begun):
                break
        self._n_directions += 1
        shares = 1 / (1 + np.sqrt(decrement))
        notice = NewtonNotice(lengths.tolist(), shares.tolist(), self._n_directions)
        everyone = dict.fromkeys(federation.everyone, notice)
        yield from federation.session.tell("newton step", everyone)

    def _gradient(self, margins: CachedSum) -> Conversation[list[CachedSum]]:
        federation, grid = self.federation, self._curves
        replies = yield from federation.gather(
            "newton gradient",
            federation.everyone,
            [grid, grid],
            lambda client: GradientRequest(margins.take(client), grid.spec),
            GradientParts,
        )
        sums = [federation.feature_sum(), federation.feature_sum()]
        sums[0].update({c: reply.gradient for c, reply in replies.items()})
        sums[1].update({c: reply.diagonal for c, reply in replies.items()})
        return sums

    def _direct(
        self, first: list[CachedSum] | None, lengths: FloatArray, turns: FloatArray
    ) -> Conversation[CachedSum]:
        """Let clients take the next direction d; return the sum of parts of H d."""
        federation, grid = self.federation, self.federation.grids.margins
        self._n_directions += 1

        def request(client: int) -> DirectionRequest:
            return DirectionRequest(
                first[0].take(client) if first else None,
                first[1].take(client) if first else None,
                lengths.tolist(),
                turns.tolist(),
                self._n_directions,
                grid.spec,
            )

        margins = yield from federation.gather_sum(
            "direction margins", [grid], request, federation.sample_sum()
        )
        return (
            yield from federation.gather_sum(
                "hessian product",
                [self._curves],
                lambda client: HessianRequest(margins.take(client), self._curves.spec),
                federation.feature_sum(),
            )
        )

    def _inner_products(self, curved: CachedSum) -> Conversation[FloatArray]:
        """Return the inner products, on a grid fine enough for their size."""
        federation, grid = self.federation, self._products
        shape = (_N_TOTALS, federation.problem.n_outputs)
        while True:
            total = yield from federation.gather_total(
                "inner products",
                grid,
                lambda client, spec: InnerProductsRequest(curved.take(client), spec),
                shape,
            )
            [totals] = yield from federation.open_totals([total], "open curvature")
            if not self._refine(float(np.abs(totals).max())):
                return totals

    def _refine(self, largest: float) -> bool:
        """Fit the grid to the totals; return whether to ask for them again."""
        grid, make = self._products, self.federation.grid_maker
        is_seen = largest >= _RESOLVED * grid.step
        reach = np.ldexp(grid.step, grid.grid.limit_bits)
        bound = _HEADROOM * largest if is_seen else _FINER * reach
        finer = make.finest(max(bound, _LEAST_BOUND), make.n_clients)
        if finer.fraction_bits <= grid.fraction_bits:
            return False
        grid.use(finer)
        return not is_seen

    def state(self) -> DiscoServerState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return DiscoServerState(
            super().state(),
            self._curves.state(),
            self._products.state(),
            self._n_directions,
        )

    def restore(self, state: DiscoServerState) -> None:  # type: ignore[override]
        """Take a state."""
        super().restore(state.primal)
        self._curves.restore(state.curves)
        self._products.restore(state.products)
        self._n_directions = state.n_directions


@dataclass(frozen=True)
class Disco(Algorithm):
    """DiSCO.

    Parameters
    ----------
    cg_steps : int
        Steps of conjugate gradients per round, at most.
    cg_tolerance : float
        Ends them when the residual is this share of the gradient.
    """

    name: ClassVar[str] = "disco"
    phases: ClassVar[Phases] = {
        **SET_UP,
        **evaluation_phases("newton step", within=_WITHIN),
        "newton margins": summing(
            GridRequest, "margins", *before_round("newton margins", "newton step")
        ),
        "newton gradient": Phase(
            GradientRequest,
            (GradientParts, TooLarge),
            ("newton margins", "newton gradient"),
        ),
        "direction margins": summing(
            DirectionRequest,
            "margins",
            "newton gradient",
            "direction margins",
            "inner products",
            "open curvature",
        ),
        "hessian product": summing(
            HessianRequest, "shares", "direction margins", "hessian product"
        ),
        "inner products": totalling(
            InnerProductsRequest,
            "products",
            "hessian product",
            "inner products",
            "open curvature",
            most=None,  # of one direction, until the grid is fine enough
        ),
        "open curvature": opening("step totals", "inner products", most=None),
        "newton step": Phase(NewtonNotice, after=("inner products", "open curvature")),
    }

    cg_steps: AtLeastOne = 10
    cg_tolerance: Fraction = 0.05

    @property
    def needs(self) -> Needs:
        """A smooth loss, and everybody, with labels."""
        return Needs(presence="everyone", smooth_loss=True, labels="all")

    def most_asked(self, name: str, n_clients: int) -> int | None:
        """Return one more for each step of conjugate gradients."""
        if name in {"direction margins", "hessian product"}:
            return self.cg_steps
        return super().most_asked(name, n_clients)

    def server(self, federation: Federation) -> DiscoServer:
        """Return the server's half."""
        return DiscoServer(federation, self)

    def client(self, party: Party) -> DiscoClient:
        """Return a client's half."""
        return DiscoClient(party)

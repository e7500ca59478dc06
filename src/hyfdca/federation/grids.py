"""The fixed-point grids of a training, one per kind of vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hyfdca.crypto.schemes.fixedpoint import EXACT_BITS, Grid, grid_for
from hyfdca.federation.messages import Bounds
from hyfdca.federation.problem import Problem
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.messages import GridSpec

MARGIN_HEADROOM = 64.0  # over the largest margin of any point not worse than w = 0
_DUAL_HEADROOM = 64.0  # over the steepest slope at 0, where duals are unbounded
_COARSEST_BITS = 128  # a grid gets coarser by at most this; then a run has diverged


class DivergenceError(ArithmeticError):
    """Numbers outgrew every grid: the steps are too long for this problem."""

    clients: tuple[int, ...] = ()  # whose numbers did not fit


@dataclass(frozen=True, repr=False)
class GridState:
    """What a checkpoint keeps of a grid."""

    grid: Grid
    finest: int | None


class VectorGrid:
    """The grid of one kind of vector, made coarser when a value does not fit.

    Parameters
    ----------
    name : str
        The kind of vector, for messages.
    """

    def __init__(self, name: str, grid: Grid) -> None:
        self._name = name
        self._finest: int | None = None
        self.use(grid)

    def use(self, grid: Grid) -> None:
        """Change to another grid."""
        self.grid = grid
        self.fraction_bits = grid.fraction_bits
        self.step = math.ldexp(1.0, -grid.fraction_bits)  # its width
        self.spec = GridSpec(grid.fraction_bits, grid.limit_bits)  # as it travels

    def coarsen(self) -> None:
        """Take the next coarser grid.

        Raises
        ------
        DivergenceError
            If the numbers have outgrown every grid.
        """
        coarser = self.grid.coarser()
        if self._finest is None:
            self._finest = self.grid.fraction_bits
        if self._finest - coarser.fraction_bits > _COARSEST_BITS:
            raise DivergenceError(
                f"The {self._name} outgrew every grid; take shorter steps."
            )
        self.use(coarser)

    def state(self) -> GridState:
        """Return what a checkpoint keeps."""
        return GridState(self.grid, self._finest)

    def restore(self, state: GridState) -> None:
        """Take a state."""
        self.use(state.grid)
        self._finest = state.finest


# Beyond these no grid has room for squares of products of two clients' numbers, and
# requests to others would fail. Losses have no such products.
_LARGEST_BOUND, _LARGEST_LOSS = 1e52, 1e120


def check_bounds(bounds: Bounds) -> None:
    """Refuse bounds of numbers that are too large to compute with.

    Raises
    ------
    ValueError
    """
    largest = max(bounds.row_norm, bounds.column_sum, bounds.slope_at_zero)
    if largest > _LARGEST_BOUND or bounds.loss_at_zero > _LARGEST_LOSS:
        raise ValueError("its numbers are too large to train with; scale its columns")


@dataclass(frozen=True)
class PublicBounds:
    """What clients' bounds imply together.

    Parameters
    ----------
    row_norm : float
        A bound on ||x_i||² of every whole row.
    largest_part : float
        A bound on ||x_{k,i}||² of every client's part of a row.
    loss_at_zero : float
        A bound on P(0).
    """

    row_norm: float
    largest_part: float
    column_sum: float
    slope_at_zero: float
    loss_at_zero: float

    @classmethod
    def of(cls, bounds: Iterable[Bounds], n_samples: int) -> PublicBounds:
        """Return what the bounds of all clients imply together."""
        own = list(bounds)
        return cls(
            row_norm=sum(b.row_norm for b in own),
            largest_part=max(b.row_norm for b in own),
            column_sum=max(b.column_sum for b in own),
            slope_at_zero=max(b.slope_at_zero for b in own),
            loss_at_zero=sum(b.loss_at_zero for b in own) / n_samples,
        )


@dataclass(frozen=True, repr=False)
class GridsState:
    """What a checkpoint keeps of the grids."""

    norms: GridState
    duals: GridState
    margins: GridState
    shares: GridState
    totals: GridState


@dataclass(frozen=True)
class Grids:
    """The grids that every algorithm needs; an algorithm may add its own."""

    norms: VectorGrid
    duals: VectorGrid
    margins: VectorGrid
    shares: VectorGrid
    totals: VectorGrid

    def state(self) -> GridsState:
        """Return what a checkpoint keeps."""
        return GridsState(*(grid.state() for grid in vars(self).values()))

    def restore(self, state: GridsState) -> None:
        """Take a state."""
        for name, grid in vars(self).items():
            grid.restore(getattr(state, name))


class GridMaker:
    """Makes grids on which no sum over the holders of a study can overflow."""

    def __init__(self, layout: Layout, sum_bits: int) -> None:
        self._sum_bits = sum_bits
        self.n_clients = layout.n_clients
        self.sample_holders = int(layout.samples.counts.max(initial=1))
        self.feature_holders = int(layout.features.counts.max(initial=1))

    def finest(self, bound: float, n_summands: int, bits: int = 64) -> Grid:
        """Return the finest grid for sums of numbers up to a bound."""
        return grid_for(bound, n_summands, min(bits, self._sum_bits))

    def grid(
        self, name: str, bound: float, n_summands: int, bits: int = 64
    ) -> VectorGrid:
        """Return the grid of a kind of vector."""
        return VectorGrid(name, self.finest(bound, n_summands, bits))

    def grids(self, problem: Problem, bounds: PublicBounds) -> Grids:
        """Return the grids that follow from public numbers.

        Duals: their domain, or a multiple of the steepest slope at 0. Margins: where D
        is above D(0) = 0, λ/2||w||² is below P(0), so |x_i·w| <= ||x_i|| sqrt(2P(0)/λ);
        a run that leaves that region (the paper's step may) asks for coarser grids.
        """
        # A change can be as large as the domain is wide.
        largest_dual = problem.loss.shape.high - problem.loss.shape.low
        if math.isinf(largest_dual):
            largest_dual = _DUAL_HEADROOM * bounds.slope_at_zero
        loss, samples = bounds.loss_at_zero, self.sample_holders
        reach = math.sqrt(2 * loss / problem.l2_strength * bounds.row_norm)
        largest_share = largest_dual * bounds.column_sum
        return Grids(
            norms=self.grid("norms", bounds.largest_part, samples),
            duals=self.grid("duals", largest_dual, samples, EXACT_BITS),
            margins=self.grid("margins", MARGIN_HEADROOM * reach, samples),
            shares=self.grid("shares", largest_share, self.feature_holders),
            totals=self.grid("totals", MARGIN_HEADROOM * loss, self.n_clients),
        )

"""What every client half does: partial margins, shares and totals of its own block."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hyfdca.algorithms.aggregation import EVERYWHERE, open_sum
from hyfdca.algorithms.certificate import Measuring, grid_step
from hyfdca.algorithms.problem import Block, Problem
from hyfdca.axis import BoolArray, IntArray
from hyfdca.crypto.base import Sealer
from hyfdca.crypto.fixedpoint import Grid, GridOverflowError, Rounding, decode
from hyfdca.crypto.plain import PlainSealer
from hyfdca.kernels import add_row_combination, row_products, unsigned
from hyfdca.losses import FloatArray
from hyfdca.protocol import messages as m
from hyfdca.protocol.client import Phase
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    unpack_counts,
    unpack_indices,
)

Rows = IntArray | slice  # numbers of rows, or all of them

# Above this share of changed duals a share is computed anew: cheaper, and exact.
_ANEW = 0.25


class Holder:
    """A client's data and state, and the phases that all algorithms share.

    State: ``duals`` (α of its samples, per unit of sample weight), ``weights`` (w of
    its features) and ``share`` (its part of λN w).
    """

    def __init__(self, problem: Problem, block: Block, sealer: Sealer) -> None:
        self.problem, self.block = problem, block
        self._sealer = sealer
        # In the open profile the server reads what is summed by feature.
        self.feature_sealer = PlainSealer() if problem.profile == "open" else sealer
        n_held, n_features = block.X.shape
        X = block.X
        self._csr = (unsigned(X.indptr), unsigned(X.indices), X.data)
        self._every_row = np.arange(n_held, dtype=np.uint32)
        self.duals = np.zeros((n_held, problem.n_outputs))
        self.weights = np.zeros((n_features, problem.n_outputs))
        self.share = np.zeros((n_features, problem.n_outputs))
        self.weights_step = 0.0  # of the grid that the weights' sum came on
        self.phases: Mapping[str, Phase] = {
            "bounds": Phase(m.Message, self._bounds),
            "norms": Phase(m.GridRequest, self._norms),
            "prepare": Phase(m.Prepare, self._prepare),
            "shares": Phase(m.SharesRequest, self._shares),
            "weights": Phase(m.WeightsNotice, self._weights),
            "margins": Phase(m.MarginsRequest, self._margins),
            "open": Phase(m.OpenRequest, self._open),
            **Measuring(self).phases,
        }

    # Set-up

    def _bounds(self, _: m.Message) -> m.Bounds:
        """Return public bounds on this client's numbers, for choosing grids.

        Powers of two: for the squared losses the steepest slope itself is a label.
        """
        loss_at_zero = slope = 0.0
        if self.block.labels is not None and len(self.duals):
            zero = np.zeros_like(self.block.labels)
            losses = self.weighted(self.problem.loss.value(zero, self.block.labels))
            loss_at_zero = float(losses[self.block.counts_sample].sum())
            slope = float(
                np.abs(self.problem.loss.derivative(zero, self.block.labels)).max()
            )
        counts = self.weighted(np.ones_like(self.duals))
        columns = np.asarray(abs(self.block.X).T @ counts)
        return m.Bounds(
            row_norm=_power_above(float(self._partial_norms().max(initial=0.0))),
            column_sum=_power_above(float(columns.max(initial=0.0))),
            slope_at_zero=_power_above(slope),
            loss_at_zero=_power_above(loss_at_zero),
        )

    def _norms(self, request: m.GridRequest) -> m.Message:
        return self.part(self._partial_norms(), request.grid)

    def _prepare(self, request: m.Prepare) -> None:
        """Take the set-up sums: ||x_i||² and how many clients hold what."""
        n_held, n_features = self.block.X.shape
        self.squared_norms = self.opened(request.norms, (n_held, 1))
        self.curvatures = self.weighted(
            np.broadcast_to(self.squared_norms, self.duals.shape)
        ) / (self.problem.l2_scale)
        self.sample_holders = unpack_counts(request.sample_holders, n_held)
        self.label_holders = unpack_counts(request.label_holders, n_held)
        self.feature_holders = unpack_counts(request.feature_holders, n_features)

    # The two primitives

    def _shares(self, request: m.SharesRequest) -> m.Message:
        """PrimalAggregation: take the duals that changed, return Σ_i α_i x_{k,i}."""
        rows = self.unpack_rows(request.positions)
        self.set_duals(rows, self.opened(request.duals, (self.count(rows), -1)))
        return self.feature_part(self.share, request.grid)

    def set_duals(self, rows: Rows, duals: FloatArray) -> None:
        """Change some duals, and with them the share; keeps the array given."""
        if self.count(rows) > _ANEW * len(self.duals):
            if isinstance(rows, slice):
                self.duals = duals
            else:
                self.duals[rows] = duals
            self.share = self.combine(EVERYWHERE, self.weighted(self.duals))
            return
        change = self.weighted(duals - self.duals[rows], rows)
        self.duals[rows] = duals
        self.share += self.combine(rows, change)

    def _weights(self, notice: m.WeightsNotice) -> None:
        self.weights = self.opened_weights(notice.weights)
        self.weights_step = grid_step(notice.weights)

    def _margins(self, request: m.MarginsRequest) -> m.Message:
        """SecureInnerProduct: return x_{k,i}·w_k of the samples asked for."""
        rows = self.unpack_rows(request.positions)
        if request.weights is not None:
            self._weights(m.WeightsNotice(request.weights))
        return self.part(self.products(rows, self.weights), request.grid)

    # Totals

    def _open(self, request: m.OpenRequest) -> m.Opened:
        if len(request.totals) != len(request.counts):
            raise RemoteProtocolError("totals and their counts do not match")
        pairs = zip(request.totals, request.counts, strict=True)
        opened = [self.opened(totals, (count, 1)) for totals, count in pairs]
        return m.Opened(np.concatenate(opened).ravel().tolist())

    # Vectors on the grid

    def part(
        self,
        values: FloatArray,
        grid: m.GridSpec,
        rounding: Rounding = "nearest",
        sealer: Sealer | None = None,
    ) -> m.Part | m.TooLarge:
        """Return values sealed on a grid, or the request for a coarser one."""
        try:
            return m.Part(self.sealed(values, grid, rounding, sealer))
        except GridOverflowError:
            return m.TooLarge()

    def feature_part(self, values: FloatArray, grid: m.GridSpec) -> m.Message:
        """Return a sum by feature, sealed as the profile says."""
        return self.part(values, grid, sealer=self.feature_sealer)

    def sealed(
        self,
        values: FloatArray,
        grid: m.GridSpec,
        rounding: Rounding = "nearest",
        sealer: Sealer | None = None,
    ) -> m.Sealed:
        """Return values sealed on a grid; raises ``GridOverflowError``."""
        numbers = Grid(grid.fraction_bits, grid.limit_bits).encode(values, rounding)
        return m.Sealed(grid.fraction_bits, (sealer or self._sealer).seal(numbers))

    def on_grid(self, values: FloatArray, grid: m.GridSpec) -> FloatArray:
        """Return values rounded towards zero as they would arrive from elsewhere."""
        numbers = Grid(grid.fraction_bits, grid.limit_bits).encode(values, "to zero")
        return decode(numbers, grid.fraction_bits)

    def opened(
        self, sums: m.Sums, shape: tuple[int, int], sealer: Sealer | None = None
    ) -> FloatArray:
        """Return the reals of a sum over holders; a width of -1 stands for outputs."""
        size, width = shape
        shape = (size, self.problem.n_outputs if width < 0 else width)
        return open_sum(sums, shape, sealer or self._sealer)

    def opened_weights(self, sums: m.Sums) -> FloatArray:
        """Return what shares of this client's features add up to, over λN."""
        total = self.opened(sums, (self.block.X.shape[1], -1), self.feature_sealer)
        return total / self.problem.l2_scale

    def unpack_rows(self, positions: memoryview | None) -> Rows:
        """Return the rows that a message names; none stands for all."""
        if positions is None:
            return EVERYWHERE
        return unpack_indices(positions, len(self.duals))

    def count(self, rows: Rows) -> int:
        """Return how many rows these are."""
        return len(self.duals) if isinstance(rows, slice) else len(rows)

    def products(self, rows: Rows, weights: FloatArray) -> FloatArray:
        """Return x_{k,i}·w of some rows."""
        out = np.empty((self.count(rows), weights.shape[1]))
        row_products(*self._csr, self._numbers(rows), weights, out)
        return out

    def combine(self, rows: Rows, coefficients: FloatArray) -> FloatArray:
        """Return Σ_j coefficients_j x_{rows_j}."""
        out = np.zeros((self.block.X.shape[1], coefficients.shape[1]))
        add_row_combination(*self._csr, self._numbers(rows), coefficients, out)
        return out

    def weighted(
        self, values: FloatArray, rows: Rows | BoolArray = EVERYWHERE
    ) -> FloatArray:
        """Return values of samples (of some rows) times the weights of the samples."""
        weights = self.block.sample_weights
        if weights is None:
            return values
        return values * weights[rows]

    def _numbers(self, rows: Rows) -> NDArray[np.uint32]:
        if isinstance(rows, slice):
            return self._every_row
        return rows.astype(np.uint32)

    def _partial_norms(self) -> FloatArray:
        X = self.block.X
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).reshape(-1, 1)


def _power_above(value: float) -> float:
    """Return the power of two just above a number; 0 for 0."""
    return math.ldexp(1.0, math.frexp(value)[1]) if value > 0 else 0.0

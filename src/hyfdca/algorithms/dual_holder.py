"""What the clients of dual ascent keep and answer: duals, weights and shares."""

from __future__ import annotations

import numpy as np

from hyfdca.algorithms.aggregation import EVERYWHERE
from hyfdca.algorithms.certificate import Measuring, grid_step
from hyfdca.algorithms.holder import Holder, Rows
from hyfdca.algorithms.problem import Block, Problem
from hyfdca.crypto.base import Sealer
from hyfdca.losses import FloatArray
from hyfdca.protocol import messages as m
from hyfdca.protocol.client import Phase

# Above this share of changed duals a share is computed anew: cheaper, and exact.
_ANEW = 0.25


class DualHolder(Holder):
    """A holder that changes duals.

    State: ``duals`` (α of its samples, per unit of sample weight), ``weights`` (w of
    its features) and ``share`` (its part of λN w).
    """

    def __init__(self, problem: Problem, block: Block, sealer: Sealer) -> None:
        super().__init__(problem, block, sealer)
        self.duals = np.zeros((self.n_held, problem.n_outputs))
        self.weights = np.zeros((self.n_features, problem.n_outputs))
        self.share = np.zeros((self.n_features, problem.n_outputs))
        self.weights_step = 0.0  # of the grid that the weights' sum came on
        self.phases = {
            **self.phases,
            "shares": Phase(m.SharesRequest, self._shares),
            "weights": Phase(m.WeightsNotice, self._weights),
            "margins": Phase(m.MarginsRequest, self._margins),
            **Measuring(self).phases,
        }

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

    def opened_weights(self, sums: m.Sums) -> FloatArray:
        """Return what shares of this client's features add up to, over λN."""
        total = self.opened(sums, (self.n_features, -1), self.feature_sealer)
        return total / self.problem.l2_scale

"""What the clients of dual ascent keep and answer: duals, weights and shares."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hyfdca.algorithms.hyfdca.shown_shares import ShownShares
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.federation.client import Holder, Rows
from hyfdca.federation.evaluation import Measuring, grid_step
from hyfdca.federation.problem import Problem
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.holdings.block import Block
from hyfdca.protocol import messages as m
from hyfdca.protocol.client_session import Phase

# Above this share of changed duals a share is computed anew: cheaper, and exact.
_ANEW = 0.25


class DualHolder(Holder):
    """A holder that changes duals.

    State: ``duals`` (α of its samples, per unit of sample weight), ``weights`` (w of
    its features) and ``share`` (its part of λN w).
    """

    kept: ClassVar[tuple[str, ...]] = (
        "duals",
        "weights",
        "share",
        "weights_step",
        "held_back",
        "_sent",
        "_shown",
        "_measuring",
    )

    def __init__(self, problem: Problem, block: Block, sealers: Sealers) -> None:
        super().__init__(problem, block, sealers)
        self.duals = np.zeros((self.n_held, problem.n_outputs))
        self.weights = np.zeros((self.n_features, problem.n_outputs))
        self.share = np.zeros((self.n_features, problem.n_outputs))
        self.weights_step = 0.0  # of the grid that the weights' sum came on
        # Margins as last sent, for packed schemes, which replace whole blocks.
        self._sent: IntArray | None = None
        is_in_shares = np.diff(block.X.indptr) > 0
        if block.sample_weights is not None:
            is_in_shares &= np.any(block.sample_weights > 0, axis=1)
        self._shown = ShownShares(
            problem.min_rows, is_in_shares, self.duals, self.share
        )
        self.held_back = np.zeros_like(self.share)  # of the share, in training
        self._measuring = Measuring(self)
        self.phases = {
            **self.phases,
            "shares": Phase(m.SharesRequest, self._shares),
            "weights": Phase(m.WeightsNotice, self._weights),
            "margins": Phase(m.MarginsRequest, self._margins),
            **self._measuring.phases,
        }

    # The two primitives

    def _shares(self, request: m.SharesRequest) -> m.Message:
        """PrimalAggregation: take the duals that changed, return Σ_i α_i x_{k,i}."""
        rows = self.unpack_rows(request.positions)
        self.set_duals(rows, self.opened_samples(request.duals, rows))
        reply, self.held_back = self.share_part(self.duals, self.share, request.grid)
        return reply

    def share_part(
        self, duals: FloatArray, share: FloatArray, grid: m.GridSpec
    ) -> tuple[m.Message, FloatArray]:
        """Return a share of some duals, or an old one, and what that one lacks."""
        if self.problem.min_rows == 1:
            return self.feature_part(share, grid), self.held_back
        sent = self._shown.choose(duals, share)
        reply = self.feature_part(sent, grid)
        if sent is share and isinstance(reply, m.Part):
            self._shown.note(duals, share)
        return reply, share - sent

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
        margins = self.products(rows, self.weights)
        try:
            numbers = self.encoded(margins, request.grid)
        except GridOverflowError:
            return m.TooLarge()
        rest = self._noted(rows, numbers) if self.sealer("samples").is_packed else None
        return m.Part(self.sealed_samples(numbers, request.grid, rows, rest))

    def _noted(self, rows: Rows, numbers: IntArray) -> IntArray:
        """Return the margins of all samples as they are sent with this message."""
        if self._sent is None:
            self._sent = np.zeros(self.duals.shape, np.int64)
        self._sent[rows] = numbers
        return self._sent

    def opened_weights(self, sums: m.Sums) -> FloatArray:
        """Return what shares of this client's features add up to, over λN."""
        return self.opened_features(sums) / self.problem.l2_scale

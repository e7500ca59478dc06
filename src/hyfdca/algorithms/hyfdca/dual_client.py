"""A client's side of dual ascent: its duals, weights and share, and measuring."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hyfdca.algorithms.hyfdca import messages as m
from hyfdca.algorithms.hyfdca.shown_shares import ShownShares, ShownState
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.client import Party, grid_step
from hyfdca.federation.evaluation.measuring import loss_totals
from hyfdca.federation.margins import SentMargins
from hyfdca.federation.messages import Released, ReleaseRequest
from hyfdca.federation.sealing.client_sealing import Rows
from hyfdca.federation.sealing.kinds import FeatureKind, SampleKind
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError, pack_reals
from hyfdca.protocol.messages import GridSpec, Message, Part, Sums

# Above this share of changed duals a share is recomputed: cheaper, and exact.
_RECOMPUTE = 0.25
_N_TOTALS = 4  # loss, conjugate, λ/2||w||² for P and for D


@dataclass(frozen=True, repr=False)
class Point:
    """Duals and the weights they give, as a client has them.

    Parameters
    ----------
    duals : array (samples held, n_outputs)
        α, per unit of sample weight.
    weights : array (features held, n_outputs)
    weights_step : float
        Width of the grid that the weights' sum came on.
    held_back : array (features held, n_outputs)
        What the share that was shown lacks of the share of these duals.
    """

    duals: FloatArray
    weights: FloatArray
    weights_step: float
    held_back: FloatArray


@dataclass(frozen=True, repr=False)
class DualClientState:
    """What a checkpoint keeps of a client's side of dual ascent."""

    duals: FloatArray
    weights: FloatArray
    share: FloatArray
    weights_step: float
    held_back: FloatArray
    sent: IntArray | None
    shown: ShownState
    measuring: Point
    measured: dict[int, FloatArray]


class DualClient:
    """State: duals, weights, and ``share``, this client's part of λN w.

    Parameters
    ----------
    min_rows : int
        Rows whose duals differ between any two shares that the client shows.
    """

    def __init__(self, party: Party, min_rows: int) -> None:
        self._party, self._sealing, self._min_rows = party, party.sealing, min_rows
        by_feature = (party.n_features, party.problem.n_outputs)
        self.duals = np.zeros((party.n_held, party.problem.n_outputs))
        self.weights, self.share = np.zeros(by_feature), np.zeros(by_feature)
        self._weights_step = 0.0
        self._held_back = np.zeros(by_feature)
        self._sent = SentMargins(party)
        self._shown = ShownShares(
            min_rows, _rows_in_shares(party), self.duals, self.share
        )
        # What is measured is not the training state.
        self._measuring = self._present()
        # By measurement: some clients may not have finished the last one.
        self._measured: dict[int, FloatArray] = {}

    @property
    def handlers(self) -> Handlers:
        """What the client does in every round of dual ascent, and in measuring."""
        return {
            "shares": self._answer_shares,
            "weights": self._take_weights,
            "margins": self._answer_margins,
            "reseal": self._reseal,
            "measure shares": self._measure_shares,
            "measure margins": self._measure_margins,
            "losses": self._losses,
            "open": self._party.open_totals,
            "release": self._release,
        }

    def state(self) -> DualClientState:
        """Return what a checkpoint keeps."""
        return DualClientState(
            self.duals,
            self.weights,
            self.share,
            self._weights_step,
            self._held_back,
            self._sent.numbers,
            self._shown.state(),
            self._measuring,
            self._measured,
        )

    def restore(self, state: DualClientState) -> None:
        """Take a state."""
        self.duals, self.weights, self.share = state.duals, state.weights, state.share
        self._weights_step, self._held_back = state.weights_step, state.held_back
        self._sent.numbers = state.sent
        self._shown.restore(state.shown)
        self._measuring, self._measured = state.measuring, dict(state.measured)

    # The two primitives

    def _answer_shares(self, request: m.SharesRequest) -> Message:
        """PrimalAggregation: take the duals that changed, return Σ_i α_i x_{k,i}."""
        rows = self._sealing.unpack_rows(request.positions)
        opened = self._sealing.opened_samples("drawn duals", request.duals, rows)
        duals, share = self.changed(rows, opened)
        reply, self._held_back = self._share_part(duals, share, request.grid)
        self.duals, self.share = duals, share
        return reply

    def _share_part(
        self, duals: FloatArray, share: FloatArray, grid: GridSpec
    ) -> tuple[Message, FloatArray]:
        """Return a share of some duals, or an old share and what it lacks."""
        if self._min_rows == 1:
            return self._sealing.feature_part("weights", share, grid), self._held_back
        sent = self._shown.choose(duals, share)
        reply = self._sealing.feature_part("weights", sent, grid)
        if sent is share and isinstance(reply, Part):
            self._shown.note(duals, share)
        return reply, share - sent

    def changed(self, rows: Rows, new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return all duals with some changed, and the share that they give.

        The present ones stay: whoever takes these must first be able to answer.
        """
        party, duals = self._party, new
        if not isinstance(rows, slice):
            duals = self.duals.copy()
            duals[rows] = new
        if self._sealing.count(rows) > _RECOMPUTE * len(self.duals):
            return duals, party.combine(EVERYWHERE, party.weighted(duals))
        change = party.weighted(new - self.duals[rows], rows)
        return duals, self.share + party.combine(rows, change)

    def _take_weights(self, notice: m.WeightsNotice) -> None:
        self.take_weights(notice.weights)

    def take_weights(self, sums: Sums) -> None:
        """Take the present weights of the client's features."""
        self.keep_weights(self.opened_weights(sums), sums)

    def keep_weights(self, weights: FloatArray, sums: Sums) -> None:
        """Take weights that were opened from these sums."""
        self.weights, self._weights_step = weights, grid_step(sums)

    def _answer_margins(self, request: m.MarginsRequest) -> Message:
        """SecureInnerProduct: return x_{k,i}·w_k of the samples asked for."""
        rows = self._sealing.unpack_rows(request.positions)
        sums, weights = request.weights, self.weights
        if sums is not None:
            weights = self.opened_weights(sums)
        margins = self._party.products(rows, weights)
        reply = self._sent.part(margins, rows, request.grid)
        if sums is not None:
            self.keep_weights(weights, sums)
        return reply

    def opened_weights(self, sums: Sums, kind: FeatureKind = "weights") -> FloatArray:
        """Return what shares of this client's features add up to, over λN."""
        return self._sealing.opened_features(kind, sums) / self._party.problem.l2_scale

    def _reseal(self, request: m.ResealRequest) -> m.Resealed:
        rows = self._sealing.unpack_rows(request.positions)
        return m.Resealed(self._sealing.resealed("drawn duals", request.sums, rows))

    # Measuring

    def _present(self) -> Point:
        return Point(self.duals, self.weights, self._weights_step, self._held_back)

    def _measure_shares(self, request: m.SharesRequest) -> Message:
        """Return the share of the study's present duals, including missed ones."""
        party = self._party
        rows = self._sealing.unpack_rows(request.positions)
        opened = self._sealing.opened_samples("drawn duals", request.duals, rows)
        duals = self.duals.copy()
        duals[rows] = opened
        share = party.combine(EVERYWHERE, party.weighted(duals))
        reply, held_back = self._share_part(duals, share, request.grid)
        self._measuring = replace(self._measuring, duals=duals, held_back=held_back)
        return reply

    def _measure_margins(self, request: m.MarginsRequest) -> Message:
        sums = request.weights or []
        weights = self.opened_weights(sums)
        products = self._party.products(EVERYWHERE, weights)
        reply = self._sealing.sample_part("margins", products, request.grid)
        self._measuring = replace(
            self._measuring, weights=weights, weights_step=grid_step(sums)
        )
        return reply

    def _losses(self, request: m.LossesRequest) -> Message:
        """Return this client's part of (loss, conjugate, λ/2||w||², the same above).

        Every number is rounded so that the certificate can only be too large.
        """
        party, problem = self._party, self._party.problem
        counted = party.block.counts_sample
        rows = EVERYWHERE if counted.all() else np.flatnonzero(counted)
        kind: SampleKind = "drawn margins" if request.is_current else "margins"
        margins = party.margins(request.margins, rows, kind=kind)
        point = self._present() if request.is_current else self._measuring
        totals = np.zeros((_N_TOTALS, problem.n_outputs))
        if party.block.labels is not None:
            step = grid_step(request.margins)
            totals[:2] = loss_totals(party, margins, step, point.duals)
        counted = party.block.counts_feature
        sizes = np.abs(point.weights[counted])
        holders = party.feature_holders[counted, None]
        error = holders * point.weights_step / 2 / problem.l2_scale
        totals[2] = 0.5 * problem.l2_strength * (sizes**2).sum(axis=0)
        totals[3] = 0.5 * problem.l2_strength * ((sizes + error) ** 2).sum(axis=0)
        if point.held_back.any():
            totals[3] += self._norm_held_back(point)
        reply = self._sealing.total_part("totals", totals, request.grid, "up")
        last = {n: w for n, w in self._measured.items() if n == request.number - 1}
        self._measuring = point
        self._measured = {**last, request.number: point.weights}
        return reply

    def _norm_held_back(self, point: Point) -> FloatArray:
        """Return how far λ/2||w||² of the present duals exceeds that of the weights.

        With e_k what client k held back of its share, over λN, the duals' own weights
        are w + Σ_k e_k: up to its rounding, w·e_k is known here, and the square of the
        sum is at most the sum of squares times the holders of a feature.
        """
        problem = self._party.problem
        lacking = point.held_back / problem.l2_scale
        holders = self._party.feature_holders[:, None]
        error = holders * point.weights_step / 2 / problem.l2_scale
        across = point.weights * lacking + error * np.abs(lacking)
        squares = holders * lacking**2 / 2
        return np.asarray(problem.l2_strength * (across + squares).sum(axis=0))

    def _release(self, request: ReleaseRequest) -> Released:
        """Give away the measured weights of this client's features."""
        if request.number not in self._measured:
            raise RemoteProtocolError("there is no such measurement to release")
        return Released(pack_reals(self._measured[request.number]))


def _rows_in_shares(party: Party) -> np.ndarray:
    """Return which rows are part of shares: those with a cell and with weight."""
    block = party.block
    is_in_shares = np.diff(block.X.indptr) > 0
    if block.sample_weights is not None:
        is_in_shares &= np.any(block.sample_weights > 0, axis=1)
    return is_in_shares

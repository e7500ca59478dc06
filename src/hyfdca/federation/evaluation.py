"""The certificate: P and D measured by sealed totals, and the release of the model.

| exchange        | down                               | up                       |
|-----------------|------------------------------------|--------------------------|
| measure shares  | duals a client missed, sealed      | Σ α_i x_{k,i}            |
| measure margins | weights                            | x_{k,i}·w, sealed        |
| losses          | margins of samples counted, sealed | totals, sealed           |
| open            | grand totals, to one client        | P and D, open            |
| release         | -                                  | weights, open            |

The first two are needed only where some client is behind; they are kept apart from the
training state, so that measuring does not bring anybody up to date.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.problem import SLACK
from hyfdca.federation.sums import EVERYWHERE, CachedSum
from hyfdca.maths.objective import Measurement
from hyfdca.protocol import messages as m
from hyfdca.protocol.checkpoint import Kept
from hyfdca.protocol.client_session import Phase
from hyfdca.protocol.codec import RemoteProtocolError, pack_reals, unpack_reals
from hyfdca.protocol.server_session import Conversation

if TYPE_CHECKING:
    from hyfdca.algorithms.hyfdca.dual_client import DualHolder
    from hyfdca.algorithms.hyfdca.dual_server import DualCoordinator
    from hyfdca.federation.server import Coordinator

_N_TOTALS = 4  # loss, conjugate, λ/2||w||² for P and for D


def certify(coordinator: DualCoordinator) -> Conversation[Measurement]:
    """Measure P and D of the present duals and of the weights they give."""
    number = coordinator.n_measured + 1
    margins = coordinator.margins
    is_current = coordinator.is_exact
    if not is_current:
        margins = yield from _margins_on_the_side(coordinator)
    parts = yield from coordinator.gather(
        "losses",
        coordinator.everyone,
        ["totals"],
        lambda client: m.LossesRequest(
            margins.take(client, _counted(coordinator, client)),
            is_current,
            number,
            coordinator.spec("totals"),
        ),
        m.Part,
    )
    sealed = [part.vector for part in parts.values()]
    shape = (_N_TOTALS, coordinator.problem.n_outputs)
    total = coordinator.sum_of(sealed, shape)
    [totals] = yield from coordinator.open_totals([total], [shape])
    coordinator.n_measured = number
    loss, conjugate, norm, norm_above = totals.sum(axis=1).tolist()
    return Measurement(
        primal=(loss + norm) * (1 + SLACK),
        dual=0.0 - conjugate - norm_above - SLACK * (abs(conjugate) + norm_above),
    )


def _counted(coordinator: DualCoordinator, client: int) -> IntArray | None:
    """Return the positions whose loss a client counts: no others' margins are sent."""
    counted = coordinator.layout.counts_samples(client)
    return None if counted.all() else np.flatnonzero(counted)


def _margins_on_the_side(coordinator: DualCoordinator) -> Conversation[CachedSum]:
    """Sum shares, then margins, of everybody with the present duals."""
    missed = [coordinator.pending(client) for client in coordinator.everyone]
    shares = yield from coordinator.gather_sum(
        "measure shares",
        ["shares"],
        lambda client: coordinator.shares_request(client, missed[client]),
        coordinator.feature_sum(),
    )
    margins = yield from coordinator.gather_sum(
        "measure margins",
        ["margins"],
        lambda client: m.MarginsRequest(
            shares.take(client), None, coordinator.spec("margins")
        ),
        coordinator.sample_sum(),
    )
    return margins


def release(coordinator: Coordinator, request: m.Message) -> Conversation[FloatArray]:
    """Ask everybody for the weights it counts; return (n_features, n_outputs)."""
    replies = yield from coordinator.session.ask(
        "release", dict.fromkeys(coordinator.everyone, request), m.Released
    )
    layout, n_outputs = coordinator.layout, coordinator.problem.n_outputs
    weights = np.zeros((layout.features.n_items, n_outputs))
    for client, reply in replies.items():
        counted = layout.features.items[client][layout.counts_features(client)]
        numbers = unpack_reals(reply.weights, len(counted) * n_outputs)
        weights[counted] = numbers.reshape(len(counted), n_outputs)
    return weights


@dataclass
class DualServer(Kept):
    """A server half that measures by exchanges of its own and releases what it did."""

    kept: ClassVar[tuple[str, ...]] = ("coordinator",)

    coordinator: DualCoordinator

    @property
    def is_between_steps(self) -> bool:
        """Whether nothing is suspended: a round is a whole step."""
        return True

    def certify(self) -> Conversation[Measurement]:
        """Measure P and D."""
        return certify(self.coordinator)

    def release(self) -> Conversation[FloatArray]:
        """Return the weights of the last certificate."""
        request = m.ReleaseRequest(self.coordinator.n_measured)
        return release(self.coordinator, request)


class Measuring(Kept):
    """A client's half: what it measures is not its training state."""

    kept: ClassVar[tuple[str, ...]] = (
        "_duals",
        "_weights",
        "_weights_step",
        "_held_back",
        "_certified",
    )

    def __init__(self, holder: DualHolder) -> None:
        self._holder = holder
        self._duals, self._weights = holder.duals, holder.weights
        self._weights_step = 0.0
        self._held_back = holder.held_back
        # By measurement: the last one may not have been finished by everybody.
        self._certified: dict[int, FloatArray] = {}
        self.phases = {
            "measure shares": Phase(m.SharesRequest, self._shares),
            "measure margins": Phase(m.MarginsRequest, self._margins),
            "losses": Phase(m.LossesRequest, self._losses),
            "release": Phase(m.ReleaseRequest, self._release),
        }

    def _shares(self, request: m.SharesRequest) -> m.Message:
        """Return the share of the study's present duals, whatever was missed."""
        holder = self._holder
        rows = holder.unpack_rows(request.positions)
        opened = holder.opened_samples(request.duals, rows)
        self._duals = holder.duals.copy()
        self._duals[rows] = opened
        share = holder.combine(EVERYWHERE, holder.weighted(self._duals))
        reply, self._held_back = holder.share_part(self._duals, share, request.grid)
        return reply

    def _margins(self, request: m.MarginsRequest) -> m.Message:
        holder, sums = self._holder, request.weights or []
        self._weights, self._weights_step = holder.opened_weights(sums), grid_step(sums)
        products = holder.products(EVERYWHERE, self._weights)
        return holder.sample_part(products, request.grid)

    def _losses(self, request: m.LossesRequest) -> m.Message:
        """Return this client's part of (loss, conjugate, λ/2||w||², the same above).

        Every number is rounded so that the certificate can only be too large: losses
        at the worse end of what rounding may have done to the margin, the norm in D
        with the worst case of rounded shares.
        """
        holder, problem = self._holder, self._holder.problem
        margins = self._counted_margins(request.margins)
        if request.is_current:
            self._duals, self._weights = holder.duals, holder.weights
            self._weights_step = holder.weights_step
            self._held_back = holder.held_back
        totals = np.zeros((_N_TOTALS, problem.n_outputs))
        if holder.block.labels is not None:
            step = grid_step(request.margins)
            totals[:2] = self._loss_totals(margins, step, holder.block.labels)
        counted = holder.block.counts_feature
        sizes = np.abs(self._weights[counted])
        holders = holder.feature_holders[counted, None]
        error = holders * self._weights_step / 2 / problem.l2_scale
        totals[2] = 0.5 * problem.l2_strength * (sizes**2).sum(axis=0)
        totals[3] = 0.5 * problem.l2_strength * ((sizes + error) ** 2).sum(axis=0)
        if self._held_back.any():
            totals[3] += self._norm_held_back()
        last = {n: w for n, w in self._certified.items() if n == request.number - 1}
        self._certified = {**last, request.number: self._weights}
        return holder.total_part(totals, request.grid, "up")

    def _norm_held_back(self) -> FloatArray:
        """Return what λ/2||w||² of the present duals is above that of the weights.

        With e_k what client k held back of its share, over λN, the duals' own weights
        are w + Σ_k e_k: up to its rounding, w·e_k is known here, and the square of the
        sum is at most the sum of squares times the holders of a feature.
        """
        holder, problem = self._holder, self._holder.problem
        lacking = self._held_back / problem.l2_scale
        holders = holder.feature_holders[:, None]
        error = holders * self._weights_step / 2 / problem.l2_scale
        across = self._weights * lacking + error * np.abs(lacking)
        squares = holders * lacking**2 / 2
        return np.asarray(problem.l2_strength * (across + squares).sum(axis=0))

    def _counted_margins(self, sums: m.Sums) -> FloatArray:
        counted = self._holder.block.counts_sample
        rows = EVERYWHERE if counted.all() else np.flatnonzero(counted)
        return self._holder.opened_samples(sums, rows)

    def _loss_totals(
        self, margins: FloatArray, step: float, labels: FloatArray
    ) -> FloatArray:
        """Return mean loss and mean conjugate over the samples counted here."""
        holder, loss = self._holder, self._holder.problem.loss
        counted = holder.block.counts_sample
        error = holder.sample_holders[counted, None] * step / 2
        above, below = (
            loss.value(margins + sign * error, labels[counted]) for sign in (1, -1)
        )
        conjugates = loss.conjugate(self._duals[counted], labels[counted])
        both = [np.maximum(above, below), conjugates]
        sums_of = [holder.weighted(values, counted).sum(axis=0) for values in both]
        return np.stack(sums_of) / holder.problem.n_samples

    def _release(self, request: m.ReleaseRequest) -> m.Released:
        """Give away the measured weights of the features this client answers for."""
        if request.number not in self._certified:
            raise RemoteProtocolError("there is no such measurement to release")
        counted = self._holder.block.counts_feature
        return m.Released(pack_reals(self._certified[request.number][counted]))


def grid_step(sums: m.Sums) -> float:
    """Return the width of the coarsest grid in a sum."""
    return max((2.0**-vector.fraction_bits for vector in sums), default=0.0)

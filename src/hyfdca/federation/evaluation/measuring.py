"""Evaluation of any method: P of its weights and a bound D, by sealed sums.

For weights w with margins z, the duals α = -l'(z) touch the loss at z, so

    P(w) = λ/2 ||w||² + 1/N Σ l_i(z_i)   and   D(α) = -λ/2 ||w(α)||² - 1/N Σ l_i*(-α_i)

are a loss and a lower bound on the optimum, whatever the method is and however biased:
P - D is then λ/2 ||w - w(α)||² where the loss is smooth. A method with duals of its own
hands those over instead, since -l' jumps where the loss has a kink.

| phase           | down                                  | up                      |
|-----------------|---------------------------------------|-------------------------|
| evaluate        | weights, by profile                   | x_{k,i}·w, sealed       |
| touch           | margins, sealed, to those with labels | Σ α_i x_{k,i}; totals   |
| touch forwarded | α, sealed, to those without labels    | Σ α_i x_{k,i}           |
| evaluate norms  | w(α), by profile                      | totals of both norms    |
| open            | grand totals, to one client           | P and D, open           |

Every number is rounded so that the certificate can only be too large: losses at the
worse end of what rounding may have done to a margin, norms with the worst case of
rounded shares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.federation import messages as m
from hyfdca.federation.client import Party, grid_step
from hyfdca.federation.grids import Grids
from hyfdca.federation.problem import SLACK
from hyfdca.federation.server import Federation, Point
from hyfdca.federation.sums import EVERYWHERE, CachedSum
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError, pack_reals
from hyfdca.protocol.messages import (
    Message,
    Part,
    SealedTotals,
    Sums,
    TooLarge,
    TotalsPart,
)
from hyfdca.protocol.server_session import BadReplyError, Conversation


def measured(totals: FloatArray) -> Measurement:
    """Return P and D from loss, conjugate and both penalties, by output."""
    loss, conjugate, norm, norm_above = totals.sum(axis=1).tolist()
    return Measurement(
        primal=(loss + norm) * (1 + SLACK),
        dual=0.0 - conjugate - norm_above - SLACK * (abs(conjugate) + norm_above),
    )


@dataclass(frozen=True, repr=False)
class EvaluationState:
    """What a checkpoint keeps of the server's side: how often it has measured."""

    n_measured: int


class Evaluation:
    """The server's side.

    Parameters
    ----------
    weights_for : callable
        Returns the weights to send to a client, as sums over holders; None if the
        client has the present weights.
    """

    _grids: Grids

    def __init__(
        self, federation: Federation, weights_for: Callable[[int], Sums | None]
    ) -> None:
        self._federation, self._weights_for = federation, weights_for
        self._n_measured = 0

    def state(self) -> EvaluationState:
        """Return what a checkpoint keeps."""
        return EvaluationState(self._n_measured)

    def restore(self, state: EvaluationState) -> None:
        """Take a state."""
        self._n_measured = state.n_measured

    def measure(self) -> Conversation[Measurement]:
        """Measure P and D of the present weights; everybody takes part."""
        federation = self._federation
        # New grids: after huge weights, others are measured finely again.
        self._grids = federation.grid_maker.grids(federation.problem, federation.bounds)
        margins = yield from self._margins()
        touching, losses = yield from self._touch(margins)
        norms = yield from self._norms(touching)
        n_outputs = federation.problem.n_outputs
        shapes = [(2, n_outputs), (2, n_outputs)]
        sums = [
            federation.sum_of(losses, shapes[0]),
            federation.sum_of(norms, shapes[1]),
        ]
        totals = yield from federation.open_totals(sums)
        self._n_measured += 1
        found = measured(np.concatenate(totals))
        # No loss is negative, so D(0) = 0 is a bound too.
        return Measurement(found.primal, max(found.dual or 0.0, 0.0))

    def released_point(self) -> Point:
        """Return where the weights last measured are."""
        return Point(m.ReleaseRequest(self._n_measured))

    def _margins(self) -> Conversation[CachedSum]:
        federation, grid = self._federation, self._grids.margins
        return (
            yield from federation.gather_sum(
                "evaluate",
                [grid],
                lambda client: m.EvaluateRequest(self._weights_for(client), grid.spec),
                federation.sample_sum(),
            )
        )

    def _touch(
        self, margins: CachedSum
    ) -> Conversation[tuple[CachedSum, dict[int, SealedTotals]]]:
        """Return the sum of shares of the touching duals, and totals of losses."""
        federation = self._federation
        grids, forwards = self._grids, bool(federation.unlabelled)
        replies = yield from federation.gather(
            "touch",
            federation.labelled,
            [grids.shares, grids.totals, grids.duals],
            lambda client, spec: m.TouchRequest(
                margins.take(client),
                grids.shares.spec,
                spec,
                grids.duals.spec,
                forwards,
            ),
            m.Touched,
            grids.totals,
        )
        touching = federation.feature_sum()
        for client, reply in replies.items():
            touching.put(client, reply.vector)
        if forwards:
            yield from self._forward(replies, touching)
        return touching, {c: reply.totals for c, reply in replies.items()}

    def _forward(
        self, replies: dict[int, m.Touched], touching: CachedSum
    ) -> Conversation[None]:
        """Pass the designated holders' duals on to the holders without labels."""
        federation, grid = self._federation, self._grids.shares
        duals = federation.running_sample_sum()
        for client, reply in replies.items():
            if reply.duals is None:
                raise BadReplyError("touch", client, "it withheld its duals")
            duals.add(client, reply.duals, None)
        parts = yield from federation.gather(
            "touch forwarded",
            federation.unlabelled,
            [grid],
            lambda client: m.ForwardedRequest(duals.take(client, None), grid.spec),
            Part,
        )
        for client, part in parts.items():
            touching.put(client, part.vector)

    def _norms(self, touching: CachedSum) -> Conversation[dict[int, SealedTotals]]:
        federation, grid = self._federation, self._grids.totals
        number = self._n_measured + 1
        parts = yield from federation.gather(
            "evaluate norms",
            federation.everyone,
            [grid],
            lambda client, spec: m.NormsRequest(touching.take(client), number, spec),
            TotalsPart,
            grid,
        )
        return {client: part.vector for client, part in parts.items()}


class WeightHolder(Protocol):
    """A client half that has the weights of its own features."""

    weights: FloatArray

    def weights_of(self, sums: Sums) -> FloatArray:
        """Return the weights that a sum over holders represents."""
        ...

    def bound_duals(self, margins: FloatArray) -> FloatArray:
        """Return duals for the bound, inside the domain of the loss."""
        ...


@dataclass(frozen=True, repr=False)
class EvaluatedState:
    """What a checkpoint keeps of a client's side: weights by measurement."""

    measured: dict[int, FloatArray]


class Evaluated:
    """A client's side; what it measures is not its training state."""

    def __init__(self, party: Party, holder: WeightHolder) -> None:
        self._party, self._holder = party, holder
        self._weights = holder.weights
        # Some clients may not have finished the last measurement.
        self._measured: dict[int, FloatArray] = {}

    @property
    def handlers(self) -> Handlers:
        """What the client does in the phases of an evaluation."""
        return {
            "evaluate": self._evaluate,
            "touch": self._touch,
            "touch forwarded": self._touch_forwarded,
            "evaluate norms": self._norms,
            "open": self._party.open_totals,
            "release": self._release,
        }

    def state(self) -> EvaluatedState:
        """Return what a checkpoint keeps."""
        return EvaluatedState(self._measured)

    def restore(self, state: EvaluatedState) -> None:
        """Take a state."""
        self._measured = dict(state.measured)

    def _evaluate(self, request: m.EvaluateRequest) -> Message:
        party, holder = self._party, self._holder
        sums = request.weights
        self._weights = holder.weights if sums is None else holder.weights_of(sums)
        products = party.products(EVERYWHERE, self._weights)
        return party.sealing.sample_part("margins", products, request.grid)

    def _touch(self, request: m.TouchRequest) -> Message:
        """Form α on the grid of duals; return what it adds up to."""
        party = self._party
        margins = party.margins(request.margins)
        counted = party.block.counts_sample
        try:
            duals = self._holder.bound_duals(margins)
            duals = party.sealing.on_grid(duals, request.duals_grid)
            share = party.combine(EVERYWHERE, party.weighted(duals))
            step = grid_step(request.margins)
            totals = loss_totals(party, margins[counted], step, duals)
            forwarded = None
            if request.forwards:
                own = np.where(counted[:, None], duals, 0.0)
                numbers = party.sealing.encoded(own, request.duals_grid)
                forwarded = party.sealing.sealed_samples(
                    "duals", numbers, request.duals_grid
                )
            return m.Touched(
                party.sealing.sealed_features("dual weights", share, request.grid),
                party.sealing.sealed_totals(
                    "totals", totals, request.totals_grid, "up"
                ),
                forwarded,
            )
        except GridOverflowError:
            return TooLarge()

    def _touch_forwarded(self, request: m.ForwardedRequest) -> Message:
        party = self._party
        duals = party.sealing.opened_samples("duals", request.duals)
        share = party.combine(EVERYWHERE, party.weighted(duals))
        return party.sealing.feature_part("dual weights", share, request.grid)

    def _norms(self, request: m.NormsRequest) -> Message:
        """Return λ/2||w||² and λ/2||w(α)||² of the features counted, rounded up."""
        party, strength = self._party, self._party.problem.l2_strength
        counted = party.block.counts_feature
        own = 0.5 * strength * (self._weights[counted] ** 2).sum(axis=0)
        shares = party.sealing.opened_features("dual weights", request.weights)
        sizes = np.abs(shares[counted]) / party.problem.l2_scale
        step = grid_step(request.weights)
        error = party.feature_holders[counted, None] * step / 2 / party.problem.l2_scale
        above = 0.5 * strength * ((sizes + error) ** 2).sum(axis=0)
        last = {n: w for n, w in self._measured.items() if n == request.number - 1}
        self._measured = {**last, request.number: self._weights}
        totals = np.stack([own, above])
        return party.sealing.total_part("totals", totals, request.grid, "up")

    def _release(self, request: m.ReleaseRequest) -> m.Released:
        """Give away the measured weights of this client's features."""
        if request.number not in self._measured:
            raise RemoteProtocolError("there is no such measurement to release")
        return m.Released(pack_reals(self._measured[request.number]))


# What both sides of any evaluation share


def counted_positions(federation: Federation, client: int) -> IntArray | None:
    """Return the positions whose loss a client counts: no others' margins are sent."""
    counted = federation.layout.counts_samples(client)
    return None if counted.all() else np.flatnonzero(counted)


def loss_totals(
    party: Party, margins: FloatArray, step: float, duals: FloatArray
) -> FloatArray:
    """Return mean loss and mean conjugate over the samples that a client counts.

    Parameters
    ----------
    margins : array (samples counted, n_outputs)
    duals : array (samples held, n_outputs)
    step : float
        The width of the grid of the margins' sum.
    """
    loss, counted = party.problem.loss, party.block.counts_sample
    labels = party.labels[counted]
    error = party.sample_holders[counted, None] * step / 2
    above, below = (loss.value(margins + sign * error, labels) for sign in (1, -1))
    conjugates = party.conjugates(duals[counted], counted)
    both = [np.maximum(above, below), conjugates]
    sums_of = [party.weighted(values, counted).sum(axis=0) for values in both]
    return np.stack(sums_of) / party.problem.n_samples

"""Measures P again at the released weights, to confirm that these were certified.

| phase          | down                                    | up                       |
|----------------|-----------------------------------------|--------------------------|
| confirm        | released weights of its own features    | x_{k,i}·w, sealed        |
| confirm losses | margins of the samples counted, sealed  | totals of losses, sealed |
| open confirmed | grand totals, to one client             | the loss, open           |

A client refuses weights other than those that it released itself. The server adds
λ/2 ||w||² by itself, since it has the weights. Losses are rounded down here, those of
the certificate up: so the loss of an honest model is never above the certified P,
whatever the grids. It may be below, and then the model is better than certified.
"""

from __future__ import annotations

import math

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation import messages as m
from hyfdca.federation.client import Party, grid_step
from hyfdca.federation.evaluation.measuring import counted_positions
from hyfdca.federation.evaluation.release import sole_holders
from hyfdca.federation.grids import VectorGrid
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RefusedError, pack_reals, unpack_reals
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import BadReplyError, Conversation

_FLOAT_ERROR = 1e-12  # of a margin, and of sums of losses
_SLACK = 1e-9  # of P: covers the rounding of sums in another order


# The server's side


def confirm(
    federation: Federation, weights: FloatArray, certified: float, l2: float
) -> Conversation[None]:
    """Measure P at released weights and compare it with the certified P.

    Parameters
    ----------
    weights : array (n_features, n_outputs)
        A free intercept comes last.
    certified : float
        Not compared if it is infinite.
    l2 : float
        The model's λ.

    Raises
    ------
    BadReplyError
        If P is above the certified one.
    """
    n_features = federation.layout.features.n_items
    own, intercepts = weights[:n_features], tuple(weights[n_features:].ravel().tolist())
    loss = yield from _loss_at(federation, own, intercepts)
    primal = loss + 0.5 * l2 * float((own**2).sum())
    if primal > certified + _SLACK * abs(certified):
        reason = (
            f"at the released weights the loss is at least {primal:.6g}, but "
            f"{certified:.6g} was certified; a part of the loss is wrong, or a weight "
            "that one of them alone holds"
        )
        # Everybody has a part in the margins from which the loss follows.
        raise BadReplyError("release", federation.everyone, reason, is_final=True)


def _loss_at(
    federation: Federation, weights: FloatArray, intercepts: tuple[float, ...]
) -> Conversation[float]:
    """Return the mean loss at weights and intercepts, rounded down."""
    features, problem = federation.layout.features, federation.problem
    grid = VectorGrid("confirmed margins", federation.grids.margins.grid)
    try:
        with np.errstate(over="ignore"):
            bound = problem.l2_strength * (weights**2).sum(axis=0)
        federation.fit_margins(grid, bound)
    except ValueError:
        suspects = sole_holders(features) or federation.labelled
        reason = "the released weights are too large to measure P at them"
        raise BadReplyError("release", suspects, reason) from None
    margins = yield from federation.gather_sum(
        "confirm",
        [grid],
        lambda client: m.ConfirmRequest(
            pack_reals(weights[features.items[client]]), intercepts, grid.spec
        ),
        federation.sample_sum(),
    )
    totals_grid = federation.grid_maker.grids(problem, federation.bounds).totals
    total = yield from federation.gather_total(
        "confirm losses",
        totals_grid,
        lambda client, spec: m.ConfirmLossesRequest(
            margins.take(client, counted_positions(federation, client)), spec
        ),
        (1, problem.n_outputs),
        federation.labelled,
    )
    [losses] = yield from federation.open_totals([total], "open confirmed")
    n_numbers = len(total.senders) * problem.n_outputs
    return float(losses.sum()) - n_numbers * totals_grid.step


# A client's side


class Confirming:
    """Remembers what its client released, and measures its loss.

    Parameters
    ----------
    handlers : Handlers
        The handlers of the algorithm's client half.
    """

    def __init__(self, party: Party, handlers: Handlers) -> None:
        self._party, self._half = party, handlers
        self.weights: FloatArray | None = None  # as released, (features held, outputs)
        self.intercepts = np.zeros(party.problem.n_outputs)

    @property
    def handlers(self) -> Handlers:
        """What the client does in all phases of a training."""
        return {
            **self._half,
            "release": self._release,
            "confirm": self._confirm,
            "confirm losses": self._losses,
            "open confirmed": self._party.open_totals,
        }

    def _release(self, request: Message) -> Message | None:
        reply = self._half["release"](request)
        if isinstance(reply, m.Released):
            self.weights = self._unpacked(reply.weights)
        return reply

    def _unpacked(self, payload: memoryview) -> FloatArray:
        shape = (self._party.n_features, self._party.problem.n_outputs)
        return unpack_reals(payload, math.prod(shape)).reshape(shape)

    def _confirm(self, request: m.ConfirmRequest) -> Message:
        """Compare the model's weights with its own; return x_{k,i}·w_k."""
        weights = self._unpacked(request.weights)
        if self.weights is None or np.any(weights != self.weights):
            raise RefusedError(
                "the model has other weights of its features than it released"
            )
        self.intercepts = self._party.unpacked_intercepts(request.intercepts)
        products = self._party.products(EVERYWHERE, weights)
        return self._party.sealing.sample_part("margins", products, request.grid)

    def _losses(self, request: m.ConfirmLossesRequest) -> Message:
        """Return mean losses of the samples counted here, at best.

        A loss is convex, so it is nowhere below its tangent.
        """
        party, problem = self._party, self._party.problem
        counted = party.block.counts_sample
        rows = EVERYWHERE if counted.all() else np.flatnonzero(counted)
        margins = party.margins(request.margins, rows) + self.intercepts
        labels, step = party.labels[counted], grid_step(request.margins)
        error = party.sample_holders[counted, None] * step / 2
        error = error + _FLOAT_ERROR * np.abs(margins)
        slopes = np.abs(problem.loss.derivative(margins, labels))
        losses = problem.loss.value(margins, labels) - slopes * error
        totals = party.weighted(losses, counted).sum(axis=0) / problem.n_samples
        return party.sealing.total_part("totals", totals, request.grid)

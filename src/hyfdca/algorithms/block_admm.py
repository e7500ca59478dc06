"""Block-splitting ADMM: consensus of every block's own weights and margins.

N. Parikh, S. Boyd, "Block splitting for distributed optimization", Mathematical
Programming Computation 2014, for f(y) + g(x) with y = Xx, f the mean loss and g the
penalty. Clients are blocks of any shape whose cells do not overlap.

| phase   | down                                       | up                           |
|---------|--------------------------------------------|------------------------------|
| project | Σ_k x_k, by profile; Σ_k y_k - y, sealed   | x_k, y_k of its projection   |

All elementwise steps are done by every holder alike, from the same sums. The client
that is designated for a sample subtracts y_i = prox(...), so others need no label. In
scaled form, with ρ, and ½ for the iterate before the averages:

    y_i^½ = prox_{l_i/(Nρ)}(y_i - ỹ_i)
    x_m^½ = ρ (x_m - x̃_m) / (λ + ρ)
    (x_k^½, y_k^½) = projection of (x_m - x̃_{k,m}, y_{k,i} + ỹ_i) on y = X_k x
    x_m = (x_m^½ + Σ_k x_{k,m}^½) / (|K_m| + 1)
    e_i = (y_i^½ - Σ_k y_{k,i}^½) / (|B_i| + 1)
    y_i = y_i^½ - e_i,  y_{k,i} = y_{k,i}^½ + e_i,  x̃ += x^½ - x,  ỹ_i += e_i

The prox gives a dual of the loss, Nρ (y_i^½ - y_i + ỹ_i), for the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from hyfdca.arrays import FloatArray
from hyfdca.federation.algorithm import Algorithm, Needs
from hyfdca.federation.client import Party
from hyfdca.federation.evaluation.measuring import EvaluatedState
from hyfdca.federation.local.work import Positive
from hyfdca.federation.messages import SET_UP, evaluation_phases
from hyfdca.federation.primal import (
    PrimalClient,
    RoundStart,
    TwoSumServer,
    before_round,
)
from hyfdca.federation.sealing.client_sealing import or_too_large
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.maths.linear import conjugate_gradients
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.messages import (
    Counter,
    Duals,
    GridSpec,
    Message,
    OnGrid,
    Sealed,
    Seen,
    Sums,
    TooLarge,
    Weights,
)
from hyfdca.protocol.phases import Phase, Phases
from hyfdca.protocol.server_session import Conversation

_DENSE = 2_000  # rows or columns up to which a block's system is factored
_CG_STEPS = 500


class ProjectRequest(Message, frozen=True):
    """Sums of the last projections down, the client's next projection up."""

    weights: Weights
    # What margins lack of agreement; added up over rounds, these are scaled duals.
    margins: Duals
    round_number: Counter
    grid: OnGrid
    margins_grid: OnGrid


class Projection(Message, tag="projection", frozen=True):
    """A client's weights and margins; the designated one's less its y_i."""

    weights: Annotated[Sealed, Seen("shares")]
    margins: Annotated[Sealed, Seen("margins")]


class BlockAdmmServer(TwoSumServer):
    """The server's half: it adds up weights and margins."""

    def __init__(self, federation: Federation) -> None:
        self._margins = federation.sample_sum()
        super().__init__(federation, None, self._margins)

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Let every client project."""
        self.round_number += 1
        margins_grid = self.federation.grids.margins
        replies = yield from self.federation.gather(
            "project",
            participants,
            [self.grid, margins_grid],
            lambda client: ProjectRequest(
                self.weights.take(client),
                self._margins.take(client),
                self.round_number,
                self.grid.spec,
                margins_grid.spec,
            ),
            Projection,
        )
        self.weights.update({c: reply.weights for c, reply in replies.items()})
        self._margins.update({c: reply.margins for c, reply in replies.items()})


@dataclass(frozen=True)
class Iterate:
    """What a client has between rounds: iterates before the averages, scaled duals.

    By feature: x^½, x_k^½, x̃, x̃_k. By sample: y^½, y_k^½, ỹ.
    """

    x_half: FloatArray
    own_x_half: FloatArray
    x_dual: FloatArray
    own_x_dual: FloatArray
    y_half: FloatArray
    own_y_half: FloatArray
    y_dual: FloatArray


@dataclass(frozen=True, repr=False)
class BlockAdmmClientState:
    """What a checkpoint keeps of a client's half."""

    iterate: Iterate
    alphas: FloatArray | None
    evaluated: EvaluatedState


class BlockAdmmClient(PrimalClient):
    """A client's half: averages, proxes and the projection on its block."""

    def __init__(self, party: Party, settings: BlockAdmm) -> None:
        super().__init__(party)
        by_sample = np.zeros((party.n_held, party.problem.n_outputs))
        by_feature = self.weights
        self._rho = settings.rho / party.problem.n_samples
        self._iterate = Iterate(*[by_feature] * 4, *[by_sample] * 3)
        self._start: RoundStart[Iterate] = RoundStart()
        self._alphas: FloatArray | None = None

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {**super().handlers, "project": self._project}

    def weights_of(self, sums: Sums) -> FloatArray:
        """Return the average of the prox and all holders' projections."""
        total = self._iterate.x_half + super().weights_of(sums)
        return total / (self.party.feature_holders[:, None] + 1)

    def bound_duals(self, margins: FloatArray) -> FloatArray:
        """Return the duals of the last prox, the same at all holders with labels."""
        return super().bound_duals(margins) if self._alphas is None else self._alphas

    def _project(self, request: ProjectRequest) -> Message:
        last = self._start.of(request.round_number, self._iterate)
        self._iterate = last
        x, party = self.weights_of(request.weights), self.party
        apart = -party.sealing.opened_samples("margins", request.margins)
        e = apart / (party.sample_holders[:, None] + 1)
        x_dual = last.x_dual + last.x_half - x
        own_x_dual = last.own_x_dual + last.own_x_half - x
        y_dual = last.y_dual + e
        x_half = self._rho * (x - x_dual) / (party.problem.l2_strength + self._rho)
        y_half = self._prox(last.y_half - e - y_dual)
        own_x, own_y = self._onto_block(x - own_x_dual, last.own_y_half + e + y_dual)
        self._iterate = Iterate(
            x_half, own_x, x_dual, own_x_dual, y_half, own_y, y_dual
        )
        return self._reply(request.grid, request.margins_grid)

    def _reply(self, grid: GridSpec, margins_grid: GridSpec) -> Message:
        party, now = self.party, self._iterate
        counted = party.block.counts_sample[:, None]
        margins = now.own_y_half - np.where(counted, now.y_half, 0.0)
        sealing = party.sealing
        return or_too_large(
            lambda: Projection(
                sealing.sealed_features("weights", now.own_x_half, grid),
                sealing.sealed_values("margins", margins, margins_grid),
            )
        )

    def _prox(self, at: FloatArray) -> FloatArray:
        """Return prox_{l_i/(Nρ)} where there are labels, and note its dual."""
        party = self.party
        if party.block.labels is None:
            return at
        scale = 1.0 / (party.problem.n_samples * self._rho)
        curvatures = party.weighted(np.full_like(at, scale))
        nothing = np.zeros_like(at)
        self._alphas = party.problem.loss.dual_step(
            nothing, at, party.labels, curvatures
        )
        return at + curvatures * self._alphas

    def _onto_block(
        self, x: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the nearest point with y = X_k x."""
        party, factored = self.party, self._factored
        if factored is None:
            right = x + party.combine(EVERYWHERE, y)
            x = conjugate_gradients(self._gram, right, _CG_STEPS)
        elif self._is_wide:
            residual = y - party.products(EVERYWHERE, x)
            x = x + party.combine(EVERYWHERE, cho_solve(factored, residual))
        else:
            x = cho_solve(factored, x + party.combine(EVERYWHERE, y))
        return x, party.products(EVERYWHERE, x)

    def _gram(self, x: FloatArray) -> FloatArray:
        party = self.party
        return x + party.combine(EVERYWHERE, party.products(EVERYWHERE, x))

    @property
    def _is_wide(self) -> bool:
        return self.party.n_features > self.party.n_held

    @cached_property
    def _factored(self) -> tuple[FloatArray, bool] | None:
        """The factors of the smaller of I + X'X and I + XX'; none if both are large."""
        X = self.party.block.X
        size = min(X.shape)
        if size > _DENSE:
            return None
        gram = (X @ X.T if self._is_wide else X.T @ X).toarray()
        factors: tuple[FloatArray, bool] = cho_factor(np.eye(size) + gram)
        return factors

    def state(self) -> BlockAdmmClientState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        evaluated = super().state().evaluated
        return BlockAdmmClientState(self._iterate, self._alphas, evaluated)

    def restore(self, state: BlockAdmmClientState) -> None:  # type: ignore[override]
        """Take a state."""
        self._iterate, self._alphas = state.iterate, state.alphas
        self._start.forget()
        self._evaluated.restore(state.evaluated)


@dataclass(frozen=True)
class BlockAdmm(Algorithm):
    """Block-splitting ADMM.

    Parameters
    ----------
    rho : float
        The penalty in units of 1/N: the prox of a loss has the step 1/rho. Worth
        tuning over 0.1, 1 and 10.
    """

    name: ClassVar[str] = "block_admm"
    phases: ClassVar[Phases] = {
        **SET_UP,
        **evaluation_phases("project"),
        "project": Phase(
            ProjectRequest, (Projection, TooLarge), before_round("project")
        ),
    }

    rho: Positive = 1.0

    @property
    def needs(self) -> Needs:
        """Everybody: averaging only some clients solves another problem."""
        return Needs(presence="everyone")

    def server(self, federation: Federation) -> BlockAdmmServer:
        """Return the server's half."""
        return BlockAdmmServer(federation)

    def client(self, party: Party) -> BlockAdmmClient:
        """Return a client's half."""
        return BlockAdmmClient(party, self)

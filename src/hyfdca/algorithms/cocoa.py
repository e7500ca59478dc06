"""CoCoA and CoCoA+: coordinate ascent on row partitions, steps on column partitions.

M. Jaggi et al., "Communication-efficient distributed dual coordinate ascent", NIPS
2014 (averaging), C. Ma et al., "Adding vs. averaging in distributed primal-dual
optimization", ICML 2015 (adding: CoCoA+), V. Smith et al., "CoCoA: a general framework
for communication-efficient distributed optimization", JMLR 2018 (columns).

| phase        | down                      | up                                    |
|--------------|---------------------------|---------------------------------------|
| row steps    | weights, by profile       | Σ α_i x_i of the client's rows        |
| column steps | margins, sealed           | x_{k,i}·w_k of its columns, sealed    |

Rows: by H coordinate steps, client k improves

    max_δ Σ_i [-l_i*(-(α_i + δ_i)) - δ_i x_i·w] - σ'/(2λN) ||Σ δ_i x_i||²

with σ' = γK, then α += γδ (adding), or σ' = 1, then α += δ β/K (averaging). Columns: by
conjugate gradients (ours; the source leaves the solver open), it solves

    min_Δ l'(z)·X_k Δ/N + σ'/(2Ns) ||X_k Δ||² + λ/2 ||w_k + Δ||²,  l' 1/s-Lipschitz.

K is the number of participants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation.algorithm import Needs
from hyfdca.federation.client import Party
from hyfdca.federation.local.ascent import ascend
from hyfdca.federation.local.work import (
    AtLeastOne,
    Fraction,
    LocalWork,
    drawn_rows,
    local_steps,
)
from hyfdca.federation.messages import SET_UP, evaluation_phases, summing
from hyfdca.federation.primal import (
    PrimalClient,
    PrimalClientState,
    RoundStart,
    TwoSumServer,
    before_round,
)
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.maths.linear import conjugate_gradients
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.messages import (
    Counter,
    Margins,
    Message,
    OnGrid,
    Part,
    Sums,
    Weights,
)
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.server_session import Conversation


class RowStepsRequest(Message, frozen=True):
    """Weights down, Σ α_i x_i of the client's rows up."""

    weights: Weights
    n_active: Counter
    n_steps: Counter
    round_number: Counter
    grid: OnGrid


class ColumnStepsRequest(Message, frozen=True):
    """Margins down, the new part of them up."""

    margins: Margins
    n_active: Counter
    round_number: Counter
    grid: OnGrid


class CoCoAServer(TwoSumServer):
    """The server's half: shares of weights, or margins, of all clients."""

    def __init__(self, federation: Federation, settings: CoCoA) -> None:
        self._settings, self._margins = settings, federation.sample_sum()
        super().__init__(federation, None, self._margins)
        self._has_rows = federation.layout.is_row_split

    def weights_for(self, client: int) -> Sums | None:
        """Return the sum of shares; with split columns clients have the weights."""
        return self.weights.take(client) if self._has_rows else None

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Let participants improve their own duals, or their own weights."""
        self.round_number += 1
        take = self._row_steps if self._has_rows else self._column_steps
        yield from take(participants)

    def _row_steps(self, participants: Sequence[int]) -> Conversation[None]:
        federation, grid = self.federation, self.federation.grids.shares
        parts = yield from federation.gather(
            "row steps",
            participants,
            [grid],
            lambda client: RowStepsRequest(
                self.weights.take(client),
                len(participants),
                local_steps(self._settings, federation.layout, client),
                self.round_number,
                grid.spec,
            ),
            Part,
        )
        self.weights.update({c: part.vector for c, part in parts.items()})

    def _column_steps(self, participants: Sequence[int]) -> Conversation[None]:
        grid = self.federation.grids.margins
        parts = yield from self.federation.gather(
            "column steps",
            participants,
            [grid],
            lambda client: ColumnStepsRequest(
                self._margins.take(client),
                len(participants),
                self.round_number,
                grid.spec,
            ),
            Part,
        )
        self._margins.update({c: part.vector for c, part in parts.items()})


@dataclass(frozen=True, repr=False)
class CoCoAClientState:
    """What a checkpoint keeps of a client's half."""

    primal: PrimalClientState
    duals: FloatArray | None


class CoCoAClient(PrimalClient):
    """A client's half; ``duals`` are those of its rows on a row partition."""

    def __init__(self, party: Party, settings: CoCoA) -> None:
        super().__init__(party)
        self._settings = settings
        self._duals: FloatArray | None = None
        self._dual_start: RoundStart[FloatArray] = RoundStart()

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "row steps": self._row_steps,
            "column steps": self._column_steps,
        }

    def weights_of(self, sums: Sums) -> FloatArray:
        """Return what shares add up to, over λN."""
        return super().weights_of(sums) / self.party.problem.l2_scale

    def bound_duals(self, margins: FloatArray) -> FloatArray:
        """Return the client's own duals, or those that touch the loss."""
        return super().bound_duals(margins) if self._duals is None else self._duals

    def _row_steps(self, request: RowStepsRequest) -> Message:
        party, settings = self.party, self._settings
        settings.check_steps(request.n_steps, party)
        present = np.zeros_like(party.labels) if self._duals is None else self._duals
        start = self._dual_start.of(request.round_number, present)
        order = drawn_rows(party, request.round_number, request.n_steps)
        weights = self.weights_of(request.weights)
        penalty, share = settings.factors(request.n_active)
        ahead = ascend(party, order, start, weights, penalty)
        moved = start + share * (ahead - start)
        self._duals = party.problem.loss.into_domain(moved, party.labels)
        total = party.combine(EVERYWHERE, party.weighted(self._duals))
        return party.sealing.feature_part("weights", total, request.grid)

    def _column_steps(self, request: ColumnStepsRequest) -> Message:
        party, problem, labels = self.party, self.party.problem, self.party.labels
        start = self.round_start.of(request.round_number, self.weights)
        margins = party.sealing.opened_samples("margins", request.margins)
        slopes = party.weighted(problem.loss.derivative(margins, labels))
        gradient = party.combine(EVERYWHERE, slopes) / problem.n_samples
        penalty, share = self._settings.factors(request.n_active)
        curvature = penalty * problem.loss.smoothness / problem.n_samples

        def hessian(change: FloatArray) -> FloatArray:
            bent = party.weighted(party.products(EVERYWHERE, change))
            return problem.l2_strength * change + curvature * party.combine(
                EVERYWHERE, bent
            )

        residual = -(problem.l2_strength * start + gradient)
        change = conjugate_gradients(hessian, residual, self._settings.column_steps)
        self.weights = start + share * change
        products = party.products(EVERYWHERE, self.weights)
        return party.sealing.sample_part("margins", products, request.grid)

    def state(self) -> CoCoAClientState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return CoCoAClientState(super().state(), self._duals)

    def restore(self, state: CoCoAClientState) -> None:  # type: ignore[override]
        """Take a state."""
        super().restore(state.primal)
        self._duals = state.duals
        self._dual_start.forget()


@dataclass(frozen=True)
class CoCoA(LocalWork):
    """CoCoA; how many coordinate steps it takes is documented at ``LocalWork``.

    Parameters
    ----------
    combine : {"add", "average"}
        CoCoA+ adds up the clients' changes, CoCoA averages them.
    gamma : float
        The γ of adding, or the β of averaging.
    column_steps : int
        Conjugate gradient steps per round, where columns are split.
    """

    name: ClassVar[str] = "cocoa"
    phases: ClassVar[Phases] = {
        **SET_UP,
        **evaluation_phases("row steps", "column steps"),
        "row steps": summing(RowStepsRequest, "shares", *before_round("row steps")),
        "column steps": summing(
            ColumnStepsRequest, "margins", *before_round("column steps")
        ),
    }

    combine: Literal["add", "average"] = "add"
    gamma: Fraction = 1.0
    column_steps: AtLeastOne = 20

    @property
    def needs(self) -> Needs:
        """A row partition, or a column partition."""
        return Needs(labels="all", split="rows or columns")

    def check(self, federation: Federation) -> None:
        """Refuse a loss with kinks where columns are split."""
        super().check(federation)
        if not federation.layout.is_row_split:
            self.check_smooth(federation, " where columns are split")

    def factors(self, n_active: int) -> tuple[float, float]:
        """Return σ' and the share of a client's change that is taken."""
        if self.combine == "add":
            return self.gamma * max(n_active, 1), self.gamma
        return 1.0, self.gamma / max(n_active, 1)

    def server(self, federation: Federation) -> CoCoAServer:
        """Return the server's half."""
        return CoCoAServer(federation, self)

    def client(self, party: Party) -> CoCoAClient:
        """Return a client's half."""
        return CoCoAClient(party, self)

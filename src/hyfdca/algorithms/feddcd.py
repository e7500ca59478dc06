"""FedDCD: coordinate descent on the duals of consensus, for clients with whole rows.

Z. Fan, H. Fang, M. P. Friedlander, "FedDCD: a dual approach to federated learning with
partial participation", 2022. With F = 1/K Σ_k f_k and

    f_k(w) = λ/2 ||w||² + K/N Σ_{i of k} l_i(x_i·w),

each client has a dual y_k of the constraint that all models are equal; their sum is 0.

| phase   | down              | up                                                  |
|---------|-------------------|-----------------------------------------------------|
| solve   | -                 | its part of the mean of w_k = argmin f_k(w) - y_k·w |
| correct | w̄, by profile     | - (a notice); y_k -= η (w_k - w̄)                     |

The model is w̄. The authors solve by Newton's method; ours is coordinate ascent, warm
from round to round, which takes losses with kinks too and gives duals for the bound.
The accelerated form (AccFedDCD) draws clients twice per round; here both draws are
the participants, as many as in the first round, and a client that was away catches up
when it returns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation.algorithm import Algorithm, Needs
from hyfdca.federation.client import Party
from hyfdca.federation.local.ascent import ascend
from hyfdca.federation.local.work import AtLeastOne, Fraction, Positive
from hyfdca.federation.messages import SET_UP, evaluation_phases, summing
from hyfdca.federation.primal import (
    PrimalClient,
    PrimalClientState,
    PrimalServer,
    PrimalServerState,
    before_round,
)
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.maths.objective import visiting_order
from hyfdca.maths.seeds import stream
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import (
    Counter,
    Message,
    OnGrid,
    Seen,
    Share,
    Weights,
)
from hyfdca.protocol.phases import Phase, Phases
from hyfdca.protocol.server_session import Conversation

_SOLVED = 1e-13  # largest change of a dual in an epoch, at which a solution is exact


class SolveRequest(Message, frozen=True):
    """Ask for a part of the mean of the local models."""

    n_active: Counter
    n_clients: Counter
    participation: Annotated[Share, Seen("numbers")]  # the share of clients per round
    round_number: Counter
    grid: OnGrid


class CorrectNotice(Message, frozen=True):
    """The mean of the participants' local models."""

    weights: Weights


@dataclass(frozen=True, repr=False)
class FedDcdServerState:
    """What a checkpoint keeps of the server's half."""

    primal: PrimalServerState
    participation: float


class FedDcdServer(PrimalServer):
    """The server's half: sends the mean of local models to the participants."""

    def __init__(self, federation: Federation) -> None:
        super().__init__(federation, federation.latest_feature_sum())
        self._participation = 0.0  # of the first round, and then of all

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Average the local solutions; have the duals corrected by the mean."""
        self.round_number += 1
        n_active, n_clients = len(participants), len(self.federation.everyone)
        self._participation = self._participation or n_active / n_clients
        yield from self.gather_weights(
            "solve",
            participants,
            lambda _: SolveRequest(
                n_active,
                n_clients,
                self._participation,
                self.round_number,
                self.grid.spec,
            ),
        )
        notices = {c: CorrectNotice(self.weights.take(c)) for c in participants}
        yield from self.federation.session.tell("correct", notices)

    def state(self) -> FedDcdServerState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return FedDcdServerState(super().state(), self._participation)

    def restore(self, state: FedDcdServerState) -> None:  # type: ignore[override]
        """Take a state."""
        super().restore(state.primal)
        self._participation = state.participation


@dataclass(frozen=True)
class ConsensusDuals:
    """A client's duals of consensus: y_k, and z_k of the accelerated form."""

    y: FloatArray
    z: FloatArray

    def mixed(self, a: float, b: float, n_rounds: int) -> ConsensusDuals:
        """Return the duals after some rounds' mixing, which every client does.

        A round is y ← (1 - a) y + a z, then z ← (a² z + b y) / (a² + b).
        """
        first = np.array([[1 - a, a], [0, 1]])
        second = np.array([[a**2 + b, 0], [b, a**2]]) / (a**2 + b)
        [[yy, yz], [zy, zz]] = np.linalg.matrix_power(second @ first, n_rounds)
        return ConsensusDuals(yy * self.y + yz * self.z, zy * self.y + zz * self.z)


@dataclass(frozen=True, repr=False)
class FedDcdClientState:
    """What a checkpoint keeps of a client's half."""

    primal: PrimalClientState
    alphas: FloatArray | None
    consensus: ConsensusDuals
    round_number: int


class FedDcdClient(PrimalClient):
    """A client's half: its local problem, and its dual of consensus."""

    def __init__(self, party: Party, settings: FedDcd) -> None:
        super().__init__(party)
        self._settings = settings
        self._alphas: FloatArray | None = None  # duals of its own samples
        self._consensus = ConsensusDuals(self.weights, self.weights)
        self._participation, self._round = 1.0, 0  # the share: within a round

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "solve": self._solve,
            "correct": self._correct,
        }

    def bound_duals(self, margins: FloatArray) -> FloatArray:
        """Return the duals of the local problem, if it has been solved."""
        return super().bound_duals(margins) if self._alphas is None else self._alphas

    def _solve(self, request: SolveRequest) -> Message:
        party, settings = self.party, self._settings
        if not (request.n_active and request.n_clients and request.participation):
            raise RemoteProtocolError("the mean of no models was requested")
        self._participation = request.participation
        if settings.accelerated:
            n_rounds = max(request.round_number - self._round, 0)  # and those it missed
            momentum = settings.momentum(party, self._participation)
            self._consensus = self._consensus.mixed(*momentum, n_rounds)
        self._round = request.round_number
        self._minimise(self._consensus.y, float(request.n_clients))
        mean = self.weights / request.n_active
        return party.sealing.feature_part("weights", mean, request.grid)

    def _minimise(self, y: FloatArray, n_clients: float) -> None:
        """Set ``weights`` to the minimiser of f_k(w) - y·w, from the last duals."""
        party, problem = self.party, self.party.problem
        last = np.zeros_like(party.labels) if self._alphas is None else self._alphas
        alphas = self.round_start.of(self._round, last)
        scale = n_clients / problem.l2_scale

        def weights(alphas: FloatArray) -> FloatArray:
            total = party.combine(EVERYWHERE, party.weighted(alphas))
            return y / problem.l2_strength + scale * total

        for epoch in range(self._settings.local_epochs):
            random = stream(party.seed, "solve", self._round, party.rank, epoch)
            order = visiting_order(party.n_held, random)
            before = alphas
            alphas = ascend(party, order, alphas, weights(alphas), n_clients)
            if np.abs(alphas - before).max(initial=0.0) <= _SOLVED:
                break
        self._alphas, self.weights = alphas, weights(alphas)

    def _correct(self, notice: CorrectNotice) -> None:
        """Move the duals against the distance from the mean; their sum remains 0."""
        apart = self.weights - self.weights_of(notice.weights)
        step = self._settings.dual_rate * self.party.problem.l2_strength
        consensus, share = self._consensus, 1.0
        if self._settings.accelerated:
            r = self._participation
            a, b = self._settings.momentum(self.party, r)
            share = a * r / (a**2 + b)
        self._consensus = ConsensusDuals(
            consensus.y - step * apart, consensus.z - step * share * apart
        )

    def state(self) -> FedDcdClientState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return FedDcdClientState(
            super().state(),
            self._alphas,
            self._consensus,
            self._round,
        )

    def restore(self, state: FedDcdClientState) -> None:  # type: ignore[override]
        """Take a state."""
        super().restore(state.primal)
        self._alphas, self._consensus = state.alphas, state.consensus
        self._round = state.round_number


@dataclass(frozen=True)
class FedDcd(Algorithm):
    """FedDCD.

    Parameters
    ----------
    dual_rate : float
        η in units of λ; below 1 it is safe, since f_k* is 1/λ-smooth.
    local_epochs : int
        Epochs of coordinate ascent per round, at most; fewer where they are exact.
    accelerated : bool
        AccFedDCD.
    smoothness : float
        The smoothness of f_k that the accelerated form assumes.
    """

    name: ClassVar[str] = "feddcd"
    # The mean of one model is that model: nothing is corrected.
    late_advice: ClassVar[str] = (
        ", or raise participation if rounds had a single organisation each"
    )
    phases: ClassVar[Phases] = {
        **SET_UP,
        **evaluation_phases("solve", "correct"),
        "solve": summing(SolveRequest, "shares", *before_round("solve", "correct")),
        "correct": Phase(CorrectNotice, after=("solve",)),
    }

    dual_rate: Fraction = 0.99
    local_epochs: AtLeastOne = 20
    accelerated: bool = False
    smoothness: Positive = 1.0

    @property
    def needs(self) -> Needs:
        """Whole rows, with their labels."""
        return Needs(split="rows", labels="all")

    def momentum(self, party: Party, participation: float) -> tuple[float, float]:
        """Return a and b of the accelerated form, κ = λ over the smoothness."""
        kappa = min(party.problem.l2_strength / self.smoothness, 1.0)
        a = math.sqrt(kappa) / (1 / participation + math.sqrt(kappa))
        return a, a * kappa * participation**2

    def server(self, federation: Federation) -> FedDcdServer:
        """Return the server's half."""
        return FedDcdServer(federation)

    def client(self, party: Party) -> FedDcdClient:
        """Return a client's half."""
        return FedDcdClient(party, self)

"""The shared base of methods whose clients hold weights: sums, measuring, checkpoints.

Where holders of a feature share its weight, each sends a part and the sum is the model;
in a method that averages, clients divide by the number of participating holders. Where
each feature has one holder, weights need not travel at all. Such a method writes its
rounds and its local steps, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation.client import Party
from hyfdca.federation.evaluation.measuring import (
    Evaluated,
    EvaluatedState,
    Evaluation,
    EvaluationState,
)
from hyfdca.federation.grids import MARGIN_HEADROOM, GridState, VectorGrid
from hyfdca.federation.latest_sum import LatestSum, LatestSumState
from hyfdca.federation.messages import SET_UP, evaluation_phases, summing
from hyfdca.federation.server import Federation, FederationState, Point
from hyfdca.federation.sums import CachedSum, CachedSumState
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import pack_indices, unpack_counts
from hyfdca.protocol.messages import Message, Part, Sums
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.server_session import Conversation


def primal_phases(
    name: str, request: type[Message], within: tuple[str, ...] = ()
) -> Phases:
    """Return the phases of a method whose rounds end with an exchange of weights."""
    return {
        **SET_UP,
        **evaluation_phases(name, within=within),
        name: summing(request, "shares", *before_round(name)),
    }


def before_round(*rounds: str) -> tuple[str, ...]:
    """Return what may come directly before the first phase of a round.

    ``rounds`` are the phases that a client's last round may have ended with.
    """
    return ("prepare", *rounds, "evaluate norms", "open", "release")


@dataclass(frozen=True, repr=False)
class PrimalServerState:
    """What a checkpoint keeps of the server's side."""

    federation: FederationState
    weights: CachedSumState | LatestSumState
    grid: GridState
    evaluation: EvaluationState
    round_number: int


class PrimalServer:
    """The server's side: the sum of clients' weights, measured as any method is.

    Parameters
    ----------
    weights : CachedSum or LatestSum, optional
        The sum of the parts of the weights; by default of each client's last part.
    """

    grid: VectorGrid
    is_between_steps = True

    def __init__(
        self, federation: Federation, weights: CachedSum | LatestSum | None = None
    ) -> None:
        self.federation = federation
        self.weights = weights or federation.feature_sum()
        self.evaluation = Evaluation(federation, self.weights_for)
        self.round_number = 0

    def weights_for(self, client: int) -> Sums | None:
        """Return the weights to evaluate at a client; None if it has its own."""
        return self.weights.take(client)

    def set_up(self) -> Conversation[None]:
        """Sum what every round needs, and choose the grid of weights.

        Where P is not above P(0), λ/2||w||² is not either.
        """
        federation, make = self.federation, self.federation.grid_maker
        yield from federation.set_up()
        loss, strength = federation.bounds.loss_at_zero, federation.problem.l2_strength
        largest = MARGIN_HEADROOM * math.sqrt(2 * loss / strength)
        self.grid = make.grid("weights", largest, make.feature_holders)

    def gather_weights(
        self, phase: str, clients: Iterable[int], request: Callable[[int], Message]
    ) -> Conversation[None]:
        """Ask clients for their parts of the weights."""
        parts = yield from self.federation.gather(
            phase, clients, [self.grid], request, Part
        )
        self.weights.update({c: part.vector for c, part in parts.items()})

    def holders_among(
        self, clients: Sequence[int]
    ) -> Callable[[int], memoryview | None]:
        """Return a function that gives, per client, the holders of its features.

        Only these clients count. None stands for all holders, whose number every
        client knows.
        """
        features = self.federation.layout.features
        if len(clients) == len(features.items):
            return lambda _: None
        counts = features.counts_among(clients)
        return lambda client: pack_indices(counts[features.items[client]])

    def measure(self) -> Conversation[Measurement]:
        """Measure P and D of the present weights."""
        return self.evaluation.measure()

    def released_point(self) -> Point:
        """Return where the weights last measured are."""
        return self.evaluation.released_point()

    def release(self) -> Conversation[FloatArray]:
        """Return the weights last measured."""
        return self.federation.release(self.released_point())

    def state(self) -> PrimalServerState:
        """Return what a checkpoint keeps."""
        return PrimalServerState(
            self.federation.state(),
            self.weights.state(),
            self.grid.state(),
            self.evaluation.state(),
            self.round_number,
        )

    def restore(self, state: PrimalServerState) -> None:
        """Take a state."""
        self.federation.restore(state.federation)
        self.weights.restore(state.weights)  # type: ignore[arg-type]
        self.grid.restore(state.grid)
        self.evaluation.restore(state.evaluation)
        self.round_number = state.round_number


@dataclass(frozen=True, repr=False)
class TwoSumServerState:
    """What a checkpoint keeps of the server's side of a method with two sums."""

    primal: PrimalServerState
    samples: CachedSumState | LatestSumState


class TwoSumServer(PrimalServer):
    """The server's side of a method that also keeps a sum by sample.

    Parameters
    ----------
    samples : CachedSum or LatestSum
        Margins, or duals.
    """

    def __init__(
        self,
        federation: Federation,
        weights: CachedSum | LatestSum | None,
        samples: CachedSum | LatestSum,
    ) -> None:
        super().__init__(federation, weights)
        self._samples = samples

    def state(self) -> TwoSumServerState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return TwoSumServerState(super().state(), self._samples.state())

    def restore(self, state: TwoSumServerState) -> None:  # type: ignore[override]
        """Take a state."""
        super().restore(state.primal)
        self._samples.restore(state.samples)  # type: ignore[arg-type]


Started = TypeVar("Started")


class RoundStart(Generic[Started]):
    """What a client had at the start of a round.

    If one client needs a coarser grid, all are asked again; those that had already
    answered must start from where they were.
    """

    def __init__(self) -> None:
        self._number = 0
        self._value: Started | None = None

    def forget(self) -> None:
        """Forget the round, whose number may come again after a roll-back."""
        self._number, self._value = 0, None

    def of(self, round_number: int, present: Started) -> Started:
        """Return what the client had when the round was first asked for."""
        if round_number != self._number or self._value is None:
            self._number, self._value = round_number, present
        return self._value


@dataclass(frozen=True, repr=False)
class PrimalClientState:
    """What a checkpoint keeps of a client's side."""

    weights: FloatArray
    evaluated: EvaluatedState


class PrimalClient:
    """A client's side: the weights of its own features, evaluated as any are."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self.weights = np.zeros((party.n_features, party.problem.n_outputs))
        self.round_start: RoundStart[FloatArray] = RoundStart()
        self._evaluated = Evaluated(party, self)

    @property
    def handlers(self) -> Handlers:
        """What every client of such a method does; a method adds its own."""
        return {**self.party.handlers, **self._evaluated.handlers}

    def weights_of(self, sums: Sums) -> FloatArray:
        """Return the weights that a sum over holders represents."""
        return self.party.sealing.opened_features("weights", sums)

    def bound_duals(self, margins: FloatArray) -> FloatArray:
        """Return the duals of the bound: those that touch the loss at the margins.

        A method that has duals of its own, alike at all holders of a sample, returns
        them: where the loss has a kink, they give a better bound.
        """
        return -self.party.problem.loss.derivative(margins, self.party.labels)

    def holders(self, counts: memoryview | None) -> FloatArray:
        """Return by how many holders each feature is divided, (features held, 1)."""
        party = self.party
        if counts is None:
            return party.feature_holders[:, None].astype(np.float64)
        return unpack_counts(counts, party.n_features)[:, None].astype(np.float64)

    def state(self) -> PrimalClientState:
        """Return what a checkpoint keeps."""
        return PrimalClientState(self.weights, self._evaluated.state())

    def restore(self, state: PrimalClientState) -> None:
        """Take a state."""
        self.weights = state.weights
        self.round_start.forget()
        self._evaluated.restore(state.evaluated)

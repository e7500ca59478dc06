"""What methods share whose clients send weights: their sum, measuring, checkpoints.

Each client sends a part of the weights of its own features, and the sum over holders is
the model: a method that averages has clients divide by the holders of a feature. Such a
method writes its rounds and its local steps, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation.client import Party
from hyfdca.federation.evaluation import (
    Evaluated,
    EvaluatedState,
    Evaluation,
    EvaluationState,
)
from hyfdca.federation.grids import MARGIN_HEADROOM, GridState, VectorGrid
from hyfdca.federation.messages import SET_UP, evaluation_phases, summing
from hyfdca.federation.server import Federation, FederationState
from hyfdca.federation.sums import CachedSumState
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.messages import Message, Part, Sums
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.sessions import Conversation, Handlers


def primal_phases(name: str, request: type[Message]) -> Phases:
    """Return the phases of a method with one exchange of weights per round."""
    before = ("prepare", name, "evaluate norms", "open", "release")
    rounds = {name: summing(request, "shares", *before)}
    return {**SET_UP, **evaluation_phases(name), **rounds}


@dataclass(frozen=True)
class PrimalServerState:
    """What a checkpoint keeps of the server's side."""

    federation: FederationState
    weights: CachedSumState
    grid: GridState
    evaluation: EvaluationState
    round_number: int


class PrimalServer:
    """The server's side: the sum of clients' weights, measured as any method is."""

    grid: VectorGrid
    is_between_steps = True

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.weights = federation.feature_sum()
        self._evaluation = Evaluation(federation, self.weights.take)
        self.round_number = 0

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
        """Ask clients for their parts of the weights; others keep theirs."""
        parts = yield from self.federation.gather(
            phase, clients, [self.grid], request, Part
        )
        for client, part in parts.items():
            self.weights.put(client, part.vector)

    def measure(self) -> Conversation[Measurement]:
        """Measure P and D of the present weights."""
        return self._evaluation.measure()

    def release(self) -> Conversation[FloatArray]:
        """Return the weights last measured."""
        return self._evaluation.release()

    def state(self) -> PrimalServerState:
        """Return what a checkpoint keeps."""
        return PrimalServerState(
            self.federation.state(),
            self.weights.state(),
            self.grid.state(),
            self._evaluation.state(),
            self.round_number,
        )

    def restore(self, state: PrimalServerState) -> None:
        """Take a state."""
        self.federation.restore(state.federation)
        self.weights.restore(state.weights)
        self.grid.restore(state.grid)
        self._evaluation.restore(state.evaluation)
        self.round_number = state.round_number


@dataclass(frozen=True)
class PrimalClientState:
    """What a checkpoint keeps of a client's side."""

    weights: FloatArray
    evaluated: EvaluatedState


class PrimalClient:
    """A client's side: the weights of its own features, evaluated as any are."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self.weights = np.zeros((party.n_features, party.problem.n_outputs))
        self._evaluated = Evaluated(party, self)

    @property
    def handlers(self) -> Handlers:
        """What every client of such a method does; a method adds its own."""
        return {**self.party.handlers, **self._evaluated.handlers}

    def weights_of(self, sums: Sums) -> FloatArray:
        """Return the weights that a sum over holders stands for."""
        return self.party.sealing.opened_features(sums)

    def state(self) -> PrimalClientState:
        """Return what a checkpoint keeps."""
        return PrimalClientState(self.weights, self._evaluated.state())

    def restore(self, state: PrimalClientState) -> None:
        """Take a state."""
        self.weights = state.weights
        self._evaluated.restore(state.evaluated)

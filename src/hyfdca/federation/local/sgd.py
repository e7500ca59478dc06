"""Local stochastic gradient steps, as FedAvg and HyFEM take them.

| phase | down                                                   | up                 |
|-------|--------------------------------------------------------|--------------------|
| train | mean weights, by profile; how many holders take part   | the client's part  |
|       | (left out if all do); the round and its steps          | of the next mean   |

The margins are those of the client's own columns: nobody else is asked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.federation.client import Party
from hyfdca.federation.local.work import (
    BIASED,
    AtLeastOne,
    DecreasingRate,
    LocalWork,
    drawn_rows,
    local_steps,
)
from hyfdca.federation.primal import PrimalClient, PrimalServer, primal_phases
from hyfdca.federation.sealing.client_sealing import Rows
from hyfdca.federation.sums import EVERYWHERE
from hyfdca.maths.descent import StepSizes
from hyfdca.maths.kernels import descent_steps
from hyfdca.maths.seeds import stream
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.messages import Counter, Message, OnGrid, Seen, Weights
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.server_session import Conversation


class TrainRequest(Message, frozen=True):
    """The mean weights down, a part of the next mean up."""

    weights: Weights
    holders: Annotated[memoryview | None, Seen("holder counts")]  # uint32; None: all
    round_number: Counter
    n_steps: Counter
    grid: OnGrid


TRAIN: Phases = primal_phases("train", TrainRequest)


@dataclass(frozen=True)
class SgdSettings(DecreasingRate, LocalWork):
    """The settings of methods with local stochastic gradient steps.

    Besides those of ``LocalWork`` and of ``DecreasingRate``:

    Parameters
    ----------
    batch : int or "all"
        Samples per step, drawn with replacement; "all" for full gradients. A batch at
        least as large as a client's rows means all of them.
    """

    late_advice: ClassVar[str] = BIASED

    batch: AtLeastOne | Literal["all"] = 1

    def descend(
        self,
        party: Party,
        request: TrainRequest,
        sizes: StepSizes,
        anchor: FloatArray,
        weights: FloatArray,
    ) -> FloatArray:
        """Return the weights after the steps of a round, on the client's own rows."""
        self.check_steps(request.n_steps, party)
        if self.batch == 1:
            order = drawn_rows(party, request.round_number, request.n_steps)
            return _one_by_one(party, order, sizes, anchor, weights)
        random = stream(party.seed, "batches", request.round_number, party.rank)
        loss, labels = party.problem.loss, party.labels
        size = None if self.batch == "all" else self.batch
        if size is not None and size >= party.n_held:
            size = None
        for _ in range(request.n_steps):
            rows: Rows = EVERYWHERE
            if size is not None:
                rows = random.integers(party.n_held, size=size)
            slopes = loss.derivative(party.products(rows, weights), labels[rows])
            gradient = party.combine(rows, party.weighted(slopes, rows)) / len(slopes)
            weights = sizes.keep * weights + sizes.pull * anchor - sizes.step * gradient
        return weights


def _one_by_one(
    party: Party,
    order: NDArray[np.uint32],
    sizes: StepSizes,
    anchor: FloatArray,
    weights: FloatArray,
) -> FloatArray:
    """Return weights after one step for each row in ``order``, output by output."""
    out = np.empty_like(weights)
    counts, nothing = party.block.sample_weights, np.empty(0)
    for c in range(weights.shape[1]):
        column = weights[:, c].copy()
        descent_steps(
            *party.csr,
            order,
            np.ascontiguousarray(party.labels[:, c]),
            nothing if counts is None else np.ascontiguousarray(counts[:, c]),
            tuple(sizes),
            party.problem.loss.constants,
            np.ascontiguousarray(anchor[:, c]),
            column,
        )
        out[:, c] = column
    return out


class SgdServer(PrimalServer):
    """The server's half: one exchange of weights per round."""

    settings: SgdSettings

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Let the participants that have labels and rows train."""
        self.round_number += 1
        layout = self.federation.layout
        rows = layout.samples.items
        able = [c for c in participants if layout.labelled[c] and len(rows[c])]
        holders = self.holders_among(self.averaged(able))
        yield from self.gather_weights(
            "train",
            able,
            lambda client: TrainRequest(
                self.weights.take(client),
                holders(client),
                self.round_number,
                local_steps(self.settings, layout, client),
                self.grid.spec,
            ),
        )

    def averaged(self, able: Sequence[int]) -> Sequence[int]:
        """Return the clients over which the mean is taken."""
        return able


Settings = TypeVar("Settings", bound=SgdSettings)


class SgdClient(PrimalClient, Generic[Settings]):
    """A client's half: one phase, in which it trains."""

    def __init__(self, party: Party, settings: Settings) -> None:
        super().__init__(party)
        self.settings = settings

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {**super().handlers, "train": self.train}

    @abstractmethod
    def train(self, request: TrainRequest) -> Message:
        """Return the client's part of the next mean."""

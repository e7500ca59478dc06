"""TDCD: gradient steps on exact margins, averaged over clients with the same columns.

A. Das, T. Castiglia, S. Wang, S. Patterson, "Cross-silo federated learning for
multi-tiered networks with vertical and horizontal data partitioning", ACM TIST 2022,
for linear models. A silo is a column group; its clients have different rows.

| phase         | down                                 | up                |
|---------------|--------------------------------------|-------------------|
| batch margins | mean weights, by profile; rows drawn | x_{k,i}·w, sealed |
| steps         | margins of the rows drawn, sealed    | the client's part |
|               |                                      | of the next mean  |

Unlike FedAvg it is not biased: with one local step on all samples it is gradient
descent, with more it needs a decreasing rate. Ours: a client's rows count in proportion
to their number, so that one step is exact on any partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from hyfdca.federation.algorithm import Needs
from hyfdca.federation.client import Party
from hyfdca.federation.margin_descent import (
    LocalSteps,
    MarginClient,
    MarginDescent,
    ProductsRequest,
    draw_batch,
)
from hyfdca.federation.margins import gather_margins
from hyfdca.federation.messages import summing
from hyfdca.federation.primal import (
    PrimalServer,
    PrimalServerState,
    before_round,
    primal_phases,
)
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import CachedSumState
from hyfdca.protocol.codec import pack_indices
from hyfdca.protocol.messages import Counter, Margins, Message, OnGrid, Positions, Seen
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.sessions import Conversation, Handlers


class StepsRequest(Message, frozen=True):
    """Margins of a batch down, the client's part of the mean weights up."""

    margins: Margins
    positions: Positions
    batch_size: Counter
    holders: Annotated[memoryview | None, Seen("holder counts")]  # uint32; None: all
    round_number: Counter
    grid: OnGrid


@dataclass(frozen=True)
class TdcdServerState:
    """What a checkpoint keeps of the server's half."""

    primal: PrimalServerState
    margins: CachedSumState


class TdcdServer(PrimalServer):
    """The server's half: margins of a batch, then the mean of the weights."""

    def __init__(self, federation: Federation, settings: Tdcd) -> None:
        super().__init__(federation, federation.latest_feature_sum())
        self._settings = settings
        self._margins = federation.sample_sum()

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Sum margins over holders, then average the weights after local steps."""
        self.round_number += 1
        federation, margins = self.federation, self._margins
        layout, seed = federation.layout, federation.seed
        batch = draw_batch(
            self._settings, layout, participants, seed, self.round_number
        )
        yield from gather_margins(
            federation,
            "batch margins",
            participants,
            margins,
            batch.positions,
            lambda client, rows, grid: ProductsRequest(
                self.weights.take(client), rows, grid
            ),
        )
        holders = self.holders_among(participants)
        yield from self.gather_weights(
            "steps",
            participants,
            lambda client: StepsRequest(
                margins.take(client, batch.positions(client)),
                pack_indices(batch.positions(client)),
                batch.size,
                holders(client),
                self.round_number,
                self.grid.spec,
            ),
        )

    def state(self) -> TdcdServerState:  # type: ignore[override]
        """Return what a checkpoint keeps."""
        return TdcdServerState(super().state(), self._margins.state())

    def restore(self, state: TdcdServerState) -> None:  # type: ignore[override]
        """Take a state."""
        super().restore(state.primal)
        self._margins.restore(state.margins)


class TdcdClient(MarginClient):
    """A client's half: steps with the others' part of the margins left as it was."""

    def __init__(self, party: Party, settings: Tdcd) -> None:
        super().__init__(party)
        self._settings = settings

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "batch margins": self.products_part,
            "steps": self._steps,
        }

    def _steps(self, request: StepsRequest) -> Message:
        party, settings = self.party, self._settings
        rows = party.sealing.unpack_rows(request.positions)
        margins = party.sealing.opened_samples(request.margins, rows)
        holders = self.holders(request.holders)
        # The mean over h holders of steps h times as long is the sum of the steps.
        rate, scale = (
            settings.rate_at(request.round_number),
            holders / request.batch_size,
        )
        steps = LocalSteps(settings.local_steps, rate, scale)
        weights = steps.from_margins(party, rows, margins, self.weights)
        return party.sealing.feature_part(weights / holders, request.grid)


@dataclass(frozen=True)
class Tdcd(MarginDescent):
    """TDCD; its settings are documented at ``MarginDescent``."""

    name: ClassVar[str] = "tdcd"
    phases: ClassVar[Phases] = {
        **primal_phases("steps", StepsRequest),
        "batch margins": summing(
            ProductsRequest, "margins", *before_round("steps", "batch margins")
        ),
        "steps": summing(StepsRequest, "shares", "batch margins", "steps"),
    }

    @property
    def needs(self) -> Needs:
        """Labels at all clients: each computes slopes of the loss."""
        return Needs(labels="all")

    def server(self, federation: Federation) -> TdcdServer:
        """Return the server's half."""
        return TdcdServer(federation, self)

    def client(self, party: Party) -> TdcdClient:
        """Return a client's half."""
        return TdcdClient(party, self)

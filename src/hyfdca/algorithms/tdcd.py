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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation.algorithm import Needs
from hyfdca.federation.client import Party
from hyfdca.federation.local.margin_descent import (
    Batch,
    BatchMarginsRequest,
    LocalSteps,
    MarginClient,
    MarginDescent,
    draw_batch,
)
from hyfdca.federation.margins import gather_margins
from hyfdca.federation.messages import summing
from hyfdca.federation.primal import TwoSumServer, before_round, primal_phases
from hyfdca.federation.server import Federation
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_indices,
    pack_reals,
    unpack_reals,
)
from hyfdca.protocol.messages import Counter, Margins, Message, OnGrid, Positions, Seen
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.server_session import Conversation


class StepsRequest(Message, frozen=True):
    """Margins of a batch down, the client's part of the mean weights up."""

    margins: Margins
    positions: Positions
    batch_size: Counter
    # By feature, the factor by which the participants' gradient stands for that of
    # all clients; None for 1.
    factors: Annotated[memoryview | None, Seen("factors")]  # float64
    holders: Annotated[memoryview | None, Seen("holder counts")]  # uint32; None: all
    round_number: Counter
    grid: OnGrid


class TdcdServer(TwoSumServer):
    """The server's half: margins of a batch, then the mean of the weights."""

    def __init__(self, federation: Federation, settings: Tdcd) -> None:
        self._settings, self._margins = settings, federation.drawn_sum()
        super().__init__(federation, federation.latest_feature_sum(), self._margins)

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Sum margins over holders, then average the weights after local steps."""
        self.round_number += 1
        federation, margins = self.federation, self._margins
        layout, seed = federation.layout, federation.seed
        batch = draw_batch(
            self._settings, layout, participants, seed, self.round_number
        )
        if not batch.size:  # nobody present has any of these samples
            return
        yield from gather_margins(
            federation,
            "batch margins",
            participants,
            margins,
            batch.shown(federation.is_complete),
            lambda client, rows, grid: BatchMarginsRequest(
                self.weights.take(client), rows, grid
            ),
        )
        holders = self.holders_among(participants)
        factors = self._factors(batch, participants)
        yield from self.gather_weights(
            "steps",
            participants,
            lambda client: StepsRequest(
                margins.take(client, batch.positions(client)),
                pack_indices(batch.positions(client)),
                batch.n_samples,
                factors(client),
                holders(client),
                self.round_number,
                self.grid.spec,
            ),
        )

    def _factors(
        self, batch: Batch, participants: Sequence[int]
    ) -> Callable[[int], memoryview | None]:
        """Return a function that gives the factors of a client's features.

        A factor is the number of the batch's samples that all holders of a feature
        have, over the number that participants have; 0 where they have none.
        """
        layout = self.federation.layout
        if len(participants) == layout.n_clients:
            return lambda _: None
        items, active = layout.features.items, set(participants)
        here, all_rows = np.zeros((2, layout.features.n_items))
        for client in self.federation.everyone:
            n_rows = batch.n_rows(layout, client)
            all_rows[items[client]] += n_rows
            if client in active:
                here[items[client]] += n_rows
        factors = np.divide(all_rows, here, out=np.zeros_like(here), where=here > 0)
        return lambda client: pack_reals(factors[items[client]])


class TdcdClient(MarginClient["Tdcd"]):
    """A client's half: steps during which the others' part of the margins is fixed."""

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "steps": self._steps,
        }

    def _steps(self, request: StepsRequest) -> Message:
        party, settings = self.party, self.settings
        rows = party.sealing.unpack_rows(request.positions)
        margins = party.sealing.opened_samples("drawn margins", request.margins, rows)
        holders, factors = self.holders(request.holders), self._factors(request)
        if not request.batch_size:
            raise RemoteProtocolError("the batch is empty")
        rate = settings.rate_at(request.round_number)
        steps = LocalSteps(
            settings.local_steps,
            np.where(factors > 0, rate, 0.0),
            # The mean over h holders of steps h times as long is their sum.
            factors * holders / request.batch_size,
        )
        weights = steps.from_margins(party, rows, margins, self.weights)
        return party.sealing.feature_part("weights", weights / holders, request.grid)

    def _factors(self, request: StepsRequest) -> FloatArray:
        n_features = self.party.n_features
        if request.factors is None:
            return np.ones((n_features, 1))
        factors = unpack_reals(request.factors, n_features)
        if not np.all(np.isfinite(factors) & (factors >= 0)):
            raise RemoteProtocolError("a factor is negative or not finite")
        return factors[:, None]


@dataclass(frozen=True)
class Tdcd(MarginDescent):
    """TDCD; its settings are documented at ``MarginDescent``."""

    name: ClassVar[str] = "tdcd"
    phases: ClassVar[Phases] = {
        **primal_phases("steps", StepsRequest, within=("batch margins",)),
        "batch margins": summing(
            BatchMarginsRequest,
            "margins",
            *before_round("steps", "batch margins"),
            again=("positions",),
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

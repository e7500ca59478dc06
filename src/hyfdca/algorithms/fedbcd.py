"""FedBCD: block coordinate descent between clients that have columns of the same rows.

Y. Liu et al., "FedBCD: a communication-efficient collaborative learning framework for
distributed features", IEEE TSP 2022, for linear models: several local gradient steps
per exchange of margins, in parallel or in turn. Weights never leave their client.

| phase         | down                                    | up                |
|---------------|-----------------------------------------|-------------------|
| batch margins | rows drawn                              | x_{k,i}·w, sealed |
| slopes        | margins, to one client with labels      | α = -l', sealed   |
| turn          | margins of the rows drawn, sealed; α to | x_{k,i}·w after   |
|               | those without labels                    | the steps, sealed |

``batch margins`` is needed only where a batch is drawn, ``slopes`` only where some
client has no labels: it keeps the slopes during its steps, as in the authors' code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

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
from hyfdca.federation.local.work import NotNegative
from hyfdca.federation.margins import gather_margins
from hyfdca.federation.messages import SET_UP, evaluation_phases, summing
from hyfdca.federation.primal import TwoSumServer, before_round
from hyfdca.federation.sealing.client_sealing import Rows
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import RunningSum
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices
from hyfdca.protocol.messages import (
    Counter,
    GridSpec,
    Margins,
    Message,
    OnGrid,
    Part,
    Positions,
    Seen,
    Sums,
)
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.server_session import Conversation


class SlopesRequest(Message, frozen=True):
    """Margins down to a client with labels, the duals that touch the loss up."""

    margins: Margins
    positions: Positions
    grid: OnGrid


class ColumnTurnRequest(Message, frozen=True):
    """Margins (or duals, where there are no labels) down, new parts of margins up."""

    margins: Annotated[Sums | None, Seen("margins")]
    duals: Annotated[Sums | None, Seen("duals")]
    positions: Positions  # of the batch
    sent: Positions  # whose new parts are wanted
    batch_size: Counter
    round_number: Counter
    grid: OnGrid


class FedBcdServer(TwoSumServer):
    """The server's half: it only adds up margins."""

    def __init__(self, federation: Federation, settings: FedBcd) -> None:
        self._settings, self._margins = settings, federation.drawn_sum()
        super().__init__(federation, None, self._margins)

    def weights_for(self, client: int) -> None:
        """Send nothing: every client has its own weights."""

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Let clients step, all at once or one after the other."""
        self.round_number += 1
        federation, settings = self.federation, self._settings
        if not any(federation.layout.labelled[c] for c in participants):
            return  # nobody knows the slopes
        batch = draw_batch(
            settings,
            federation.layout,
            participants,
            federation.seed,
            self.round_number,
        )
        if not batch.is_all:
            yield from gather_margins(
                federation,
                "batch margins",
                participants,
                self._margins,
                batch.shown(federation.is_complete),
                lambda _, rows, grid: BatchMarginsRequest(None, rows, grid),
            )
        is_parallel = settings.order == "parallel"
        turns = [list(participants)] if is_parallel else [[c] for c in participants]
        for turn in turns:
            yield from self._take_turn(turn, participants, batch)

    def _take_turn(
        self, turn: list[int], participants: Sequence[int], batch: Batch
    ) -> Conversation[None]:
        labelled = self.federation.layout.labelled
        duals = None
        if not all(labelled[client] for client in turn):
            able = next(client for client in participants if labelled[client])
            duals = yield from self._slopes(able, batch)

        def request(
            client: int, rows: memoryview | None, grid: GridSpec
        ) -> ColumnTurnRequest:
            places = batch.positions(client)
            knows = labelled[client] or duals is None
            return ColumnTurnRequest(
                self._margins.take(client, places) if knows else None,
                None if knows or duals is None else duals.take(client, places),
                pack_indices(places),
                rows,
                batch.n_samples,
                self.round_number,
                grid,
            )

        yield from gather_margins(
            self.federation, "turn", turn, self._margins, batch.positions, request
        )

    def _slopes(self, client: int, batch: Batch) -> Conversation[RunningSum]:
        federation, grid = self.federation, self.federation.grids.duals
        places = batch.positions(client)
        parts = yield from federation.gather(
            "slopes",
            [client],
            [grid],
            lambda _: SlopesRequest(
                self._margins.take(client, places), pack_indices(places), grid.spec
            ),
            Part,
        )
        duals = federation.running_drawn_sum()
        duals.add(client, parts[client].vector, places)
        return duals


class FedBcdClient(MarginClient["FedBcd"]):
    """A client's half: steps on its own columns."""

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "slopes": self._slopes,
            "turn": self._turn,
        }

    def _slopes(self, request: SlopesRequest) -> Message:
        party = self.party
        rows = party.sealing.unpack_rows(request.positions)
        margins = party.sealing.opened_samples("drawn margins", request.margins, rows)
        duals = -party.problem.loss.derivative(margins, party.labels[rows])
        return party.sealing.sample_part(
            "drawn duals", duals, request.grid, "to zero", rows
        )

    def _turn(self, request: ColumnTurnRequest) -> Message:
        party, settings = self.party, self.settings
        rows = party.sealing.unpack_rows(request.positions)
        sent = party.sealing.unpack_rows(request.sent)
        if not request.batch_size:
            raise RemoteProtocolError("the batch is empty")
        steps = LocalSteps(
            settings.local_steps,
            settings.rate_at(request.round_number),
            1.0 / request.batch_size,
            settings.proximal,
        )
        start = self.round_start.of(request.round_number, self.weights)
        slopes = self._given_slopes(request, rows)
        if slopes is None:
            margins = party.sealing.opened_samples(
                "drawn margins", request.margins or [], rows
            )
            self.weights = steps.from_margins(party, rows, margins, start)
        else:
            self.weights = steps.from_slopes(party, rows, slopes, start)
        return self.sent.part(party.products(sent, self.weights), sent, request.grid)

    def _given_slopes(
        self, request: ColumnTurnRequest, rows: Rows
    ) -> FloatArray | None:
        """Return slopes that stay as they are during the steps, if they do."""
        party = self.party
        if (request.duals is None) == (request.margins is None):
            raise RemoteProtocolError("a turn needs margins or duals, and not both")
        if request.duals is not None:
            return -party.sealing.opened_samples("drawn duals", request.duals, rows)
        if self.settings.slopes == "fresh":
            return None
        margins = party.sealing.opened_samples(
            "drawn margins", request.margins or [], rows
        )
        return party.problem.loss.derivative(margins, party.labels[rows])


@dataclass(frozen=True)
class FedBcd(MarginDescent):
    """FedBCD; settings of the steps are documented at ``MarginDescent``.

    Parameters
    ----------
    order : {"parallel", "sequential"}
        Whether clients step at once, or in turn with fresh margins.
    slopes : {"fresh", "frozen"}
        Whether a client's own part of the margins is fresh during its steps.
    proximal : float
        Pulls local weights towards those at the start of the round.
    """

    name: ClassVar[str] = "fedbcd"
    phases: ClassVar[Phases] = {
        **SET_UP,
        **evaluation_phases("turn", "batch margins", "slopes"),
        "batch margins": summing(
            BatchMarginsRequest,
            "margins",
            *before_round("turn", "batch margins"),
            again=("positions",),
        ),
        "slopes": summing(
            SlopesRequest, "duals", *before_round("turn", "batch margins", "slopes")
        ),
        "turn": summing(
            ColumnTurnRequest,
            "margins",
            *before_round("turn", "batch margins", "slopes"),
            again=("sent",),
        ),
    }

    order: Literal["parallel", "sequential"] = "parallel"
    slopes: Literal["fresh", "frozen"] = "fresh"
    proximal: NotNegative = 0.0

    @property
    def needs(self) -> Needs:
        """Columns that are split, rows that all clients have."""
        return Needs(split="columns")

    def most_asked(self, name: str, n_clients: int) -> int | None:
        """Return the turns of others that one client with labels finds slopes for."""
        if name == "slopes" and self.order == "sequential":
            return max(n_clients - 1, 1)
        return super().most_asked(name, n_clients)

    def server(self, federation: Federation) -> FedBcdServer:
        """Return the server's half."""
        return FedBcdServer(federation, self)

    def client(self, party: Party) -> FedBcdClient:
        """Return a client's half."""
        return FedBcdClient(party, self)

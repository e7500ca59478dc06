"""An organisation's side of a study, from its keys to its part of every round.

A study has the stages keys, alignment, groups, labels, levels, scaling and training.
Each is a separate conversation; groups, labels and levels are left out if there is
nothing to do. A stage begins with its first request and builds on the result of the
previous one. The stage *study* concerns the study as a whole:

| phase   | down                           | up                                       |
|---------|--------------------------------|------------------------------------------|
| hello   | the study file's hash          | the same; saved keys and rounds          |
| begin   | -                              | - (everything but the keys restarts)     |
| keep    | the number of a round          | - (its state is on disk)                 |
| return  | the number of a round          | - (its state is restored)                |
| finish  | the model                      | -                                        |

Theory of operation. Requests before the first round are saved verbatim and replayed
after a restart: the replies follow from the table and the keys. After a round its state
is saved. The last two states are kept, because the server may have failed to save the
last one itself. The store seals keys, states and requests; none of them contains pads
or noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hyfdca.algorithms.registry import ALGORITHMS, AUTO
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster
from hyfdca.crypto.keys.set_secrets import AgreedSecrets
from hyfdca.crypto.schemes.registry import Workforce
from hyfdca.data.expansion import Expansion, expansion_of_numbers
from hyfdca.data.labels import n_outputs
from hyfdca.data.tables import Table
from hyfdca.federation.algorithm import ClientHalf
from hyfdca.federation.client import Party
from hyfdca.federation.secrets import ClientSecrecy, make_keys
from hyfdca.holdings.block import Block
from hyfdca.holdings.ownership import Cells, owned_cells
from hyfdca.protocol import checkpoint
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.sessions import ClientSession, Handlers
from hyfdca.runtime.driver import one_thread
from hyfdca.runtime.store import Archive, MemoryStore, Store, StoreError
from hyfdca.stages.alignment import messages as alignment_messages
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.alignment.client import AlignmentClient
from hyfdca.stages.groups import PHASES as GROUP_PHASES
from hyfdca.stages.groups import GroupsClient
from hyfdca.stages.keys import messages as key_messages
from hyfdca.stages.keys.client import HeldKeys, KeyHolder
from hyfdca.stages.labels import messages as label_messages
from hyfdca.stages.labels.client import LabelClient, WeightClient, label_client
from hyfdca.stages.levels.client import LevelsClient
from hyfdca.stages.levels.messages import PHASES as LEVEL_PHASES
from hyfdca.stages.scaling import PHASES as SCALING_PHASES
from hyfdca.stages.scaling import ScalingClient
from hyfdca.study import messages as m
from hyfdca.study.identity import hash_text
from hyfdca.study.plan import PROTOCOL, Plan

T = TypeVar("T")

STUDY_TOKEN = b"hyfdca:1"  # of the stage that detects a different study
STAGES = (
    "study",
    "keys",
    "alignment",
    "groups",
    "labels",
    "levels",
    "scaling",
    "training",
)

_KEYS, _PREPARATION = "keys", "preparation"

Said = tuple[str, str, bytes]  # stage, phase and request


@dataclass(frozen=True)
class ClientPreparation:
    """The requests before the first round, and the table's digest."""

    table: bytes
    said: list[Said]


@dataclass(frozen=True)
class ClientRound:
    """The state after a round: the last phase answered, the half's own state."""

    last_phase: str
    half: bytes


class News(NamedTuple):
    """What the server last reported about the study as a whole."""

    round: int = 0
    gap: float | None = None
    present: Sequence[int] = ()


class RefusedError(RemoteProtocolError):
    """The organisation cannot take part in this study; one plain sentence."""


def _read(kind: type[T], content: bytes) -> T:
    try:
        return checkpoint.decode(kind, content)
    except checkpoint.CheckpointError as error:
        raise RefusedError(str(error).rstrip(".")) from None


class Stage:
    """One stage of an organisation's side, with the interface drivers expect."""

    def __init__(self, member: StudyClient, name: str) -> None:
        self._member, self._name = member, name

    def handle(self, phase: str, payload: bytes | bytearray) -> bytes | bytearray:
        """Answer one request."""
        return self._member.handle(self._name, phase, payload)


class StudyClient:
    """Answers the server of a study, with its own table and keys.

    Parameters
    ----------
    roster : Roster
        Read from the organisation's own copy of the study file.
    store : Store, optional
        Saves keys and states, sealed for this organisation alone; by default nothing is
        saved.
    hire : Workforce, optional
        Processes that encrypt for this organisation.
    """

    def __init__(
        self,
        plan: Plan,
        table: Table,
        identity: Identity,
        roster: Roster,
        store: Store | None = None,
        hire: Workforce | None = None,
    ) -> None:
        self._plan, self._table, self._hire = plan, table, hire
        self._archive, self._is_kept = Archive(store or MemoryStore()), bool(store)
        self._identity, self._roster = identity, roster
        self.model: bytes | None = None  # set when the study has ended
        self.news = News()
        self._key_holder = self._new_key_holder()
        handlers: Handlers = {
            "hello": self._hello,
            "begin": self._begin,
            "keep": self._keep,
            "return": self._return,
            "finish": self._finish,
        }
        self._sessions = {"study": ClientSession(STUDY_TOKEN, m.PHASES, handlers)}
        self._after = 0  # requests up to this number are obsolete
        self._forget()

    def _forget(self) -> None:
        """Reset to the state before the first stage."""
        self._sessions = {"study": self._sessions["study"]}
        self._alignment: AlignmentClient | None = None
        self._secrets = AgreedSecrets(self._identity, self._roster)
        self._labels: LabelClient | WeightClient | None = None
        self._levels: LevelsClient | None = None
        self._numbers: Cells | None = None
        self._scaling: ScalingClient | None = None
        self._block: Block | None = None
        self._party: Party | None = None
        self._half: ClientHalf | None = None
        # Requests before the first round; None once they are saved.
        self._said: list[Said] | None = [] if self._is_kept else None

    def stage(self, name: str) -> Stage:
        """Return one stage of this side."""
        return Stage(self, name)

    def handle(self, stage: str, phase: str, payload: bytes | bytearray) -> bytearray:
        """Answer one request; a notice is answered with an empty message.

        Raises
        ------
        RemoteProtocolError
            If the request is not allowed now.
        """
        try:
            with one_thread():
                reply = self._session(stage).handle(phase, payload)
            if stage == "keys":
                self._keep_keys()
        except StoreError as error:
            raise RefusedError(str(error).rstrip(".")) from None
        if stage not in ("study", "keys") and self._said is not None:
            self._said.append((stage, phase, bytes(payload)))
        return reply

    def _session(self, stage: str) -> ClientSession:
        if stage not in self._sessions:
            begin: dict[str, tuple[Phases, Callable[[], Handlers]]] = {
                "keys": (key_messages.PHASES, lambda: self._key_holder.handlers),
                "alignment": (alignment_messages.PHASES, self._begin_alignment),
                "groups": (GROUP_PHASES, self._begin_groups),
                "labels": (label_messages.PHASES, self._begin_labels),
                "levels": (LEVEL_PHASES, self._begin_levels),
                "scaling": (SCALING_PHASES, self._begin_scaling),
                # The algorithm's own phases follow once the server has named it.
                "training": (m.START_PHASES, lambda: {"start": self._start}),
            }
            if stage not in begin:
                raise RemoteProtocolError(f"there is no stage {stage!r}")
            phases, handlers = begin[stage]
            session = ClientSession(self._plan.token, phases, handlers(), self._after)
            self._sessions[stage] = session
        return self._sessions[stage]

    # The stages

    def _new_key_holder(self) -> KeyHolder:
        kept, plan = self._archive.read(_KEYS), self._plan
        return KeyHolder(
            self._identity,
            self._roster,
            lambda: make_keys(plan.encryption),
            None if kept is None else HeldKeys.from_bytes(kept),
        )

    def _keep_keys(self) -> None:
        held = self._key_holder.held
        content = b"" if held is None else held.to_bytes()
        if content and content != self._archive.read(_KEYS):
            self._archive.write(_KEYS, content)

    @property
    def secrecy(self) -> ClientSecrecy:
        """Seals and opens, once everybody is known to have the same keys."""
        keys = self._key_holder.keys
        return ClientSecrecy(self._plan.encryption, keys, self._secrets, self._hire)

    def _begin_alignment(self) -> Handlers:
        self._alignment = AlignmentClient(
            self._table, self.secrecy.alignment_keys(), self._plan.alignment
        )
        return self._alignment.handlers

    @property
    def aligned(self) -> AlignedTable:
        """The organisation's table in the study's order."""
        if self._alignment is None:
            raise RemoteProtocolError("this stage comes after the alignment")
        return self._alignment.aligned

    def _begin_groups(self) -> Handlers:
        if self._alignment is None:
            raise RemoteProtocolError("this stage comes after the alignment")
        return GroupsClient(self._secrets).handlers

    def _begin_labels(self) -> Handlers:
        if self._block is not None:
            raise RemoteProtocolError("labels come before training")
        self._labels = self._new_labels()
        return self._labels.handlers

    def _new_labels(self) -> LabelClient | WeightClient:
        targets = self._plan.alignment.targets
        return label_client(self.aligned, targets, self.secrecy.sealers())

    def _begin_levels(self) -> Handlers:
        aligned, secrecy = self.aligned, self.secrecy
        if not aligned.categories:
            raise RemoteProtocolError("it has no column that is a category")
        self._levels = LevelsClient(
            aligned,
            self._table.digest,
            secrecy.alignment_keys(),
            self._plan.levels,
            secrecy.sealers(),
        )
        return self._levels.handlers

    @property
    def expansion(self) -> Expansion:
        """How the organisation's columns become features."""
        if self._levels is not None:
            return self._levels.expansion
        if self.aligned.categories:
            raise RemoteProtocolError("this stage comes after the levels")
        return expansion_of_numbers(len(self.aligned.features))

    def _begin_scaling(self) -> Handlers:
        plan, aligned = self._plan, self.aligned
        is_number = self.expansion.is_number
        self._numbers = owned_cells(
            aligned.own.of_columns(is_number), self.expansion.numbers(aligned.cells)
        )
        self._scaling = ScalingClient(
            self._numbers,
            plan.scale,
            plan.missing,
            self.secrecy.sealers(),
            plan.is_centred,
        )
        return self._scaling.handlers

    @property
    def block(self) -> Block:
        """The features that the organisation counts, scaled."""
        if self._numbers is None or self._scaling is None:
            raise RemoteProtocolError("this stage comes after the scaling")
        if self._block is None:
            scaled = self._scaling.scaling.apply(self._numbers.stored)
            # Where nothing is lacking, the server does not begin the stage of labels.
            losses = (self._labels or self._new_labels()).losses
            features = self.aligned.features_of(scaled, self.expansion)
            self._block = self.aligned.block(features, self._plan.bias, losses)
        return self._block

    def _start(self, notice: m.StartNotice) -> None:
        plan, training = self._plan, self._plan.training
        wanted, name = training.algorithm, notice.algorithm
        if name not in ALGORITHMS or (wanted is not None and wanted.name != name):
            expected = AUTO if wanted is None else wanted.name
            raise RemoteProtocolError(
                f"the study sets algorithm {expected!r}, but the server sent {name!r}"
            )
        if self._half is not None:
            raise RemoteProtocolError("training has already begun")
        algorithm, aligned = wanted or ALGORITHMS[name](), self.aligned
        try:
            self._party = Party(
                training.problem(aligned.n_samples, n_outputs(aligned.classes)),
                self.block,
                self.secrecy.sealers(),
                rank=self._key_holder.rank,
                is_complete=plan.participation.is_complete,
                seed=training.seed,
            )
            self._half = algorithm.client(self._party)
        except ValueError as error:
            raise RefusedError(str(error)) from None
        session = self._sessions["training"]
        session.phases = {**m.START_PHASES, **algorithm.phases}
        session.handlers = {**session.handlers, **self._half.handlers}

    @property
    def party(self) -> Party:
        """The input to the organisation's half of the algorithm."""
        if self._party is None:
            raise RemoteProtocolError("training has not begun yet")
        return self._party

    @property
    def half(self) -> ClientHalf:
        """The organisation's half of the algorithm."""
        if self._half is None:
            raise RemoteProtocolError("training has not begun yet")
        return self._half

    # The study as a whole

    def _hello(self, request: m.Hello) -> m.Present:
        own = self._plan.study_hash
        if request.protocol != PROTOCOL:
            raise RefusedError(
                f"it uses protocol {PROTOCOL}, the server {request.protocol}; "
                "install the same version of hyfdca everywhere"
            )
        if request.study_hash != own:
            raise RefusedError(
                f"its study file ({hash_text(own)}) differs from the server's "
                f"({hash_text(request.study_hash)}); use the same file everywhere"
            )
        has_keys = self._key_holder.held is not None
        return m.Present(own, PROTOCOL, has_keys, self._archive.rounds)

    def _begin(self, request: m.BeginRequest) -> None:
        self._archive.forget_after(-1)
        self._archive.forget(_PREPARATION)
        self._key_holder = self._new_key_holder()
        self._after = request.after
        self._forget()

    def _keep(self, request: m.KeepRequest) -> None:
        content = checkpoint.save(self.half)
        kept = ClientRound(self._sessions["training"].last_phase, content)
        if self._said is not None:
            preparation = ClientPreparation(self._table.digest, self._said)
            self._archive.write(_PREPARATION, checkpoint.encode(preparation))
            self._said = None
        self._archive.write_round(request.round, checkpoint.encode(kept))
        self.news = News(request.round, request.relative_gap, tuple(request.present))

    def _return(self, request: m.ReturnRequest) -> None:
        content = self._archive.read_round(request.round)
        if content is None:
            raise RemoteProtocolError(
                f"it has no checkpoint of round {request.round}: its checkpoints are "
                "lost, or older"
            )
        kept = _read(ClientRound, content)
        if self._half is None or self._said is not None:
            self._repeat_preparation()
        try:
            checkpoint.load(self.half, kept.half)
        except checkpoint.CheckpointError as error:
            raise RefusedError(str(error).rstrip(".")) from None
        self._after = request.after
        self._sessions["training"].resume(request.after, kept.last_phase)
        self._archive.forget_after(request.round)

    def _repeat_preparation(self) -> None:
        """Replay all requests before the first round.

        The replies are the same only if the table is.
        """
        content = self._archive.read(_PREPARATION)
        if content is None:
            raise RemoteProtocolError("it has no record of how the study began")
        kept = _read(ClientPreparation, content)
        if kept.table != self._table.digest:
            raise RefusedError(
                "its table has changed since the study began; restore that table, or "
                "restart the study"
            )
        self._after = 0
        self._forget()
        for stage, phase, payload in kept.said:
            self._session(stage).handle(phase, payload)
        self._said = None

    def _finish(self, notice: m.FinishNotice) -> None:
        self.model = bytes(notice.model)

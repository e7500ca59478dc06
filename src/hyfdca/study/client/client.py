"""An organisation's side of a study, from its keys to its part of every round.

A study has the stages keys, alignment, held-out rows, groups, labels, levels, scaling,
training, validation and evaluation. Each is a separate conversation; those without
anything to do are left out. Validation takes place between rounds of training. A stage
begins with its first request and builds on the result of the previous one. The stage
*study* concerns the study as a whole:

| phase   | down                           | up                                       |
|---------|--------------------------------|------------------------------------------|
| hello   | the study file's hash          | the same; saved keys and rounds          |
| begin   | a run, and what was chosen     | - (everything but the keys restarts)     |
| keep    | the number of a round          | - (its state is on disk)                 |
| return  | the number of a round          | - (its state is restored)                |
| stop    | why the study ends             | - (no more rounds: release and test)     |
| finish  | the model                      | -                                        |

Theory of operation. Requests before the first round are saved verbatim and replayed
after a restart: the replies follow from the table and the keys. After a round its state
is saved. The last three states are kept: the server may have failed to save the last
one itself, and one of the others may be damaged. The store seals keys, states and
requests; none of them contains pads or noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import msgspec

from hyfdca.arrays import FloatArray
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster
from hyfdca.crypto.keys.set_secrets import AgreedSecrets
from hyfdca.crypto.keys.study_keys import StudyKeys
from hyfdca.crypto.schemes.registry import Workforce
from hyfdca.data.expansion import Expansion
from hyfdca.data.labels import n_outputs
from hyfdca.data.tables import Table
from hyfdca.errors import reading
from hyfdca.federation.algorithm import ClientHalf
from hyfdca.federation.client import Party
from hyfdca.federation.evaluation.confirmation import Confirming
from hyfdca.federation.sealing.secrets import ClientSecrecy, make_keys
from hyfdca.holdings.block import Block
from hyfdca.model.model import Model
from hyfdca.protocol import checkpoint
from hyfdca.protocol.client_session import ClientSession, Handlers
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.transcript import Account, Transcript
from hyfdca.runtime.driver import one_thread
from hyfdca.runtime.store import Archive, MemoryStore, Store, StoreError
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.evaluation import messages as evaluation_messages
from hyfdca.stages.evaluation.answered import Answered
from hyfdca.stages.evaluation.client import EvaluationClient, EvaluationInputs
from hyfdca.stages.groups import PHASES as GROUP_PHASES
from hyfdca.stages.groups import GroupsClient
from hyfdca.stages.keys import messages as key_messages
from hyfdca.stages.keys.client import HeldKeys, KeyHolder
from hyfdca.stages.validation import messages as validation_messages
from hyfdca.study import messages as m
from hyfdca.study.client.answered import answered_in
from hyfdca.study.client.checks import (
    check_openers,
    check_policy,
    check_same_study,
    chosen_algorithm,
)
from hyfdca.study.client.openings import Openings
from hyfdca.study.client.placements import NotedPlacements
from hyfdca.study.client.policy import MemberPolicy
from hyfdca.study.client.records import (
    KEYS,
    PREPARATION,
    ClientPreparation,
    ClientRound,
    News,
    Said,
    read_record,
)
from hyfdca.study.client.release import Releases, forget_release
from hyfdca.study.client.rounds import RoundsTaken
from hyfdca.study.client.runs import KnownRun
from hyfdca.study.client.stages import Begin, ClientStages
from hyfdca.study.client.tested_model import tested_model
from hyfdca.study.client.validating import DueRounds, OwnPoint
from hyfdca.study.own_model import OwnModel, check_model, own_model
from hyfdca.study.plan import PROTOCOL, Plan

T = TypeVar("T")

STUDY_TOKEN = b"hyfdca:1"  # of the stage that detects a different study
MOST_SAID = 1 << 16  # requests before the first round; studies have some hundred
STAGES = (
    "study",
    "keys",
    "alignment",
    "held-out rows",
    "groups",
    "labels",
    "levels",
    "scaling",
    "training",
    "validation",
    "evaluation",
)


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
    policy : MemberPolicy
        The organisation's own limits; by default there are none.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # all that an organisation brings
        self,
        plan: Plan,
        table: Table,
        identity: Identity,
        roster: Roster,
        store: Store | None = None,
        hire: Workforce | None = None,
        policy: MemberPolicy = MemberPolicy(),  # noqa: B008  # it is immutable
    ) -> None:
        self._table, self._hire, self._policy = table, hire, policy
        self._archive, self._is_kept = Archive(store or MemoryStore()), bool(store)
        self._run = KnownRun(plan, self._archive)
        self._taken = RoundsTaken(self._archive, policy)
        self._identity, self._roster = identity, roster
        self.openings = Openings(self._archive, plan.study_hash)
        self.model: bytes | None = None  # set when the study has ended
        self.news = News()
        self._key_holder = self._new_key_holder()
        handlers: Handlers = {
            "hello": self._hello,
            "begin": self._begin,
            "keep": self._keep,
            "return": self._return,
            "stop": self._stop,
            "finish": self._finish,
        }
        self._transcript = Transcript()
        noting = partial(self._note, "study")
        self._sessions = {
            "study": ClientSession(STUDY_TOKEN, m.PHASES, handlers, listener=noting)
        }
        self._after = 0  # requests up to this number are obsolete
        self._releases = self._new_releases()
        self._forget()

    @property
    def plan(self) -> Plan:
        """The plan of the run that the organisation takes part in."""
        return self._run.plan

    def _new_releases(self) -> Releases:
        return Releases(self.plan, self._archive, self._taken, self._run.note_round)

    @property
    def _answered(self) -> Answered:
        return answered_in(self.plan, self._archive)

    def _forget(self) -> None:
        """Reset to the state before the first stage."""
        self._sessions = {"study": self._sessions["study"]}
        number = self.plan.run.number
        self._secrets = AgreedSecrets(self._identity, self._roster, number)
        self._stages = ClientStages(
            self.plan,
            self._table,
            lambda: self.secrecy,
            self._policy.least_rows,
            NotedPlacements(self._archive, self.plan),
        )
        self._due = DueRounds(self.plan, self._releases)
        self._party: Party | None = None
        self._half: ClientHalf | None = None
        self._own_model: OwnModel | None = None  # once it is confirmed
        self.evaluation: EvaluationClient | None = None
        # Requests before the first round; None once they are saved.
        self._said: list[Said] | None = [] if self._is_kept else None

    @property
    def strays(self) -> list[str]:
        """Sentences about files in its store that are not part of the study."""
        return self._archive.strays

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
            with self.openings.counted():
                reply = self._answer(stage, phase, payload)
            if stage == "keys":
                self._keep_keys()
        except StoreError as error:
            raise RefusedError(str(error).rstrip(".")) from None
        return reply

    def _answer(self, stage: str, phase: str, payload: bytes | bytearray) -> bytearray:
        if stage == "training":
            self._releases.check_phase(phase)
        with one_thread(), self._unchanged_by_errors():
            return self._answered_and_said(stage, phase, payload)

    def _answered_and_said(
        self, stage: str, phase: str, payload: bytes | bytearray
    ) -> bytearray:
        """Answer a request; note it if it comes before the first round.

        A retry has the number of the request before, and is not noted again.
        """
        session = self._session(stage)
        last, is_noted = session.last_number, stage not in ("study", "keys")
        if is_noted and self._said is not None and len(self._said) >= MOST_SAID:
            raise RemoteProtocolError(
                f"the server asked more than {MOST_SAID:,} times before the first round"
            )
        reply = session.handle(phase, payload)
        if is_noted and self._said is not None and session.last_number > last:
            self._said.append((stage, phase, bytes(payload)))
        return reply

    @contextmanager
    def _unchanged_by_errors(self) -> Iterator[None]:
        """Forget the note of a request that is refused."""
        noted = self._transcript.unchanged_by_errors()
        with noted, self._releases.unchanged_by_errors():
            yield

    def _session(self, stage: str) -> ClientSession:
        if stage not in self._sessions:
            begin: dict[str, Begin] = {
                "keys": (key_messages.PHASES, lambda: self._key_holder.handlers),
                **self._stages.begin,
                "groups": (GROUP_PHASES, self._begin_groups),
                # The algorithm's own phases follow once the server has named it.
                "training": (m.START_PHASES, lambda: {"start": self._start}),
                "validation": (validation_messages.PHASES, self._begin_validation),
                "evaluation": (evaluation_messages.PHASES, self._begin_evaluation),
            }
            if stage not in begin:
                raise RemoteProtocolError(f"there is no stage {stage!r}")
            phases, handlers = begin[stage]
            self._sessions[stage] = ClientSession(
                self.plan.token,
                phases,
                handlers(),
                self._after,
                partial(self._note, stage),
            )
        return self._sessions[stage]

    def _note(self, stage: str, number: int, phase: str, request: Message) -> None:
        """Note a request, to compare what all clients were sent; check and count it."""
        check_openers(request, len(self.plan.names))
        self._transcript.note(stage == "study", number, phase, request)
        if stage == "training":
            known = self._sessions[stage].phases[phase]
            self._releases.take(phase, known, request)

    # The stages

    def _new_key_holder(self) -> KeyHolder:
        kept, plan = self._archive.read(KEYS), self.plan
        with reading(self._archive.damage(KEYS)):
            held = None if kept is None else HeldKeys.from_bytes(kept)
        make = lambda: make_keys(plan.encryption)  # noqa: E731
        return KeyHolder(self._identity, self._roster, make, held)

    def _keep_keys(self) -> None:
        held = self._key_holder.held
        content = b"" if held is None else held.to_bytes()
        if content and content != self._archive.read(KEYS):
            self._archive.write(KEYS, content)

    @property
    def secrecy(self) -> ClientSecrecy:
        """Seals and opens, once everybody is known to have the same keys."""
        secrets, encryption = self._secrets, self.plan.encryption
        tell = self.openings.opened.note
        return ClientSecrecy(encryption, self._keys, secrets, self._hire, tell)

    @property
    def _keys(self) -> StudyKeys:
        """The study's keys for this run."""
        return self._key_holder.keys.of_run(self.plan.run.number)

    @property
    def aligned(self) -> AlignedTable:
        """The organisation's table in the study's order."""
        return self._stages.aligned

    def _begin_groups(self) -> Handlers:
        assert self.aligned  # noqa: S101  # refused before the alignment
        return GroupsClient(self._secrets).handlers

    @property
    def expansion(self) -> Expansion:
        """How the organisation's columns become features."""
        return self._stages.expansion

    @property
    def block(self) -> Block:
        """The features that the organisation counts, scaled."""
        return self._stages.block

    @property
    def row_weights(self) -> FloatArray | None:
        """The weights of its samples, (samples, 1), without those of classes."""
        return self._stages.row_weights

    def _start(self, notice: m.StartNotice) -> None:
        plan, training = self.plan, self.plan.training
        algorithm = chosen_algorithm(training, notice.algorithm)
        if self._half is not None:
            raise RemoteProtocolError("training has already begun")
        aligned = self.aligned
        width = n_outputs(aligned.classes)
        check_policy(self._policy, self._taken, plan, self._table, width)
        self._stages.check_all_rows()
        try:
            self._party = Party(
                training.problem(aligned.n_samples, width),
                self.block,
                self.secrecy.sealers(),
                rank=self._key_holder.rank,
                is_complete=plan.participation.is_complete,
                seed=training.seed,
                n_clients=len(plan.names),
                least_rows=self._policy.least_rows,
            )
            self._half = algorithm.client(self._party)
        except ValueError as error:
            raise RefusedError(str(error)) from None
        session, phases = self._sessions["training"], algorithm.all_phases()
        n_clients = len(plan.names)
        self._releases.begin_training(
            {name: algorithm.most_asked(name, n_clients) for name in phases}
        )
        release = {"release": self._release}
        ending = Confirming(self._party, {**self._half.handlers, **release})
        confirm = {"confirm": partial(self._confirm, ending)}
        session.take(
            {**m.START_PHASES, **phases},
            {**session.handlers, **ending.handlers, **confirm},
            training.profile,
        )

    def _release(self, request: Message) -> Message | None:
        """Give away the weights, once."""
        reply = self.half.handlers["release"](request)
        self._releases.check_reply(msgspec.msgpack.encode(reply))
        return reply

    def _begin_validation(self) -> Handlers:
        """Score rows set aside after rounds that are due, with the present weights."""
        party, half = self.party, self.half  # refused before training
        phases = self._sessions["training"].phases
        bias = self.plan.bias
        own = OwnPoint(self._stages, party, half, phases, bias, self._due)
        return own.client(self.plan, self.secrecy.sealers, self._answered).handlers

    def _begin_evaluation(self) -> Handlers:
        """Test the model, once its weights have been released."""
        stages, plan = self._stages, self.plan
        inputs = EvaluationInputs(
            stages.held_out,
            stages.held_out_order,
            self.secrecy.sealers,
            self._key_holder.rank,
            len(plan.names),
            self._policy.least_rows,
            self._answered,
            self._accepted,
            self._keys.derive("hyfdca evaluated model"),
            plan.evaluation.min_bin,
        )
        self.evaluation = EvaluationClient(inputs)
        return self.evaluation.handlers

    def _accepted(self, content: bytes) -> Model:
        """Return the model to test, if this client released its part of it."""
        if self._own_model is None:
            raise RemoteProtocolError("no model has been released yet")
        return tested_model(content, self._own_model)

    def _confirm(self, ending: Confirming, request: Message) -> Message | None:
        """Save its part of the model, to compare with the file later."""
        reply = ending.handlers["confirm"](request)
        self._own_model = own_model(self._stages, ending, self.plan)
        self._releases.note(self._own_model, self._transcript.state())
        return reply

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
        own = self.plan.study_hash
        check_same_study(request, own)
        self._archive.check_writable()
        has_keys = self._key_holder.held is not None
        return m.Present(own, PROTOCOL, has_keys, self._archive.intact_rounds)

    def _begin(self, request: m.BeginRequest) -> None:
        plan = self._run.checked(request.run_choice())
        self._archive.forget_after(-1)
        self._archive.forget(PREPARATION)
        self._run.begin(plan)
        self._key_holder = self._new_key_holder()
        self._after = request.after
        if self._taken.is_new(plan):
            forget_release(self._archive)
        self._releases = self._new_releases()
        self._releases.forget_model()
        self._taken.begin(plan)  # written last: until then the run is new
        self._forget()

    def _stop(self, request: m.StopRequest) -> None:
        self._releases.announce(request)

    def _keep(self, request: m.KeepRequest) -> m.Kept:
        content = checkpoint.save(self.half)
        self._releases.check_keep(request.round)
        self._compare(request.accounts)
        account = self._transcript.account(
            self._account_key, self._key_holder.rank, request.present
        )
        kept = ClientRound(
            self._sessions["training"].last_phase, content, self._transcript.state()
        )
        if self._said is not None:
            preparation = ClientPreparation(self._table.digest, self._said)
            self._archive.write(PREPARATION, checkpoint.encode(preparation))
            self._said = None
        self._archive.write_round(request.round, checkpoint.encode(kept))
        self._releases.saved(request.round, request.relative_gap)
        self.news = News(request.round, request.relative_gap, tuple(request.present))
        return m.Kept(account)

    @property
    def _account_key(self) -> bytes:
        return self._keys.derive("hyfdca accounts")

    def _compare(self, accounts: Sequence[Account], is_last: bool = False) -> None:
        """Refuse to continue if the server sent others something different."""
        try:
            self._transcript.compare(self._account_key, accounts, is_last)
        except RemoteProtocolError as error:
            raise RefusedError(str(error)) from None

    def _return(self, request: m.ReturnRequest) -> None:
        if not self._archive.is_intact(request.round):
            raise RemoteProtocolError(
                f"it has no checkpoint of round {request.round}: its checkpoints are "
                "lost, damaged, or older"
            )
        content = self._archive.read_round(request.round) or b""
        kept = read_record(ClientRound, content)
        if self._half is None or self._said is not None:
            self._repeat_preparation()
        try:
            checkpoint.load(self.half, kept.half)
        except checkpoint.CheckpointError as error:
            raise RefusedError(str(error).rstrip(".")) from None
        self._own_model = None
        self._transcript.go_back(kept.transcript)
        self._after = request.after
        self._sessions["training"].resume(request.after, kept.last_phase)
        self._archive.forget_after(request.round)
        self._releases.resume_after(request.round)
        self._due.go_back(request.round)

    def _repeat_preparation(self) -> None:
        """Replay all requests before the first round.

        The replies are the same only if the table is.
        """
        content = self._archive.read(PREPARATION)
        if content is None:
            raise RemoteProtocolError("it has no record of how the study began")
        kept = read_record(ClientPreparation, content)
        if kept.table != self._table.digest:
            raise RefusedError(
                "its table has changed since the study began; restore that table, or "
                "restart the study"
            )
        self._after = 0
        self._forget()
        with self._releases.uncounted():
            for stage, phase, payload in kept.said:
                self._session(stage).handle(phase, payload)
        self._said = None

    def _finish(self, notice: m.FinishNotice) -> None:
        confirmed, model = self._releases.confirmed(), bytes(notice.model)
        self._transcript.restore(confirmed.transcript)  # this process may be new
        self._compare(notice.accounts, is_last=True)
        check_model(model, confirmed.own)
        self.model = model

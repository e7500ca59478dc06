"""What job processes run: the study at the server, a member at each client."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hyfdca.errors import StudyError
from hyfdca.federation.sealing.secrets import workforce
from hyfdca.flare.log import Tell
from hyfdca.flare.network import Network, NetworkDriver
from hyfdca.flare.predictions.inputs import KEPT, own_store
from hyfdca.flare.status import (
    current_run,
    forget_over,
    is_over,
    note_over,
    note_run,
    result_folder,
    without_model,
    write_progress,
)
from hyfdca.flare.watching import ClientWatch, ServerWatch
from hyfdca.kits.checking import checked_table
from hyfdca.kits.kit import ClientKit, ServerKit, read_client_kit, read_server_kit
from hyfdca.model.file import ModelError, parse_model_file
from hyfdca.protocol.checkpoint import CheckpointError
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.runtime.driver import Driver
from hyfdca.runtime.store import Archive, FolderStore, StoreError
from hyfdca.study.about import Asked
from hyfdca.study.client.client import StudyClient
from hyfdca.study.client.records import KEYS
from hyfdca.study.evaluating import STAGE, evaluator_of
from hyfdca.study.identity import make_roster, study_hash
from hyfdca.study.local.run import Consortium, Run
from hyfdca.study.outcome import Outcome, conclude, write_files
from hyfdca.study.plan import Plan, plan_of
from hyfdca.study.presence import MisfitError, Presence
from hyfdca.study.resume import ReadyStudy, ResumableStudy
from hyfdca.study.tables import table_of
from hyfdca.study.tuning import run_folder, tuned

MODEL, RESULT = "model.json", "result.json"
_TOLD = ("begin", "return", "finish")  # phases in which a client learns of its run

_HELLO_TIMEOUT = 3.0  # seconds; busy members are called again
_CALL_EVERY = 10.0  # seconds between calls of missing members
_WAIT = 0.5


class Carrier:
    """The network of a study, on NVFlare.

    Parameters
    ----------
    timeout : float
        Most seconds to wait for an answer.
    """

    def __init__(self, network: Network, timeout: float) -> None:
        self._network, self._timeout = network, timeout
        self._last_call = time.monotonic()

    def driver(self, stage: str) -> Driver:
        """Return the driver that carries the requests of a stage."""
        return NetworkDriver(self._network, stage, self._timeout, _HELLO_TIMEOUT)

    def wait(self, missing: Iterable[int]) -> None:
        """Wait briefly; members that return may need another job to join."""
        self._network.pause_if_asked()
        time.sleep(_WAIT)

    def returning(self, missing: Iterable[int]) -> Iterable[int]:
        """Return the missing members, but only every few seconds."""
        if time.monotonic() - self._last_call < _CALL_EVERY:
            return ()
        self._last_call = time.monotonic()
        return missing


def serve(kit: Path, network: Network) -> None:
    """Run the study, or resume it from its checkpoints in ``kit/state``.

    Raises
    ------
    StudyError
        If the study cannot run and retrying does not help.
    PausedError
        If a pause was requested; raised at the end of a round.
    """
    own = read_server_kit(kit)
    plan = plan_of(own.file, study_hash(own.content), current_run(own))
    watch = ServerWatch(own.state, plan)
    carrier = Carrier(network, plan.phase_timeout)
    presence = Presence(plan, carrier, watch.tell)
    archive = Archive(FolderStore(own.state / KEPT))
    for stray in archive.strays:
        watch.tell(stray)
    host = ResumableStudy(plan, carrier, presence, archive)
    if not (_has_model(own) and _can_hand_over(own, host)):
        hosted = host.ready()
        write_progress(own.state, len(hosted.runner.history))
        for report in hosted.runner.rounds():
            write_progress(own.state, report.round_number)
            watch.show(presence, hosted.runner.history)
            network.pause_if_asked()
        _outcome(own, plan, hosted, carrier).write(result_folder(own))
        note_over(own, plan.names)
    hand_over(own, presence, carrier, watch.tell)


def _has_model(kit: ServerKit) -> bool:
    """Return whether the study is over; a missing model reopens its last round."""
    if not is_over(kit):
        return False
    path = result_folder(kit) / MODEL
    try:
        parse_model_file(path.read_bytes(), path)
    except (OSError, ModelError):
        forget_over(kit)
        return False
    return True


def _can_hand_over(kit: ServerKit, host: ResumableStudy) -> bool:
    """Return whether the last round is intact; if it is not, it is run again."""
    try:
        host.hand_over()
    except (StoreError, CheckpointError):
        forget_over(kit)
        return False
    return True


def hand_over(kit: ServerKit, presence: Presence, network: Carrier, tell: Tell) -> None:
    """Send the model to all members that lack it; wait for missing ones.

    Raises
    ------
    MisfitError
        If a member refuses it, after recording who accepted it.
    """
    path = result_folder(kit) / MODEL
    model, left = path.read_bytes(), without_model(kit)
    ranks = {name: rank for rank, name in enumerate(kit.names)}
    last_left: list[str] = []
    while left:
        presence.call(set(presence.missing) & {ranks[name] for name in left})
        refused: MisfitError | None = None
        try:
            has_it = presence.finish(model, [ranks[name] for name in left])
        except MisfitError as error:
            has_it, refused = error.accepted, error
        left = [name for name in left if ranks[name] not in has_it]
        note_over(kit, left)
        if refused is not None:
            raise refused
        if left and left != last_left:
            names = ", ".join(map(repr, left))
            tell(f"Waiting for {names} to receive the model {path}.")
            last_left = left
        if left:
            network.wait(ranks[name] for name in left)


def _outcome(
    kit: ServerKit, plan: Plan, hosted: ReadyStudy, network: Carrier
) -> Outcome:
    rounds, prepared = hosted.runner, hosted.prepared
    consortium = Consortium(plan.names, prepared.levels)
    run = Run(
        tuned(kit.file, plan.run).study,
        consortium,
        prepared.scaling,
        hosted.traffic,
        rounds,
        evaluator=evaluator_of(plan, prepared, network.driver(STAGE)),
        target=prepared.target,
        stage_costs=prepared.costs,
    )
    seconds = sum(record["seconds"] for record in rounds.history)
    asked = Asked.of(kit.content, kit.file, plan.run, is_rehearsal=False)
    return replace(conclude(run, seconds), asked=asked)


class StudyClientHandler:
    """A member of a study that publishes its status."""

    def __init__(self, member: StudyClient, watch: ClientWatch, kit: ClientKit) -> None:
        self._member, self._watch, self._kit = member, watch, kit

    def handle(self, stage: str, phase: str, payload: bytes) -> bytes | bytearray:
        """Answer a request; a repeated request gets the same bytes."""
        reply = self._member.handle(stage, phase, payload)
        if stage == "study" and phase in _TOLD:
            self._watch.follow(self._member.plan)
            note_run(self._kit, self._kit.file, self._member.plan.run)
        self._watch.note(stage, phase, len(payload), len(reply), self._member.news)
        if self._member.model is not None and phase == "finish":
            self._write(self._member.model)
            note_over(self._kit)
        elif phase == "begin":
            forget_over(self._kit)
        return reply

    def _write(self, model: bytes) -> None:
        """Write the model, if it is valid and belongs to this study."""
        out = run_folder(self._kit.out, self._member.plan.run.number)
        own = self._kit.file.study
        try:
            study = parse_model_file(model, out / MODEL).study
        except ModelError as error:
            raise RemoteProtocolError(str(error)) from None
        if study != own.name:
            raise RemoteProtocolError("the model belongs to another study")
        try:
            write_files(out, {MODEL: model})
        except StudyError:
            raise RefusedError(
                "it cannot write the model to the folder out of its kit"
            ) from None


def check_before_connecting(own: ClientKit, data: Path) -> None:
    """Refuse a table or saved keys that would end the study for everybody.

    Raises
    ------
    StudyError
    """
    own.policy.check_table(checked_table(own.file, own.client, data))
    try:
        Archive(own_store(own, own.identity)).read(KEYS)
    except StoreError as error:
        raise StudyError(str(error)) from None


def join(kit: Path, data: Path) -> StudyClientHandler:
    """Return a member of the study, with its table loaded.

    Raises
    ------
    StudyError
    """
    own = read_client_kit(kit)
    study = own.file.study
    plan = plan_of(own.file, study_hash(own.content))
    keys = {client.name: client.public_key for client in own.file.clients}
    roster = make_roster(own.content, keys, plan.epoch)
    table = table_of(study, own.client, data, own.file.evaluation)
    own.policy.check_table(table)
    store = own_store(own, own.identity)
    hire = workforce(plan.encryption)
    try:
        member = StudyClient(plan, table, own.identity, roster, store, hire, own.policy)
    except (ValueError, StoreError) as error:
        raise StudyError(str(error)) from None
    watch = ClientWatch(own.state, member.plan, (*table.notes, *member.strays))
    return StudyClientHandler(member, watch, own)

"""A study that survives restarts of its server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hyfdca.crypto.schemes.registry import new_group_secret
from hyfdca.errors import StudyError, reading
from hyfdca.protocol import checkpoint
from hyfdca.protocol.server_session import (
    BadReplyError,
    ClientsFailedError,
    ServerSession,
)
from hyfdca.runtime.driver import Driver, Traffic
from hyfdca.runtime.journal import Heard, Journaling, Repeating
from hyfdca.runtime.store import Archive
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.study.costs import forget_times
from hyfdca.study.durable import PresentMembers, RoundCheckpoints, last_accounts
from hyfdca.study.plan import Plan
from hyfdca.study.presence import Presence, StudyNetwork
from hyfdca.study.server import Prepared, StudyServer
from hyfdca.study.validating import STAGE as VALIDATION
from hyfdca.study.validating import note_before, validator_of
from hyfdca.training.runner import DrawnMembers, Runner, make_runner

_STARTS, _PREPARATION = "starts", "preparation"
_ASKED = "asked"  # the run that organisations were last asked to begin
_NUMBERS = 2**32  # request numbers reserved for each start of the server
_MOST_STARTS = 2**31  # that have room in the numbers


@dataclass(frozen=True, repr=False)
class ServerPreparation:
    """How a run of a study began: enough to replay it."""

    run: bytes  # the run, and what was chosen for it
    number: int  # of the last request before
    group_secret: bytes
    holders: list[int]  # who had the study's keys before
    heard: Heard


@dataclass(frozen=True)
class ReadyStudy:
    """A study that is ready for its next round."""

    prepared: Prepared
    runner: Runner
    checkpoints: RoundCheckpoints
    traffic: Traffic


def run_asked_for(archive: Archive) -> int:
    """Return the last run that any organisation was asked to begin; 0 for none."""
    with reading(archive.damage(_ASKED)):
        return int(archive.read(_ASKED) or b"0")


class ResumableStudy:
    """Brings a study to its next round, from the start or from a checkpoint."""

    def __init__(
        self, plan: Plan, network: StudyNetwork, presence: Presence, archive: Archive
    ) -> None:
        self._plan, self._network, self._presence = plan, network, presence
        self._archive, self._every = archive, plan.checkpoint_every

    @property
    def has_begun(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return bool(self._archive.rounds)

    def hand_over(self) -> None:
        """Prepare to hand the model over, after a restart.

        Raises
        ------
        StoreError, CheckpointError
            If members' accounts of the last round cannot be read.
        """
        self._presence.accounts = last_accounts(self._archive)
        self.number_again()

    def ready(self) -> ReadyStudy:
        """Return the study, resumed from its last checkpoint or started.

        Raises
        ------
        StudyError
            If it can be neither started nor resumed.
        """
        if self.has_begun:
            return self._resumed()
        while True:
            try:
                return self._begun()
            except (ClientsFailedError, BadReplyError) as failure:
                self._presence.lose(failure)
                # Others may have the study's keys by now: all are asked again.
                self._presence.present.clear()
            except AlignmentError as error:
                raise StudyError(str(error)) from None

    def _begun(self) -> ReadyStudy:
        """Start with all members; save their replies when all is ready."""
        presence, number = self._presence, self.number_again()
        presence.wait_for(len(presence.everyone))
        self._archive.write(_ASKED, b"%d" % self._plan.run.number)
        presence.begin(number)
        holders = [c for c, answer in presence.present.items() if answer.has_keys]
        heard: Heard = []
        beginning = ServerPreparation(
            self._plan.run.to_bytes(),
            number,
            new_group_secret(),
            sorted(holders),
            heard,
        )
        hosted = self._prepared(
            beginning, lambda stage: Journaling(self._network.driver(stage), heard)
        )
        self._archive.write(_PREPARATION, checkpoint.encode(beginning))
        hosted.checkpoints.keep(0)
        # Before the first round, what it will let organisations find out
        if note := note_before(self._plan, hosted.runner):
            self._presence.tell(note)
        return hosted

    def _resumed(self) -> ReadyStudy:
        """Replay the beginning, then restore the last checkpoint."""
        kept = self._archive.read(_PREPARATION)
        try:
            beginning = checkpoint.decode(ServerPreparation, kept or b"")
            is_known = beginning.run == self._plan.run.to_bytes()
            if not is_known or not 0 < beginning.number <= _MOST_STARTS * _NUMBERS:
                raise self._archive.damage(_PREPARATION)
            heard = list(beginning.heard)
            hosted = self._prepared(beginning, lambda _: Repeating(heard))
            forget_times(hosted.prepared.costs)
            hosted.runner.set_up_seconds = None
            hosted.prepared.federation.session.number = self.number_again()
            hosted.checkpoints.go_back()
        except checkpoint.CheckpointError as error:
            raise StudyError(str(error)) from None
        return hosted

    def _prepared(
        self, beginning: ServerPreparation, driver: Callable[[str], Driver]
    ) -> ReadyStudy:
        """Run all stages and the set-up of training with the given drivers."""
        plan = self._plan
        session = ServerSession(plan.token, after=beginning.number)
        convener = StudyServer(plan, driver, session, beginning.group_secret)
        prepared = convener.prepare(beginning.holders)
        federation, participation = prepared.federation, plan.participation
        heard: Heard = []
        live = self._network.driver("training")
        if not participation.is_complete:
            live = Journaling(live, heard)
        drawn = DrawnMembers(participation, len(plan.names))
        runner = make_runner(plan.training, prepared.choice, federation, live, drawn)
        checkpoints = RoundCheckpoints(
            runner, self._presence, self._archive, self._every, heard
        )
        runner.confirms = True
        runner.validator = validator_of(
            plan, prepared, self._network.driver(VALIDATION)
        )
        runner.start(driver("training"))
        runner.members = PresentMembers(drawn, self._presence, checkpoints)
        runner.checkpoints = checkpoints
        return ReadyStudy(prepared, runner, checkpoints, convener.traffic)

    def number_again(self) -> int:
        """Give requests numbers above those of all earlier starts of this server."""
        known = self._archive.read(_STARTS) or b"0"
        with reading(self._archive.damage(_STARTS)):
            starts = int(known) + 1
            if not 0 < starts <= _MOST_STARTS:
                raise ValueError
        self._archive.write(_STARTS, b"%d" % starts)
        number = starts * _NUMBERS
        self._presence.number_from(number)
        return number

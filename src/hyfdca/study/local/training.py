"""A study in one process that survives being killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from hyfdca.data.tables import Table
from hyfdca.errors import StudyError, as_study_error
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.runtime.driver import Handler
from hyfdca.runtime.inprocess import InProcess
from hyfdca.runtime.store import StoreError
from hyfdca.study.about import Asked
from hyfdca.study.client.client import StudyClient
from hyfdca.study.durable import RoundCheckpoints
from hyfdca.study.evaluating import STAGE, evaluator_of
from hyfdca.study.file import StudyFile, load_with_content
from hyfdca.study.local.further_runs import STATE
from hyfdca.study.local.run import LocalRun
from hyfdca.study.local.saved_run import How, SavedRun
from hyfdca.study.local.study import (
    local_clients,
    local_driver,
    local_plan,
    local_run,
    read_tables,
    training_threads,
)
from hyfdca.study.outcome import Outcome, Watcher, check_folder, train
from hyfdca.study.plan import Plan
from hyfdca.study.presence import Presence
from hyfdca.study.resume import ResumableStudy
from hyfdca.study.tuning import FIRST_RUN, RunChoice, check_choice, run_sentence
from hyfdca.study.validating import note_before
from hyfdca.training.runner import Failure, Runner

_SECONDS = 5.0  # between two checkpoints, at least
_SHARE = 0.05  # share of the time that may be spent on checkpoints


class _Named:
    """A member whose refusals name it.

    Parameters
    ----------
    refusals : type
        The exceptions that count as refusals.
    """

    def __init__(
        self, name: str, member: Handler, refusals: type[RemoteProtocolError]
    ) -> None:
        self._name, self._member, self._refusals = name, member, refusals

    def handle(self, phase: str, payload: bytes | bytearray) -> bytes | bytearray:
        """Answer one request."""
        try:
            return self._member.handle(phase, payload)
        except self._refusals as error:
            raise RefusedError(f"Organisation {self._name!r}: {error}") from None


class LocalNetwork:
    """Connects a server with members in its own process, which are never absent."""

    def __init__(
        self, plan: Plan, members: tuple[StudyClient, ...], n_threads: int
    ) -> None:
        self._plan, self._members, self._n_threads = plan, members, n_threads

    def driver(self, stage: str) -> InProcess:
        """Return the driver that carries the requests of a stage."""
        if stage not in ("study", "training"):
            return local_driver(self._members, stage)
        refusals = RemoteProtocolError if stage == "study" else RefusedError
        members = zip(self._plan.names, self._members, strict=True)
        named = [
            _Named(name, member.stage(stage), refusals) for name, member in members
        ]
        n_threads = self._n_threads if stage == "training" else 1
        return InProcess(dict(enumerate(named)), n_threads)

    def wait(self, missing: Iterable[int]) -> None:
        """Do nothing."""

    def returning(self, missing: Iterable[int]) -> Iterable[int]:
        """Return nobody."""
        return ()


class TimedCheckpoints:
    """Saves rounds every few seconds, and the last one if the user interrupts.

    Parameters
    ----------
    rounds : RoundCheckpoints
        Lets all parties save a round.
    write : callable
        Writes what they saved to disk.
    every : int
        Only rounds whose number this divides are saved, except for the last.
    """

    def __init__(
        self,
        runner: Runner,
        rounds: RoundCheckpoints,
        write: Callable[[], None],
        every: int,
    ) -> None:
        self._runner, self._rounds, self._write = runner, rounds, write
        self._every, self._due = every, time.monotonic() + _SECONDS
        self._last: int | None = None  # round saved

    def begin_round(self) -> None:
        """Prepare for a round."""
        self._rounds.begin_round()

    def end_round(self, participants: tuple[int, ...]) -> None:
        """Keep the replies of the round, in case the state cannot be saved."""
        self._rounds.end_round(participants)

    def commit(self, is_last: bool) -> None:
        """Save the round if that is due."""
        number, started = self._runner.progress.n_rounds, time.monotonic()
        is_due = started >= self._due and number % self._every == 0
        is_due = is_due or self._runner.interruption.is_asked
        if not is_due or number == self._last:
            return
        self._rounds.keep(number)
        self._write()
        ended, self._last = time.monotonic(), number
        self._due = ended + max(_SECONDS, (ended - started) / _SHARE)

    def announce_end(self) -> None:
        """Do nothing: members in this process release the model at any time."""

    def recover(self, failure: Failure) -> None:
        """Raise the failure: members in this process do not drop out."""
        raise failure


def train_file(
    path: Path,
    folder: Path,
    watch: Watcher,
    how: How = "first",
    tell: Callable[[str], None] = lambda _: None,
    run: RunChoice = FIRST_RUN,
) -> Outcome:
    """Train the study of a file and write its outcome to a folder.

    A training that is interrupted or killed after some seconds leaves its state in the
    folder ``state``, from which it can be resumed.

    Parameters
    ----------
    tell : callable, optional
        Called with sentences that say what was chosen for the run, where a resumed
        training continues, or what choosing l2, or curves, will let organisations find
        out.
    run : RunChoice, optional
        The run of the study to train, and what was chosen for it.

    Raises
    ------
    StudyError
        In that case, no outcome has been written.
    """
    check_folder(folder)
    file, content = load_with_content(path)
    as_study_error(lambda: check_choice(run, file))
    plan = local_plan(file, run)
    asked = Asked.of(content, file, run, is_rehearsal=True)
    if said := run_sentence(file, run):
        tell(said)
    try:
        with SavedRun(folder / STATE, plan) as saved:
            saved.open(how)
            tables = read_tables(file, path.parent)
            ready = resumable_run(file, plan, tables, saved)
            if how == "resume":
                tell(f"Continuing after round {ready.training.progress.n_rounds}.")
            elif note := note_before(plan, ready.training):
                tell(note)
            outcome = replace(train(ready, watch), asked=asked)
            outcome.write(folder)
            if not outcome.is_interrupted:
                saved.discard()
    except StoreError as error:
        raise StudyError(str(error)) from None
    return outcome


def resumable_run(
    file: StudyFile, plan: Plan, tables: Sequence[Table], saved: SavedRun
) -> LocalRun:
    """Return a study that is ready for its first round, or for the one after a stop.

    Raises
    ------
    StudyError
    """
    is_resumed = bool(saved.archive.rounds)
    try:
        identities = saved.identities()
        members = local_clients(plan, tables, saved.stores(identities), identities)
        network = LocalNetwork(plan, members, training_threads(tables))
        presence = Presence(plan, network)
        ready = ResumableStudy(plan, network, presence, saved.archive).ready()
    except (RefusedError, StoreError, ValueError) as error:
        raise _sentence(error, is_resumed) from None
    runner = ready.runner
    runner.checkpoints = TimedCheckpoints(
        runner, ready.checkpoints, saved.write, plan.checkpoint_every
    )
    run = local_run(file, tables, ready.prepared, ready.traffic, runner, members)
    tests = evaluator_of(plan, ready.prepared, network.driver(STAGE))
    return replace(run, evaluator=tests)


def _sentence(error: Exception, is_resumed: bool) -> StudyError:
    """Return an error as one sentence, with a way out of a run that is damaged."""
    what = str(error).rstrip(".")
    if is_resumed and "restart" not in what:
        what += "; discard the run with --restart"
    return StudyError(f"{what}.")

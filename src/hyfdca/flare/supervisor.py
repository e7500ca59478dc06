"""The command ``hyfdca server --kit KIT``: completes a study despite crashes.

Theory of operation. NVFlare's server runs a job, in which the study runs. A job ends
when one of its processes dies, and admits nobody who arrives later. So jobs are cheap
here: the study saves its checkpoints in the kit, and the next job resumes from them.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hyfdca.errors import PassingError, StudyError
from hyfdca.flare.admin import Admin, NoAnswerError, admin_session
from hyfdca.flare.decisions import (
    Attempts,
    how_it_ended,
    missing,
    outsiders,
    reason_of,
    sites_needed,
)
from hyfdca.flare.diagnosis import last_error, refusals
from hyfdca.flare.job_environment import STUDY, JobEnvironment
from hyfdca.flare.lock import end_if_asked, ended_in_order, only_one
from hyfdca.flare.log import Tell, written_down
from hyfdca.flare.processes import Parent, require_free, wait_for
from hyfdca.flare.status import (
    Note,
    forget_note,
    forget_status,
    is_over,
    progress,
    read_note,
    rejoin_file,
    without_model,
)
from hyfdca.kits.expiry import ExpiryWatch, require_valid
from hyfdca.kits.kit import ServerKit, read_server_kit

T = TypeVar("T")

_LOOK_EVERY = 0.5  # seconds
_ASK_SERVER_EVERY = 2.0
_ASK_SITES_EVERY = 5.0
_START_TIMEOUT = 60.0
_LOADING_TIMEOUT = 600.0
_LATECOMERS = 3.0  # seconds for the others to connect once there are enough
_OVER = "FINISHED"


@dataclass(frozen=True)
class Terms:
    """The study, and how many of its organisations it needs once it has begun."""

    study: str = STUDY
    quorum: int | None = None


def run_server(
    folder: Path,
    tell: Tell,
    terms: Terms | None = None,
    prepare: Callable[[], None] = lambda: None,
) -> None:
    """Run the study of a server's kit until it ends or Ctrl-C interrupts it.

    ``tell`` receives occasional sentences; ``prepare`` is called once nobody else can
    be using the kit.

    Raises
    ------
    StudyError
        If the study cannot run, or fails repeatedly without progress.
    """
    kit = read_server_kit(folder)
    kit.make_folders()
    with only_one(kit), ended_in_order(), written_down(kit, tell) as logged:
        require_free(kit.owner.port)
        require_valid(kit)
        forget_note(kit)
        forget_status(kit.state)
        prepare()
        Supervisor(kit, terms or Terms(), logged).run()


class ServerGoneError(Exception):
    """NVFlare's server, or the connection to it, is gone."""


class Supervisor:
    """Starts the server and submits jobs until the study is finished."""

    def __init__(self, kit: ServerKit, terms: Terms, tell: Tell) -> None:
        self._kit, self._names, self._terms, self._tell = kit, kit.names, terms, tell
        self._attempts = Attempts(progress(kit))
        self._expiry = ExpiryWatch(kit, tell)

    def run(self) -> None:
        """Run until the study is finished."""
        while (trouble := self._with_server()) is not None:
            self._count(trouble)

    def _with_server(self) -> str | None:
        """Return why the server ended before the study; None if the study is over."""
        try:
            parent = start_server(self._kit, self._terms.study)
        except ServerGoneError as error:
            return str(error)
        try:
            with admin_session(self._kit, _START_TIMEOUT) as admin:
                self._tell("The server is up.")
                while not self._with_job(admin, parent):
                    pass
            return None
        except ServerGoneError:
            note = read_note(self._kit)  # of this run: earlier notes are ignored
            is_over = note is not None and note.state == "finished"
            return None if is_over else "The server's process ended."
        except NoAnswerError as error:
            return f"The server does not answer its administrator ({error})."
        finally:
            parent.stop()

    def _with_job(self, admin: Admin, parent: Parent) -> bool:
        """Run one job; return whether the study is finished."""
        watch = Watch(admin, parent, self._kit, self._tell, self._expiry)
        rejoin_file(self._kit).unlink(missing_ok=True)
        job = self._submit(watch)
        note, status = watch.follow(job, self._names)
        end = how_it_ended(note, job)
        if end == "again" and self._is_handing_over and not without_model(self._kit):
            end = "finished"  # killed when only its own note was left to write
        if end == "refused" and note is not None:
            raise StudyError(note.reason)
        if end == "again":
            self._count(reason_of(note, job, status))
        elif end == "paused":  # the server itself requested it, so nothing failed
            self._tell_of_resuming(reason_of(note, job, status))
        if end in ("again", "paused"):
            watch.until_over(job)
        return end == "finished"

    @property
    def _is_handing_over(self) -> bool:
        """Whether the model is written and only has to be sent to all members."""
        return self._terms.study == STUDY and is_over(self._kit)

    def _submit(self, watch: Watch) -> str:
        wanted, at_least = self._names, self._terms.quorum or len(self._names)
        needed = sites_needed(
            len(self._names), self._terms.quorum, bool(progress(self._kit))
        )
        doing = "The study runs with"
        if self._is_handing_over:
            wanted, at_least = tuple(without_model(self._kit)), 1
            needed, doing = 1, "The model is sent to"  # the others can come later
        connected = watch.for_sites(wanted, needed)
        here = [name for name in self._names if name in connected]
        self._tell(f"{doing} {', '.join(here)}.")
        # NVFlare ends a job with fewer sites; others are only needed at the beginning.
        return watch.submit(here, at_least)

    def _count(self, reason: str) -> None:
        """Wait before the next attempt; raise if there should be no more."""
        self._attempts = self._attempts.after(progress(self._kit))
        pause = self._attempts.pause
        if pause is None:
            raise PassingError(
                f"The study was started {self._attempts.in_vain} times without "
                f"progress; see the logs, the last reason was: {reason}"
            )
        self._tell_of_resuming(reason)
        time.sleep(pause)

    def _tell_of_resuming(self, reason: str) -> None:
        self._tell(f"{reason} The study resumes from its last checkpoint.")


class Watch:
    """Polls the server; raises ``ServerGoneError`` if it is gone."""

    def __init__(
        self,
        admin: Admin,
        parent: Parent,
        kit: ServerKit,
        tell: Tell,
        expiry: ExpiryWatch,
    ) -> None:
        self._admin, self._parent, self._kit = admin, parent, kit
        self._tell, self._expiry = tell, expiry
        self._refused: set[str] = set()  # reported sentences about refused clients
        self._occupied = time.monotonic()  # when a site was last in the job

    def for_sites(self, names: tuple[str, ...], needed: int) -> Collection[str]:
        """Wait until enough of these sites are connected; return all that are."""
        said: list[str] = []
        enough_since = 0.0
        while absent := missing(names, connected := self._ask(self._admin.sites)):
            if len(names) - len(absent) >= needed:
                enough_since = enough_since or time.monotonic()
                if time.monotonic() - enough_since > _LATECOMERS:
                    break
            elif absent != said:
                self._tell(f"Waiting for {', '.join(absent)}.")
                said = absent
            self._tell_refusals()
            self._pause()
        return connected

    def submit(self, sites: list[str], at_least: int) -> str:
        """Submit a job for some sites."""
        return self._ask(lambda: self._admin.submit(sites, at_least, _LOADING_TIMEOUT))

    def follow(self, job: str, names: tuple[str, ...]) -> tuple[Note | None, str]:
        """Return how a job ended; pause it if other organisations have connected."""
        self._occupied = time.monotonic()
        status, next_status, next_sites = "", 0.0, time.monotonic() + _ASK_SITES_EVERY
        while True:
            note = read_note(self._kit)
            if (note and note.job == job) or status.startswith(_OVER):
                return read_note(self._kit), status
            now = time.monotonic()
            if now > next_status:
                status = self._ask(lambda: self._admin.status(job))
                next_status = now + _ASK_SERVER_EVERY
            if now > next_sites and status == "RUNNING":
                self._invite(job, names)
                next_sites = time.monotonic() + _ASK_SITES_EVERY
            self._check_server()
            self._tell_refusals()
            self._pause()

    def until_over(self, job: str) -> None:
        """Wait until NVFlare has ended a job; abort it after a time limit."""
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline:
            if self._ask(lambda: self._admin.status(job)).startswith(_OVER):
                return
            self._pause()
        self._ask(lambda: self._admin.abort(job))

    def _tell_refusals(self) -> None:
        """Report refused clients, each once; they try again and again."""
        for sentence in refusals(self._parent.news()):
            if sentence not in self._refused:
                self._refused.add(sentence)
                self._tell(sentence)

    def _invite(self, job: str, names: tuple[str, ...]) -> None:
        """Let the study pause if a connected organisation is not in its job."""
        file = rejoin_file(self._kit)
        if file.exists():
            return
        try:
            by_site = self._ask(self._admin.jobs_by_site)
        except ServerGoneError:
            # NVFlare asks the sites, and gives up if one of them is just leaving.
            self._check_server()
            return
        now = time.monotonic()
        if any(job in jobs for jobs in by_site.values()):
            self._occupied = now
        new = outsiders(job, names, by_site, now - self._occupied)
        if new:
            file.touch()
            self._tell(f"{', '.join(new)} can take part from the next round on.")

    def _ask(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except Exception as error:
            self._check_server()
            raise ServerGoneError(str(error)) from error

    def _pause(self) -> None:
        end_if_asked()
        self._parent.keep_log_small()
        self._expiry.look()
        time.sleep(_LOOK_EVERY)

    def _check_server(self) -> None:
        if not self._parent.is_running():
            raise ServerGoneError


def start_server(kit: ServerKit, study: str) -> Parent:
    """Start NVFlare's server and wait until it is up.

    Raises
    ------
    ServerGoneError
        If it does not start.
    """
    require_free(kit.owner.port)
    # NVFlare would restart the jobs of an earlier run; we submit our own.
    for leftover in ("jobs", "snapshots"):
        shutil.rmtree(kit.flare / leftover, ignore_errors=True)
    parent = Parent(kit, JobEnvironment(kit.folder, study=study))
    if wait_for("Server started", parent, _START_TIMEOUT):
        return parent
    printed = parent.printed()
    parent.stop()
    raise ServerGoneError(
        f"NVFlare's server does not start ({last_error(printed)}); see {parent.log}."
    )

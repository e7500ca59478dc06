"""What ``hyfdca client --kit KIT --data FILE`` does: keep an organisation connected."""

from __future__ import annotations

import time
from pathlib import Path

from hyfdca.flare.diagnosis import Trouble, client_is_up, client_trouble, last_error
from hyfdca.flare.lock import (
    end_if_asked,
    ended_in_order,
    holder_number,
    only_one,
)
from hyfdca.flare.log import Tell, written_down
from hyfdca.flare.notes import forget_note, over_file, read_note
from hyfdca.flare.processes import Parent
from hyfdca.flare.surroundings import STUDY, Surroundings
from hyfdca.kits.checking import check_certificate
from hyfdca.kits.kit import ClientKit, Owner, read_client_kit
from hyfdca.study_error import StudyError

_LOOK_EVERY = 0.2  # seconds
_RECENT = 20_000  # characters of output in which the last error is looked for
_GOODBYE = 0.5  # seconds in which the server gets the last answer
_EXPLAINING = 5.0  # seconds in which it asks, and hears, why we cannot take part
_ALONE = 10.0  # seconds without the server, after which who has the model may leave
_STARTS_AT_MOST, _START_PAUSE = 20, 2.0  # seconds between; in a row without success


def run_client(folder: Path, data: Path, tell: Tell, study: str = STUDY) -> None:
    """Take part in a study until it is over, or Ctrl-C.

    The processes come back if they are killed. ``tell`` gets a sentence now and then.

    Raises
    ------
    StudyError
        If this organisation cannot take part, or the server does not let it.
    """
    kit = read_client_kit(folder)
    check_certificate(kit)
    if not data.exists():
        raise StudyError(f"There is no file {data}; give this organisation's table.")
    kit.make_folders()
    with only_one(kit), ended_in_order(), written_down(kit, tell) as tell_all:
        told = Surroundings(kit.folder, data.resolve(), study, holder_number(kit))
        forget_note(kit)
        over_file(kit).unlink(missing_ok=True)
        _keep_running(kit, told, tell_all)


def _keep_running(kit: ClientKit, told: Surroundings, tell: Tell) -> None:
    visit = Visit(kit.owner, tell)
    while visit.may_start():
        parent = Parent(kit, told)
        try:
            if _stay(kit, parent, visit):
                return
        finally:
            parent.stop()
        visit.ended()
        time.sleep(_START_PAUSE)
    raise StudyError(f"NVFlare's client does not start; see {parent.log}.")


def _stay(kit: ClientKit, parent: Parent, visit: Visit) -> bool:
    """Watch over a client; return whether the study is over."""
    while parent.is_running():
        note = read_note(kit)
        if visit.is_alone(over_file(kit)) or (note and note.state == "finished"):
            visit.tell("The study is finished.")
            time.sleep(_GOODBYE)
            return True
        if note and note.state == "refused":
            time.sleep(_EXPLAINING)
            raise StudyError(note.reason)
        visit.look(parent.news())
        parent.keep_log_small()
        end_if_asked()
        time.sleep(_LOOK_EVERY)
    visit.look(parent.news())
    return False


class Visit:
    """How a client fares at the server, from what its processes print."""

    def __init__(self, owner: Owner, tell: Tell) -> None:
        self.tell = tell
        self._owner = owner
        self._said = ""
        self._failed_starts = 0
        self._recent = ""
        self._trouble: Trouble | None = None
        self._last_trouble = 0.0

    def is_alone(self, over: Path) -> bool:
        """Return whether there is no way to the server since we have the model.

        A client that finds its server again says nothing of it: so what counts is
        trouble that was printed well after the model came.
        """
        return over.exists() and self._last_trouble > over.stat().st_mtime + _ALONE

    def may_start(self) -> bool:
        """Return whether it is worth starting the process once more."""
        return self._failed_starts < _STARTS_AT_MOST

    def look(self, news: str) -> None:
        """Say what is new; raise if it cannot get better."""
        self._recent = (self._recent + news)[-_RECENT:]
        if client_is_up(news):
            self._failed_starts, self._trouble = 0, None
            self._say(f"{self._owner.name!r} is connected to {self._owner.address}.")
        elif trouble := client_trouble(news, self._owner):
            self._trouble, self._last_trouble = trouble, time.time()
            if not trouble.may_pass:
                raise StudyError(trouble.sentence)
            self._say(trouble.sentence)

    def ended(self) -> None:
        """Note that the process is gone; the server is waited for, however long."""
        if self._trouble is not None:
            return
        self._failed_starts += 1
        why = last_error(self._recent)
        self._say(f"NVFlare's client ended ({why}); starting it again.")

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self.tell(sentence)
        self._said = sentence

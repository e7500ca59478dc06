"""The command ``hyfdca client --kit KIT --data FILE``: keeps a client connected."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from hyfdca.errors import PassingError, StudyError
from hyfdca.flare.connection import WITH_MODEL, Connection, Leave
from hyfdca.flare.job_environment import STUDY, JobEnvironment
from hyfdca.flare.lock import (
    end_if_asked,
    ended_in_order,
    holder_number,
    only_one,
)
from hyfdca.flare.log import Tell, written_down
from hyfdca.flare.processes import Parent
from hyfdca.flare.status import forget_note, forget_status, read_note
from hyfdca.kits.checking import check_certificate
from hyfdca.kits.expiry import ExpiryWatch
from hyfdca.kits.kit import ClientKit, read_client_kit

_LOOK_EVERY = 0.2  # seconds
_GOODBYE = 0.5  # seconds for the server to receive the last reply
_EXPLAINING = 5.0  # seconds for the server to ask why we cannot take part
_START_PAUSE = 2.0  # seconds


def run_client(
    folder: Path,
    data: Path,
    tell: Tell,
    study: str = STUDY,
    prepare: Callable[[], None] = lambda: None,
    leave: Leave = WITH_MODEL,
) -> None:
    """Take part in a study until it is over or interrupted by Ctrl-C.

    Processes that are killed are restarted. ``tell`` receives occasional sentences;
    ``prepare`` is called once nobody else can be using the kit. ``leave`` determines
    when it may end without the server.

    Raises
    ------
    StudyError
        If this organisation cannot take part, or the server refuses it.
    """
    kit = read_client_kit(folder)
    check_certificate(kit)
    if not data.exists():
        raise StudyError(f"{data} does not exist; give this organisation's table.")
    kit.make_folders()
    with only_one(kit), ended_in_order(), written_down(kit, tell) as tell_all:
        environment = JobEnvironment(
            kit.folder, data.resolve(), study, holder_number(kit)
        )
        forget_note(kit)
        forget_status(kit.state)
        prepare()
        _keep_running(kit, environment, Connection(kit, kit.owner, tell_all, leave))


def _keep_running(
    kit: ClientKit, environment: JobEnvironment, visit: Connection
) -> None:
    expiry = ExpiryWatch(kit, visit.tell)
    while visit.may_start():
        parent = Parent(kit, environment)
        try:
            if _stay(kit, parent, visit, expiry):
                return
        finally:
            parent.stop()
        visit.ended()
        time.sleep(_START_PAUSE)
    raise PassingError(f"NVFlare's client does not start; see {parent.log}.")


def _stay(
    kit: ClientKit, parent: Parent, visit: Connection, expiry: ExpiryWatch
) -> bool:
    """Watch a client until it ends; return whether the study is over."""
    while parent.is_running():
        note = read_note(kit)
        if visit.is_alone() or (note and note.state == "finished"):
            visit.tell("The study is finished.")
            time.sleep(_GOODBYE)
            return True
        if note and note.state == "refused":
            time.sleep(_EXPLAINING)
            raise StudyError(note.reason)
        visit.look(parent.news())
        parent.keep_log_small()
        expiry.look()
        end_if_asked()
        time.sleep(_LOOK_EVERY)
    visit.look(parent.news())
    return False

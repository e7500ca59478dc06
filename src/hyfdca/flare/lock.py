"""Locks a kit for one command at a time, which Ctrl-C or SIGTERM ends cleanly."""

from __future__ import annotations

import re
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from hyfdca.files import locked
from hyfdca.kits.kit import Kit


def only_one(kit: Kit) -> AbstractContextManager[None]:
    """Lock a kit; the system releases the lock even if we are killed.

    Raises
    ------
    StudyError
        If another process holds it.
    """
    complaint = f"Another hyfdca is running with the kit {kit.folder}; end it first."
    return locked(kit.state / "lock", complaint)


def holder_number(kit: Kit) -> str:
    """Return the random number of the kit in its place; a copy has another.

    The kit's holder shows it to the server. This distinguishes a command that was
    killed and restarted from a second one with the same identity.
    """
    file, own = kit.state / "holder", kit.state.stat()
    place = f"{socket.gethostname()} {own.st_dev} {own.st_ino} {kit.state}"
    known, _, number = _text(file).partition("\n")
    if known != place or not _NUMBER.fullmatch(number):
        number = secrets.token_hex(16)
        file.write_text(f"{place}\n{number}", encoding="utf-8")
    return number


_NUMBER = re.compile("[0-9a-f]{32}")


def _text(file: Path) -> str:
    if not file.exists():
        return ""
    return file.read_text(encoding="utf-8", errors="replace")


_is_asked_to_end = threading.Event()


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let SIGTERM, as sent by a service manager, end us like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield  # other threads receive no signals
        return
    _is_asked_to_end.clear()
    kinds = (signal.SIGTERM, signal.SIGINT)
    before = {kind: signal.signal(kind, _interrupt) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _interrupt(*_: object) -> None:
    _is_asked_to_end.set()
    raise KeyboardInterrupt


def end_if_asked() -> None:
    """Interrupt again, since NVFlare catches all exceptions while it sends a job."""
    if _is_asked_to_end.is_set():
        raise KeyboardInterrupt

"""Small files in a kit's state that one process of a party leaves for another.

A damaged note is moved aside, with a warning, and counts as missing: every one of them
is written again, or can be rebuilt from what the party knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hyfdca.errors import reading
from hyfdca.files import OWNER_ONLY, write_whole

T = TypeVar("T")

ASIDE = ".damaged"  # ends the name of a note that was moved aside

_log = logging.getLogger("hyfdca")


class DamagedNoteError(Exception):
    """A note with content that we did not write."""


def write_note_file(path: Path, content: bytes, *, is_durable: bool = False) -> None:
    """Leave a note, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, content, OWNER_ONLY, is_durable=is_durable)


def read_note_file(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """Return what a note says; None if there is none, or it was damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        with reading(DamagedNoteError()):
            return parse(content)
    except DamagedNoteError:
        _move_aside(path)
        return None


def _move_aside(path: Path) -> None:
    aside = path.with_name(f"{path.name}{ASIDE}")
    path.replace(aside)
    _log.warning(f"The file {path} was damaged; it is now {aside.name}, and rebuilt.")

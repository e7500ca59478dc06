"""The one error that a user gets to see, where nothing heavy is imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class StudyError(ValueError):
    """A study that cannot be run; the message is one plain sentence."""


def as_study_error(make: Callable[[], T]) -> T:
    """Return what is made, its complaints as errors of the study."""
    try:
        return make()
    except ValueError as error:
        raise StudyError(str(error)) from None


_WORDS = {
    "Object contains unknown field": "unknown key",
    "Object missing required field": "missing key",
}


def plain_mistake(error: Exception) -> str:
    """Return what is wrong where, to follow on "has a mistake"."""
    # A key of the file may be quoted, and may be of several lines.
    message = " ".join(str(error).split())
    found = re.fullmatch(r"(.*?)(?: - at `\$?\.?(.*)`)?", message)
    what, where = found.groups() if found else (message, None)
    for theirs, ours in _WORDS.items():
        what = what.replace(theirs, ours)
    place = f" at {where}" if where else ""
    return f"{place}: {what[:1].lower()}{what[1:].rstrip('.')}"

"""Complaints of msgspec about a file, in plain words."""

from __future__ import annotations

import re

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

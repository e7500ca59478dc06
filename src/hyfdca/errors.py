"""The one error that users see, in a module that imports nothing heavy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


class StudyError(ValueError):
    """A study that cannot be run; the message is one plain sentence."""


class PassingError(StudyError):
    """A study that cannot be run now, but perhaps later without another command."""


def as_study_error(make: Callable[[], T]) -> T:
    """Return ``make()``; its ``ValueError`` becomes a ``StudyError``."""
    try:
        return make()
    except ValueError as error:
        raise StudyError(str(error)) from None


@contextmanager
def reading(complaint: Exception) -> Iterator[None]:
    """Turn any error from the parser of a local file into one complaint.

    On arbitrary bytes, parsers raise more than they document, such as
    RecursionError, MemoryError or SyntaxError. A ``StudyError``, which says more, and
    errors of the complaint's own kind pass unchanged.
    """
    try:
        yield
    except (StudyError, type(complaint)):
        raise
    except Exception:
        raise complaint from None


@contextmanager
def plain_errors(folder: Path) -> Iterator[None]:
    """Turn system errors about a folder into one sentence.

    Raises
    ------
    StudyError
    """
    try:
        yield
    except OSError as error:
        raise StudyError(system_sentence(error, str(folder))) from None


def system_sentence(error: OSError, place: str) -> str:
    """Describe a system error in one sentence.

    Parameters
    ----------
    place : str
        The place in use, if the error names no file.
    """
    why = error.strerror or " ".join(str(error).split()) or type(error).__name__
    return (
        f"Cannot use {error.filename or place} ({why}); check its permissions and the "
        "free space."
    )


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun, such as "1 row" and "1,200 rows".

    Parameters
    ----------
    many : str, optional
        The words for any count but 1, such as "rows have" for "row has".
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


_WORDS = {
    "Object contains unknown field": "unknown key",
    "Object missing required field": "missing key",
    "Invalid enum value": "unknown value",
    "Invalid RFC3339 encoded date": "expected a date such as 2024-12-31",
}

_TYPES = {  # as msgspec calls them
    "str": "text",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "date": "a date",
    "datetime": "a date with a time",
    "time": "a time",
    "null": "nothing",
}
_EXAMPLES = {"date": "a date such as 2024-12-31"}  # of what is expected
_EXPECTED = re.compile(
    r"Expected `([a-z |]+)`(?: of length)?(?: (>=|<=|>|<) ([0-9.e+-]+))?"
    r"(?:, got `([a-z]+)`)?"
)
_LIMITS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


def plain_mistake(error: Exception) -> str:
    """Return what is wrong and where, to follow "has a mistake"."""
    # The message may quote a key of the file, which may span several lines.
    message = " ".join(str(error).split())
    found = re.fullmatch(r"(.*?)(?: - at `\$?\.?(.*)`)?", message)
    what, where = found.groups() if found else (message, None)
    if expected := _EXPECTED.fullmatch(what):
        what = _expectation(*expected.groups(), has_length=" of length " in what)
    for theirs, ours in _WORDS.items():
        what = what.replace(theirs, ours)
    place = f" at {where}" if where else ""
    if not what[1:2].isupper():  # "JSON" stays as it is
        what = what[:1].lower() + what[1:]
    return f"{place}: {what.rstrip('.')}"


def _expectation(
    kinds: str,
    relation: str | None,
    limit: str | None,
    got: str | None,
    *,
    has_length: bool,
) -> str:
    """Return what msgspec expected, in words for the author of the file."""
    expected = [kind for kind in kinds.split(" | ") if kind != "null"] or ["null"]
    if "float" in expected and "int" in expected:
        expected.remove("int")
    words = _TYPES | _EXAMPLES
    what = f"expected {' or '.join(words.get(kind, kind) for kind in expected)}"
    if relation and limit:
        noun = "character" if expected == ["str"] else "entry"
        many = "characters" if expected == ["str"] else "entries"
        unit = f" {noun if limit == '1' else many}" if has_length else ""
        what += f" {_LIMITS[relation]} {limit}{unit}"
    if got is None:
        return what
    # A whole number may have been expected.
    found = "a number with a decimal point" if got == "float" else _TYPES.get(got, got)
    return f"{what}, got {found}"

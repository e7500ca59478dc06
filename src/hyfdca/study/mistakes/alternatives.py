"""Alternatives to a mistake in a study file, from the file's own structures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from msgspec import inspect

_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(.*?)`", re.DOTALL)
_WRONG_VALUE = re.compile(r"Invalid (?:enum )?value ")
_PLACE = re.compile(r" - at `\$(.*)`\Z", re.DOTALL)
_PART = re.compile(r"\[[^\]]*\]|[^.\[\]]+")  # "[3]", or a key


def alternatives(error: Exception, kind: type) -> str:
    """Return what may be written instead, to follow a mistake; "" if undetermined.

    Parameters
    ----------
    error : Exception
        The error of msgspec about a value that should have been a ``kind``.
    """
    message = str(error)
    place = _PLACE.search(message)
    parts = _PART.findall(place[1]) if place else []
    if unknown := _UNKNOWN_KEY.match(message):
        keys = sorted({key for own in _at(kind, parts) for key in _keys(own)})
        return _keys_instead(unknown[1], keys)
    if _WRONG_VALUE.match(message):
        values = [value for own in _at(kind, parts) for value in _values(own)]
        # The key that selects the structure has no entry.
        owners = _at(kind, parts[:-1])
        tags = [f'"{own.tag}"' for own in owners if _is_tag(own, parts[-1:])]
        return f" (choose {' or '.join([*values, *tags])})" if values or tags else ""
    return ""


def _at(kind: type, parts: Iterable[str]) -> list[Any]:
    """Return the possible types at a place, given by keys and "[3]"."""
    found = [inspect.type_info(kind)]
    for part in parts:
        found = [inner for own in found for inner in _inside(own, part)]
    return [inner for own in found for inner in _plain(own)]


def _inside(kind: Any, part: str) -> Iterator[Any]:
    for own in _plain(kind):
        if isinstance(own, inspect.StructType):
            yield from (f.type for f in own.fields if f.encode_name == part)
        elif isinstance(own, inspect.ListType) and part.startswith("["):
            yield own.item_type


def _plain(kind: Any) -> Iterator[Any]:
    """Yield the alternatives of a type."""
    if isinstance(kind, inspect.UnionType):
        for own in kind.types:
            yield from _plain(own)
    else:
        yield kind


def _keys(kind: Any) -> Iterator[str]:
    if isinstance(kind, inspect.StructType):
        yield from (own.encode_name for own in kind.fields)


def _values(kind: Any) -> Iterator[str]:
    """Yield the values of a choice, as they are written in the file."""
    if isinstance(kind, inspect.LiteralType):
        yield from (f'"{v}"' if isinstance(v, str) else str(v) for v in kind.values)
    elif isinstance(kind, inspect.IntType | inspect.FloatType):
        yield "a number"


def _is_tag(kind: Any, last: list[str]) -> bool:
    return isinstance(kind, inspect.StructType) and [kind.tag_field] == last


def _keys_instead(unknown: str, keys: list[str]) -> str:
    if close := get_close_matches(unknown, keys, n=2):
        return f" (did you mean {' or '.join(close)}?)"
    return f" (the keys are {', '.join(keys)})" if keys else ""

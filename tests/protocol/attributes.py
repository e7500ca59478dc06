"""What changes in the objects of a run, and whether anybody says so."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
from hyfdca.protocol.checkpoint_values import _forms

from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.protocol.checkpoint import is_kept, kept_names, passing_names

_PLAIN = (bool, int, float, str, bytes, type(None))


class Seen(NamedTuple):
    """An object, its attributes as they were, and whether a state has it in it."""

    thing: Any
    contents: dict[str, Any]
    is_saved: bool


def snapshot(*roots: Any) -> dict[int, Seen]:
    """Return all objects of ours that can be reached from some."""
    saved = {id(part) for root in roots for part in _saved_parts(root)}
    seen: dict[int, Seen] = {}
    waiting = list(roots)
    while waiting:
        thing = waiting.pop()
        if id(thing) not in seen:
            contents = {
                name: _content(value, waiting) for name, value in vars(thing).items()
            }
            seen[id(thing)] = Seen(thing, contents, id(thing) in saved)
    return seen


def forgotten(before: dict[int, Seen], after: dict[int, Seen]) -> set[str]:
    """Return the attributes that changed though no class says that they do."""
    return {
        f"{type(now.thing).__name__}.{name}"
        for key, now in after.items()
        if key in before and before[key].thing is now.thing
        for name in _changed(before[key], now)
    }


def _changed(old: Seen, new: Seen) -> Iterator[str]:
    kind = type(new.thing)
    known = {*passing_names(kind), *(kept_names(kind) if new.is_saved else ())}
    for name in old.contents.keys() | new.contents.keys():
        is_made = isinstance(getattr(kind, name, None), cached_property)
        if name in known or (is_made and name not in old.contents):
            continue
        if old.contents.get(name) != new.contents.get(name):
            yield name


def _saved_parts(thing: Any) -> Iterator[Any]:
    """Return an object and all its parts, as they are saved."""
    yield thing
    for name in kept_names(type(thing)):
        value = getattr(thing, name, None)
        for part in value if isinstance(value, list) else [value]:
            if is_kept(part):
                yield from _saved_parts(part)


def _content(value: Any, found: list[Any]) -> Any:
    """Return what can be compared later; notes the objects of ours that are inside."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, np.ndarray):
        is_bytes = value.dtype != object
        return value.shape, value.tobytes() if is_bytes else repr(value.tolist())
    if isinstance(value, tuple):  # named ones, too
        return [_content(part, found) for part in value]
    if type(value) in _forms:
        parts = _forms[type(value)].take_apart(value)
        return [_content(part, found) for part in parts]
    if isinstance(value, MethodType):
        return value.__func__, _content(value.__self__, found)
    if _is_ours(value):
        found.append(value)
    return id(value)


def _is_ours(value: Any) -> bool:
    """Whether to look into an object; what seals is made anew and never saved."""
    is_sealing = isinstance(value, Sealers) or hasattr(value, "seal")
    is_class_of_ours = type(value).__module__.startswith(("hyfdca.", "tests."))
    return is_class_of_ours and hasattr(value, "__dict__") and not is_sealing

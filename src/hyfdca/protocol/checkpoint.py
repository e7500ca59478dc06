"""The state of an object as bytes, and back into an object that was set up alike.

A class says by name which of its attributes change during rounds. What only settings
and set-up determine is not part of a state: whoever restores an object makes it of the
same settings and runs the same set-up, and may do so long before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeGuard

import msgspec
import xxhash

from hyfdca.protocol.checkpoint_values import Reader, Writer

_FORMAT = b"hyfdca state 1\n"
_DIGEST_BYTES = 16
_START = len(_FORMAT) + _DIGEST_BYTES  # of the body

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


class Kept(Protocol):
    """An object with a state; classes say that they are by inheriting from this.

    An attribute that changes during rounds is in one of two lists, of which a class
    has those of its parents too. Each part, an object in ``kept`` that is kept itself
    or a list of such, is restored in place and belongs to one object alone.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    # What follows from the rest, or is of no use to whoever starts again.
    passing: ClassVar[tuple[str, ...]] = ()

    def put_back(self, values: Mapping[str, Any]) -> None:
        """Take the attributes of a state; more is done by those who have caches."""
        for name, value in values.items():
            setattr(self, name, value)

    def new_part(self, name: str) -> Kept:
        """Return an object for a part that this object lacks now and a state has."""
        raise ValueError(f"The state has a part {name!r} that is not there.")


def is_kept(value: Any) -> TypeGuard[Kept]:
    """Return whether a value is an object with a state of its own."""
    return Kept in type(value).__mro__


def kept_names(kind: type) -> list[str]:
    """Return the attributes that a class and its parents keep."""
    return _joined(kind, "kept")


def passing_names(kind: type) -> list[str]:
    """Return the attributes that change and that a class and its parents do not keep.

    Other classes may have such a list too: those that have caches and no state.
    """
    return _joined(kind, "passing")


def _joined(kind: type, listed: str) -> list[str]:
    lists = [vars(parent).get(listed, ()) for parent in reversed(kind.__mro__)]
    return list(dict.fromkeys(name for names in lists for name in names))


def save(thing: Kept) -> bytes:
    """Return the state of an object."""
    body = _encoder.encode(_Saver().part(thing))
    return _FORMAT + _digest(body) + body


def load(thing: Kept, content: bytes | bytearray | memoryview) -> None:
    """Put a state back into an object made of the same settings and set up alike.

    The object may have been used since; all that is in the state is overwritten.

    Raises
    ------
    ValueError
        If the bytes are damaged, or the state of something else. Nothing changed.
    """
    plan: list[tuple[Kept, dict[str, Any]]] = []
    _match(thing, _read(memoryview(content)), plan)
    for part, values in plan:
        part.put_back(values)


def _digest(body: bytes | memoryview) -> bytes:
    return xxhash.xxh3_128_digest(body)


class _Saver:
    """Writes an object and its parts."""

    def __init__(self) -> None:
        self._writer = Writer()
        self._parts: set[int] = set()

    def part(self, thing: Kept) -> list[Any]:
        if id(thing) in self._parts:
            name = type(thing).__name__
            raise TypeError(f"a {name} is a part of two objects and has no state")
        self._parts.add(id(thing))
        members = {name: self._member(getattr(thing, name)) for name in _there(thing)}
        return ["part", type(thing).__name__, members]

    def _member(self, value: Any) -> Any:
        if is_kept(value):
            return self.part(value)
        if _is_parts(value):
            return ["parts", *map(self.part, value)]
        return self._writer.node(value)


def _there(thing: Kept) -> list[str]:
    """Return what an object keeps: some have attributes only if they have labels."""
    return [name for name in kept_names(type(thing)) if hasattr(thing, name)]


def _is_parts(value: Any) -> bool:
    return type(value) is list and any(map(is_kept, value))


class _Found(NamedTuple):
    """An object as a state has it."""

    name: str
    values: dict[str, Any]  # in which parts are as found, too


class _Several(NamedTuple):
    """A list of objects as a state has it."""

    parts: list[_Found]


def _read(content: memoryview) -> _Found:
    body = content[_START:]
    if content[: len(_FORMAT)] != _FORMAT:
        raise ValueError("These bytes are not a state of this version.")
    if content[len(_FORMAT) : _START] != _digest(body):
        raise ValueError("The state is damaged or not complete.")
    try:
        return _found(_decoder.decode(body), Reader())
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
        msgspec.DecodeError,
    ) as error:
        raise ValueError(f"The state does not read: {error}.") from error


def _found(node: Any, reader: Reader) -> _Found:
    tag, name, members = node
    if tag != "part":
        raise ValueError("a part begins otherwise")
    return _Found(name, {key: _member(of, reader) for key, of in members.items()})


def _member(node: Any, reader: Reader) -> Any:
    tag = node[0] if type(node) is list else None
    if tag == "part":
        return _found(node, reader)
    if tag == "parts":
        return _Several([_found(part, reader) for part in node[1:]])
    return reader.value(node)


def _match(thing: Kept, found: _Found, plan: list[tuple[Kept, dict[str, Any]]]) -> None:
    """Plan what each object takes, parts first; nothing is changed yet."""
    own = type(thing).__name__
    if found.name != own:
        raise ValueError(f"The state is that of a {found.name}, not of a {own}.")
    if list(found.values) != _there(thing):
        raise ValueError(f"The state of this {own} has other attributes.")
    values = {
        name: _matched(thing, name, value, plan) for name, value in found.values.items()
    }
    plan.append((thing, values))


def _matched(
    thing: Kept, name: str, value: Any, plan: list[tuple[Kept, dict[str, Any]]]
) -> Any:
    """Return what an attribute is to be: a value, or the object that is restored."""
    present = getattr(thing, name)
    if isinstance(value, _Found):
        part = present if is_kept(present) else thing.new_part(name)
        _match(part, value, plan)
        return part
    if isinstance(value, _Several):
        if not _is_parts(present) or len(present) != len(value.parts):
            raise ValueError(f"The state has not as many {name} as there are.")
        for part, found in zip(present, value.parts, strict=True):
            _match(part, found, plan)
        return present
    return value

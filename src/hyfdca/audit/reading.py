"""From recorded bytes to messages, and to the values in their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from hyfdca.audit.fields import fields_of, phases_named, value_of
from hyfdca.audit.values import VALUES
from hyfdca.audit.views import Record
from hyfdca.protocol.codec import TOKEN_BYTES, RemoteProtocolError, decode, unframe
from hyfdca.protocol.messages import Message, Sealed
from hyfdca.protocol.phases import Phase


class UnknownError(ValueError):
    """A message that is in no table; the message is one plain sentence."""


@dataclass(frozen=True)
class Heard:
    """A message as one side heard or said it."""

    phase: str
    client: int
    direction: Literal["down", "up"]
    conversation: bytes  # the token: scaling and training are two
    message: Message
    entry: Phase  # what the table of phases says of it


class Sight(NamedTuple):
    """A value in a message: sealed vectors, or the bytes of what travels as it is."""

    value: str
    sealed: list[Sealed]
    n_bytes: int


def heard(record: Record) -> Heard:
    """Return the message of a record; raises ``UnknownError`` if it is none we know."""
    direction: Literal["down", "up"] = "down" if record.direction == "down" else "up"
    entries = phases_named(record.phase)
    if not entries:
        raise UnknownError(f"The phase {record.phase!r} is in no table of phases.")
    token = record.payload[:TOKEN_BYTES]
    for entry in entries:
        for kind in (entry.request,) if direction == "down" else entry.reply:
            try:
                message = decode(unframe(record.payload, token)[1], kind)
            except RemoteProtocolError:
                continue
            return Heard(record.phase, record.client, direction, token, message, entry)
    raise UnknownError(
        f"A message {direction} in phase {record.phase!r} is none that this phase has."
    )


def sights(said: Heard) -> Iterator[Sight]:
    """Return the values in a message, by field."""
    for name, value in fields_of(type(said.message)).items():
        content = getattr(said.message, name)
        if content is not None:
            yield _sight(value_of(value, said.entry), content)


def _sight(value: str, content: Any) -> Sight:
    if VALUES[value].vector in (None, "envelope"):
        return Sight(value, [], len(msgspec.msgpack.encode(content)))
    vectors = list(_vectors([content]))
    return Sight(value, vectors, sum(len(vector.payload) for vector in vectors))


def _vectors(content: Iterable[Any]) -> Iterator[Sealed]:
    """Return the sealed vectors in a field, in lists or lists of lists or alone."""
    for one in content:
        if isinstance(one, Sealed):
            yield one
        else:
            yield from _vectors(one)

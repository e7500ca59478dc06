"""Decodes recorded bytes into messages and the values in their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from hyfdca.audit.fields import phases_named, value_of
from hyfdca.audit.values import SEALED_BYTES, VALUES
from hyfdca.audit.views import Record
from hyfdca.protocol.client_session import TOKEN_BYTES, decode, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message, Sealed, SealedTotals, seen_fields
from hyfdca.protocol.phases import Phase


class UnknownError(ValueError):
    """A recorded message that no table lists; the error is one plain sentence."""


@dataclass(frozen=True)
class Heard:
    """A message as one side received or sent it."""

    phase: str
    client: int
    direction: Literal["down", "up"]
    conversation: bytes  # the token: scaling and training are two
    message: Message
    entry: Phase  # its entry in the table of phases


class Sight(NamedTuple):
    """A value in a message: its sealed vectors, or the size of its plain content."""

    value: str
    sealed: list[Sealed]
    n_bytes: int


def heard(record: Record) -> Heard:
    """Return the message of a record; raise ``UnknownError`` if it is unknown."""
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
        f"A message {direction} in phase {record.phase!r} is not one of this phase."
    )


def sights(said: Heard) -> Iterator[Sight]:
    """Return the values in a message, by field."""
    for name, value in seen_fields(type(said.message)).items():
        content = getattr(said.message, name)
        if content is not None:
            yield _sight(value_of(value, said.entry), content)


def _sight(value: str, content: Any) -> Sight:
    if VALUES[value].vector in (None, *SEALED_BYTES):
        return Sight(value, [], len(msgspec.msgpack.encode(content)))
    vectors = list(_vectors([content]))
    return Sight(value, vectors, sum(len(vector.payload) for vector in vectors))


def _vectors(content: Iterable[Any]) -> Iterator[Sealed]:
    """Return the sealed vectors in a field, alone or in lists of any depth."""
    for one in content:
        if isinstance(one, Sealed):
            yield one
            if isinstance(one, SealedTotals) and one.tags is not None:
                yield Sealed(0, one.tags)
        else:
            yield from _vectors(one)


def messages(records: Iterator[Record], unknown: dict[str, None]) -> Iterator[Heard]:
    """Return the messages of a view; add a sentence to ``unknown`` for others."""
    for record in records:
        if record.direction not in ("down", "up"):
            continue
        try:
            yield heard(record)
        except UnknownError as error:
            unknown[str(error)] = None

"""What is on the wire: the phase of each message, and which of its values were changed.

A server's session notes the phase of each request that it frames, so that a case knows
the types of a request and its reply without knowing the stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec

from hyfdca.audit.fields import value_of
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message, seen_fields
from hyfdca.protocol.phases import Phase
from hyfdca.protocol.server_session import ServerSession
from tests.fuzz.mutations import changed_message

_TOKEN = 8  # bytes of a message that say which study it is of
_NUMBERED = 16  # bytes that also say which request

Payload = bytes | bytearray


def changed_frame(payload: Payload, random: Random) -> bytearray:
    """Return a framed message with its body changed and its digest right."""
    token = bytes(payload[:_TOKEN])
    number, body = unframe(payload, token)
    return frame(token, number, msgspec.Raw(changed_message(bytes(body), random)))  # type: ignore[arg-type]


class Phasebook:
    """The phases of all requests since a conversation began."""

    def __init__(self) -> None:
        self._phases: dict[tuple[str, bytes], Phase] = {}

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note the phases of all requests that are framed in this context."""
        original = ServerSession._framed
        phases = self._phases

        def framed(
            session: ServerSession, phase: str, requests: Mapping[int, Message]
        ) -> tuple[Phase, int, dict[int, bytearray]]:
            entry, number, payloads = original(session, phase, requests)
            for payload in payloads.values():
                phases[phase, bytes(payload[:_NUMBERED])] = entry
            return entry, number, payloads

        ServerSession._framed = framed  # type: ignore[method-assign]
        try:
            yield
        finally:
            ServerSession._framed = original  # type: ignore[method-assign]

    def phase_of(self, name: str, payload: Payload) -> Phase | None:
        """Return the phase of a request or of its reply."""
        return self._phases.get((name, bytes(payload[:_NUMBERED])))


def decoded(payload: Payload, kind: Any) -> Message | None:
    """Return the message in a frame; None if it does not decode as this kind."""
    try:
        message: Message = decode(unframe(payload, bytes(payload[:_TOKEN]))[1], kind)
    except RemoteProtocolError:
        return None
    return message


def changed_values(phase: Phase, before: Message, after: Message) -> set[str]:
    """Return the values of the fields in which two messages of a phase differ."""
    if type(before) is not type(after):
        return {f"{type(after).__name__} instead of {type(before).__name__}"}
    encode = msgspec.msgpack.encode
    return {
        value_of(value, phase)
        for name, value in seen_fields(type(before)).items()
        if encode(getattr(before, name)) != encode(getattr(after, name))
    }

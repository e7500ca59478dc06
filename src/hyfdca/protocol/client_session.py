"""The client's side of a conversation: bytes come in, are checked and answered.

Theory of operation. A message on the wire is a header (the study's token, the number, a
digest) and msgpack. What comes off the wire is hostile until it has passed through
here. Requests are numbered over the whole study, so that a client can tell a retry
(same number: it answers with the same bytes) from a replay (lower number), and are
answered in the order that the table of phases allows. The server frames its messages
and reads its replies with the same functions (``server_session.py``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import xxhash

from hyfdca.errors import StudyError
from hyfdca.protocol.codec import DamagedError, RemoteProtocolError
from hyfdca.protocol.messages import Message, Profile
from hyfdca.protocol.phases import (
    START,
    Phases,
    Rule,
    differ_in_grids_only,
    rules_of,
)

_HEADER = struct.Struct("<8sQ")  # study token, number of the request
TOKEN_BYTES = 8
_DIGEST_BYTES = 16
_START = _HEADER.size + _DIGEST_BYTES  # of the body

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}

T = TypeVar("T")


# Bytes


def frame(token: bytes, number: int, message: Message) -> bytearray:
    """Return the bytes of a message of a study."""
    buffer = bytearray(_START)
    _HEADER.pack_into(buffer, 0, token, number)
    _encoder.encode_into(message, buffer, _START)
    buffer[_HEADER.size : _START] = _digest(buffer)
    return buffer


def unframe(payload: bytes | bytearray, token: bytes) -> tuple[int, memoryview]:
    """Return the number and the body of a framed message of this study."""
    if len(payload) < _START:
        raise DamagedError("the message is shorter than its header")
    sent_token, number = _HEADER.unpack_from(payload)
    if payload[_HEADER.size : _START] != _digest(payload):
        raise DamagedError("the message was damaged on its way")
    if sent_token != token:
        raise RemoteProtocolError("the message belongs to another study")
    return number, memoryview(payload)[_START:]


def _digest(payload: bytes | bytearray) -> bytes:
    """Return a digest that detects accidents; the channel keeps attackers out."""
    view = memoryview(payload)
    digest = xxhash.xxh3_128(view[: _HEADER.size])
    digest.update(view[_START:])
    return digest.digest()


def decode(body: memoryview, kind: type[T]) -> T:
    """Return the message of that kind, or raise ``RemoteProtocolError``."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        message: T = decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"the message does not decode: {error}") from None
    return message


def read_reply(
    payload: bytes | bytearray, token: bytes, number: int, kind: type[T]
) -> T:
    """Return the reply to a request, or raise ``RemoteProtocolError``."""
    answered, body = unframe(payload, token)
    if answered != number:
        raise RemoteProtocolError(f"it answers request {answered}, not {number}")
    return decode(body, kind)


# The session

Handlers = Mapping[str, Callable[[Any], Message | None]]
Listener = Callable[[int, str, Message], None]  # number, phase, request


class ClientSession:
    """Answers requests in the order that the table of phases allows.

    Phases are looked up in tables, never by attribute. A request that is repeated gets
    the same bytes again.

    Parameters
    ----------
    phases : Phases
        What the stage exchanges, and in which order.
    handlers : mapping of str to callable
        What this client does in each phase; a subset of the phases.
    after : int
        Requests up to this number belong to an earlier session and are refused.
    listener : callable, optional
        Hears every request that is in order, before it is answered.
    profile : {"open", "sealed"}, optional
        The profile of the client's own study file; None for stages without one.
    """

    def __init__(
        self,
        token: bytes,
        phases: Phases,
        handlers: Handlers,
        after: int = 0,
        listener: Listener | None = None,
        profile: Profile | None = None,
    ) -> None:
        self._token, self._listener = token, listener
        self.take(phases, handlers, profile)
        self.last_number, self.last_phase = after, START
        self._last_reply: bytearray = bytearray()
        self._last_request: Message | None = None  # of a phase that is single

    def take(self, phases: Phases, handlers: Handlers, profile: Profile | None) -> None:
        """Answer these phases from now on."""
        self.phases, self.handlers, self.profile = phases, handlers, profile
        self._rules = rules_of(phases, profile)

    def resume(self, number: int, phase: str) -> None:
        """Continue after a phase that was answered before a restart."""
        self.last_number, self.last_phase = number, phase
        self._last_reply, self._last_request = bytearray(), None

    def handle(self, phase: str, payload: bytes | bytearray) -> bytearray:
        """Answer one request; a notice is answered with an empty message.

        Raises
        ------
        RemoteProtocolError
            If the request cannot be answered now. In that case, nothing has changed.
        """
        number, body = unframe(payload, self._token)
        is_retry = number == self.last_number and phase == self.last_phase
        if is_retry and self._last_reply:
            return self._last_reply
        if number <= self.last_number:
            raise RemoteProtocolError(f"request {number} was answered long ago")
        rule = self._rules.get(phase) if phase in self.handlers else None
        after = None if rule is None else rule.after
        if rule is None or (after is not None and self.last_phase not in after):
            raise self._out_of_place(phase)
        request = decode(body, rule.phase.request)
        is_again = rule.phase.is_single and phase == self.last_phase
        if is_again or rule.is_foreign or rule.foreign_fields:
            self._check_asked(phase, rule, request)
        if self._listener is not None:
            self._listener(number, phase, request)
        try:
            reply = self.handlers[phase](request) or Message()
        except StudyError:
            raise  # about the client's own files, so not the server's fault
        except (ValueError, ArithmeticError) as error:
            # Numbers that cannot be computed with are the server's fault.
            raise RemoteProtocolError(f"phase {phase!r} failed: {error}") from error
        self._last_reply = frame(self._token, number, reply)
        self.last_number, self.last_phase = number, phase
        self._last_request = request if rule.phase.is_single else None
        return self._last_reply

    def _out_of_place(self, phase: str) -> RemoteProtocolError:
        """Return why a phase cannot come now."""
        if phase not in self._rules or phase not in self.handlers:
            return RemoteProtocolError(f"there is no phase {phase!r}")
        before = f"after {self.last_phase!r}" if self.last_phase else "first"
        return RemoteProtocolError(f"phase {phase!r} is out of order: came {before}")

    def _check_asked(self, phase: str, rule: Rule, request: Message) -> None:
        """Refuse what no server of this profile asks, even if the order allows it."""
        foreign = "it" if rule.is_foreign else ""
        for name in () if foreign else rule.foreign_fields:
            if getattr(request, name) is not None:
                foreign = f"its field {name!r}"
                break
        if foreign:
            raise RemoteProtocolError(
                f"phase {phase!r} is refused: {foreign} does not belong to the "
                f"{self.profile} profile, which the study has"
            )
        last = self._last_request
        if phase != self.last_phase or last is None:
            return
        if not differ_in_grids_only(last, request):
            raise RemoteProtocolError(
                f"phase {phase!r} was answered in this round; it is answered again "
                "only with other grids"
            )

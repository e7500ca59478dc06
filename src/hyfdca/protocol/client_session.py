"""A client's side of the conversation: pure request and reply, safe to retry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hyfdca.protocol.codec import RemoteProtocolError, decode, frame, unframe
from hyfdca.protocol.messages import Message


class Phase(NamedTuple):
    """What a client does in a phase: the request it takes and the function it calls."""

    request: type[Any]
    handle: Callable[[Any], Message | None]


class ClientSession:
    """Looks a phase up in a table, never by attribute; repeats the last reply bytes.

    Parameters
    ----------
    after : int
        Requests up to this number were for somebody before.
    """

    def __init__(
        self, token: bytes, phases: Mapping[str, Phase], after: int = 0
    ) -> None:
        self._token = token
        self._phases = phases
        self.last_number = after
        self._last_phase = ""
        self._last_reply: bytearray = bytearray()

    def handle(self, phase: str, payload: bytes | bytearray) -> bytearray:
        """Answer one request; a notice is answered with an empty message.

        Raises
        ------
        RemoteProtocolError
            If the request is not one this client can be asked now. Nothing changed.
        """
        number, body = unframe(payload, self._token)
        is_retry = number == self.last_number and phase == self._last_phase
        if is_retry and self._last_reply:
            return self._last_reply
        if number <= self.last_number:
            raise RemoteProtocolError(f"request {number} was answered long ago")
        if phase not in self._phases:
            raise RemoteProtocolError(f"there is no phase {phase!r}")
        entry = self._phases[phase]
        reply = _answered(phase, entry, decode(body, entry.request))
        self._last_reply = frame(self._token, number, reply)
        self.last_number, self._last_phase = number, phase
        return self._last_reply


def _answered(phase: str, entry: Phase, request: Any) -> Message:
    """Have a request answered; numbers that lead nowhere are the server's fault."""
    try:
        return entry.handle(request) or Message()
    except (ValueError, ArithmeticError) as error:
        raise RemoteProtocolError(f"phase {phase!r} cannot go on: {error}") from error

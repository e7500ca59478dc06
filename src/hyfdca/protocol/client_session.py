"""A client's side of a conversation: pure request and reply, safe to retry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hyfdca.protocol.codec import RemoteProtocolError, decode, frame, unframe
from hyfdca.protocol.messages import Message
from hyfdca.protocol.phases import START, Phases

Handlers = Mapping[str, Callable[[Any], Message | None]]


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
    """

    def __init__(
        self, token: bytes, phases: Phases, handlers: Handlers, after: int = 0
    ) -> None:
        self._token, self.phases, self.handlers = token, phases, handlers
        self.last_number, self.last_phase = after, START
        self._last_reply: bytearray = bytearray()

    def resume(self, number: int, phase: str) -> None:
        """Continue after a phase that was answered before a restart."""
        self.last_number, self.last_phase = number, phase
        self._last_reply = bytearray()

    def handle(self, phase: str, payload: bytes | bytearray) -> bytearray:
        """Answer one request; a notice is answered with an empty message.

        Raises
        ------
        RemoteProtocolError
            If the request cannot be answered now. Nothing has changed then.
        """
        number, body = unframe(payload, self._token)
        is_retry = number == self.last_number and phase == self.last_phase
        if is_retry and self._last_reply:
            return self._last_reply
        if number <= self.last_number:
            raise RemoteProtocolError(f"request {number} was answered long ago")
        if phase not in self.phases or phase not in self.handlers:
            raise RemoteProtocolError(f"there is no phase {phase!r}")
        after = self.phases[phase].after
        if after is not None and self.last_phase not in after:
            before = f"after {self.last_phase!r}" if self.last_phase else "first"
            raise RemoteProtocolError(f"phase {phase!r} is out of order: came {before}")
        request = decode(body, self.phases[phase].request)
        try:
            reply = self.handlers[phase](request) or Message()
        except (ValueError, ArithmeticError) as error:
            # Numbers that cannot be computed with are the server's fault.
            raise RemoteProtocolError(
                f"phase {phase!r} cannot go on: {error}"
            ) from error
        self._last_reply = frame(self._token, number, reply)
        self.last_number, self.last_phase = number, phase
        return self._last_reply

"""The server's side of the conversation: numbered requests to named clients.

Theory of operation. The server's work is written as generators: they yield an ``Ask``
and are sent the ``Replies``. A driver carries the bytes; the core has no clock, thread
or socket. Requests are numbered over the whole study, so that a client can tell a
retry (same number: it answers with the same bytes) from a replay (lower number).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from hyfdca.protocol.checkpoint import Kept
from hyfdca.protocol.codec import (
    LocalProtocolError,
    RemoteProtocolError,
    decode,
    frame,
    is_intact,
    unframe,
)
from hyfdca.protocol.messages import Message


@dataclass(frozen=True)
class Ask:
    """Requests of one phase, one a client; ``wants_reply`` is false for notices."""

    phase: str
    payloads: Mapping[int, bytes | bytearray]
    wants_reply: bool = True


@dataclass(frozen=True)
class Replies:
    """What came back: bytes of those who answered, a reason for those who did not."""

    ok: Mapping[int, bytes | bytearray]
    failed: Mapping[int, str] = field(default_factory=dict)


# What a conversation yields when it cannot go on without clients that are absent.
PAUSE = Ask("pause", {})

_MORE_TRIES = 3  # where a reply was damaged

T = TypeVar("T")
Conversation = Generator[Ask, Replies, T]


def until_pause(conversation: Conversation[None]) -> Conversation[bool]:
    """Carry a conversation on with those present; return whether it came to its end."""
    try:
        ask = next(conversation)
        while ask is not PAUSE:
            ask = conversation.send((yield ask))
    except StopIteration:
        return True
    return False


class ClientsFailedError(Exception):
    """Clients that a phase cannot do without did not answer, or not as they must.

    Parameters
    ----------
    reasons : mapping of int to str
        Why, by client; each is half a sentence.
    """

    def __init__(self, phase: str, reasons: Mapping[int, str]) -> None:
        self.phase, self.reasons = phase, dict(reasons)
        each = "; ".join(f"client {c}: {why}" for c, why in self.reasons.items())
        super().__init__(f"Phase {phase!r} is missing answers: {each}")


class BadReplyError(RemoteProtocolError):
    """A client's answer is none; it says which client's."""

    def __init__(self, phase: str, client: int, reason: str) -> None:
        self.phase, self.reasons = phase, {client: reason}
        super().__init__(f"answer of client {client} to {phase!r}: {reason}")


class ServerSession(Kept):
    """Frames requests, checks replies.

    ``present`` are the clients that can be asked now; none stands for everybody.
    A conversation that needs others too yields ``PAUSE``, and goes on with whoever is
    present when it is resumed.

    Parameters
    ----------
    after : int
        Requests are numbered from the next number on.
    """

    kept: ClassVar[tuple[str, ...]] = ("number",)
    passing: ClassVar[tuple[str, ...]] = ("present",)

    def __init__(self, token: bytes, after: int = 0) -> None:
        self._token = token
        self.number = after  # of the last request
        self.present: Set[int] | None = None

    def put_back(self, values: Mapping[str, Any]) -> None:
        """Take a state, but no lower number: clients may have answered higher ones."""
        self.number = max(self.number, values["number"])
        self.present = None

    @contextmanager
    def among(self, clients: Iterable[int]) -> Iterator[None]:
        """Ask only these for a while."""
        self.present = frozenset(clients)
        try:
            yield
        finally:
            self.present = None

    def ask(
        self, phase: str, requests: Mapping[int, Message], kind: type[T]
    ) -> Conversation[dict[int, T]]:
        """Send requests and return the decoded replies, by client in rank order."""
        waiting = dict(requests)
        replies: dict[int, T] = {}
        while waiting:
            now = self._now(waiting)
            if now:
                replies.update((yield from self._ask(phase, now, kind)))
            if waiting:
                yield PAUSE
        return {client: replies[client] for client in sorted(replies)}

    def _now(self, waiting: dict[int, Message]) -> dict[int, Message]:
        """Take the requests to those who are present out of all that are waiting."""
        here = [c for c in waiting if self.present is None or c in self.present]
        return {client: waiting.pop(client) for client in here}

    def _ask(
        self, phase: str, requests: Mapping[int, Message], kind: type[T]
    ) -> Conversation[dict[int, T]]:
        number = self._next_number()
        replies = yield from self._intact(phase, number, requests)
        _check_complete(phase, requests, replies)
        return {
            client: self._checked(phase, client, number, replies.ok[client], kind)
            for client in sorted(replies.ok)
        }

    def try_ask(
        self, phase: str, requests: Mapping[int, Message], kind: type[T]
    ) -> Conversation[tuple[dict[int, T], dict[int, str]]]:
        """Send requests; return the decoded replies, and why there are no others."""
        number = self._next_number()
        replies = yield from self._intact(phase, number, requests)
        decoded, failed = {}, dict(replies.failed)
        for client in sorted(replies.ok):
            try:
                payload = replies.ok[client]
                decoded[client] = self._checked(phase, client, number, payload, kind)
            except BadReplyError as error:
                failed.update(error.reasons)
        return decoded, failed

    def _intact(
        self, phase: str, number: int, requests: Mapping[int, Message]
    ) -> Conversation[Replies]:
        """Send requests, again to those whose reply was damaged on its way.

        They answer the same request with the same bytes.
        """
        framed = self._framed(number, requests)
        replies = yield Ask(phase, framed)
        for _ in range(_MORE_TRIES):
            damaged = [c for c, r in replies.ok.items() if not is_intact(r)]
            if not damaged:
                break
            again = yield Ask(phase, {client: framed[client] for client in damaged})
            intact = {c: r for c, r in replies.ok.items() if c not in damaged}
            failed = {**replies.failed, **again.failed}
            replies = Replies({**intact, **again.ok}, failed)
        return replies

    def tell(self, phase: str, notices: Mapping[int, Message]) -> Conversation[None]:
        """Send notices that nobody answers."""
        waiting = dict(notices)
        while waiting:
            now = self._now(waiting)
            if now:
                framed = self._framed(self._next_number(), now)
                _check_complete(phase, now, (yield Ask(phase, framed, False)))
            if waiting:
                yield PAUSE

    def _next_number(self) -> int:
        self.number += 1
        return self.number

    def _framed(
        self, number: int, messages: Mapping[int, Message]
    ) -> dict[int, bytearray]:
        return {c: frame(self._token, number, m) for c, m in sorted(messages.items())}

    def _checked(
        self,
        phase: str,
        client: int,
        number: int,
        payload: bytes | bytearray,
        kind: type[T],
    ) -> T:
        try:
            answered, body = unframe(payload, self._token)
            if answered != number:
                raise RemoteProtocolError(
                    f"it answers request {answered}, not {number}"
                )
            message: T = decode(body, kind)
        except RemoteProtocolError as error:
            raise BadReplyError(phase, client, str(error)) from None
        return message


def _check_complete(
    phase: str, requests: Mapping[int, Message], replies: Replies
) -> None:
    """Refuse to go on where somebody did not answer."""
    if replies.failed:
        raise ClientsFailedError(phase, replies.failed)
    if set(replies.ok) != set(requests):
        raise LocalProtocolError(f"the driver lost answers of phase {phase!r}")

"""What carries a conversation: sends each request, sends the replies back in.

A driver brings bytes to clients and theirs back, wherever these are; how long it waits
is its own business, and who did not answer is said with the reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from hyfdca.protocol.server_session import Ask, Conversation, Replies

T = TypeVar("T")

# One thread in matrix products: for a few hundred rows more are slower, on a busy
# machine a thousand times, and the order of sums must not depend on their number.
_BLAS = ThreadpoolController()

# Told of every exchange, requests and replies, after it. Of all drivers, whoever made
# them: a conversation that nobody thought of recording is recorded too.
Listener = Callable[[Ask, Mapping[int, bytes | bytearray]], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a listener told of what is said in this process for a while."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def one_thread() -> Iterator[None]:
    """Have matrix products computed by one thread, and so in one order."""
    with _BLAS.limit(limits=1, user_api="blas"):
        yield


class Handler(Protocol):
    """A client, as drivers see it."""

    def handle(self, phase: str, payload: bytes | bytearray) -> bytes | bytearray:
        """Answer one request."""
        ...


@dataclass
class Traffic:
    """What a conversation cost; a notice is half a round trip.

    Extra trips, such as those of a line search, are counted apart from those of the
    round they are in.
    """

    round_trips: float = 0.0
    search_round_trips: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0

    def add(self, ask: Ask, replies: Replies) -> None:
        """Count an exchange, or half of one."""
        self.bytes_down += sum(map(len, ask.payloads.values()))
        if ask.wants_reply:
            self.bytes_up += sum(map(len, replies.ok.values()))
        trips = 1.0 if ask.wants_reply else 0.5
        if ask.is_extra:
            self.search_round_trips += trips
        else:
            self.round_trips += trips


class Driver(ABC):
    """Drives conversations with the clients that it can reach."""

    def run(self, conversation: Conversation[T], traffic: Traffic) -> T:
        """Drive a server's conversation to its end; adds its cost to ``traffic``."""
        with one_thread():
            return self._run(conversation, traffic)

    def _run(self, conversation: Conversation[T], traffic: Traffic) -> T:
        try:
            ask = next(conversation)
            while True:
                replies = self.exchange(ask)
                if listener := _listener.get():
                    listener(ask, replies.ok)
                traffic.add(ask, replies)
                ask = conversation.send(replies)
        except StopIteration as end:
            result: T = end.value
            return result

    @abstractmethod
    def exchange(self, ask: Ask) -> Replies:
        """Bring requests to clients and return their replies.

        A notice has arrived when this returns, or its client has failed.
        """

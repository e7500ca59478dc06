"""Drivers carry a conversation: they send its requests and return the replies.

A driver exchanges bytes with clients, wherever they are. It decides how long to wait,
and reports clients that did not answer, with the reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from hyfdca.protocol.server_session import Ask, BadReplyError, Conversation, Replies

T = TypeVar("T")

# Matrix products use one thread: for a few hundred rows more threads are slower, on a
# busy machine a thousand times, and the order of sums must not depend on their number.
_BLAS = ThreadpoolController()

# Called after every exchange with its requests and replies. It covers all drivers, so
# that every conversation is recorded.
Listener = Callable[[Ask, Mapping[int, bytes | bytearray]], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a listener after every exchange in this context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute matrix products in one thread, and therefore in one order."""
    with _BLAS.limit(limits=1, user_api="blas"):
        yield


class Handler(Protocol):
    """A client, as drivers see it."""

    def handle(self, phase: str, payload: bytes | bytearray) -> bytes | bytearray:
        """Answer one request."""
        ...


@dataclass
class Traffic:
    """The cost of a conversation; a notice is half a round trip.

    Extra trips, such as those of a line search, are counted separately from the other
    trips of their round.
    """

    round_trips: float = 0.0
    search_round_trips: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0

    def add(self, ask: Ask, replies: Replies) -> None:
        """Add an exchange, or a notice."""
        self.bytes_down += sum(map(len, ask.payloads.values()))
        if ask.wants_reply:
            self.bytes_up += sum(map(len, replies.ok.values()))
        trips = 1.0 if ask.wants_reply else 0.5
        if ask.is_extra:
            self.search_round_trips += trips
        else:
            self.round_trips += trips


class Driver(ABC):
    """Drives conversations with the clients it can reach."""

    def run(self, conversation: Conversation[T], traffic: Traffic) -> T:
        """Drive a server's conversation to its end; add its cost to ``traffic``."""
        with one_thread():
            return self._run(conversation, traffic)

    def _run(self, conversation: Conversation[T], traffic: Traffic) -> T:
        phase = ""  # of the last request; a reply of an earlier stage may be wrong too
        try:
            ask = next(conversation)
            while True:
                phase = ask.phase
                replies = self.exchange(ask)
                if listener := _listener.get():
                    listener(ask, replies.ok)
                traffic.add(ask, replies)
                ask = conversation.send(replies)
        except StopIteration as end:
            result: T = end.value
            return result
        except BadReplyError as error:
            raise error.in_phase(phase) from None

    @abstractmethod
    def exchange(self, ask: Ask) -> Replies:
        """Send requests to clients and return their replies.

        When this returns, each notice has arrived or its client has failed.
        """

"""All parties in one process, talking in bytes as they would between machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from hyfdca.algorithms.dual_coordinator import RESEAL_PHASE
from hyfdca.algorithms.line_search import SEARCH_PHASES
from hyfdca.protocol.client import ClientSession
from hyfdca.protocol.server import Ask, Conversation, Replies

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


@dataclass
class Traffic:
    """What a conversation cost; a notice is half a round trip.

    The trips of a line search, and those that seal sums anew, are counted apart from
    those of the round they are in.
    """

    round_trips: float = 0.0
    search_round_trips: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0

    def add_trip(self, ask: Ask) -> None:
        """Count an exchange, or half of one."""
        trips = 1.0 if ask.wants_reply else 0.5
        if ask.phase in SEARCH_PHASES or ask.phase == RESEAL_PHASE:
            self.search_round_trips += trips
        else:
            self.round_trips += trips


class InProcess:
    """Carries requests to clients, several at a time where there is much to compute.

    Clients share nothing, so the order in which they answer changes no bit.

    Parameters
    ----------
    n_threads : int
        How many clients work at a time; their kernels release Python's lock.
    """

    def __init__(
        self, clients: Mapping[int, ClientSession], n_threads: int = 1
    ) -> None:
        self._clients = clients
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self.client_seconds = 0.0  # that the server waited for clients

    def work_one_by_one(self) -> None:
        """Have one client work at a time from now on."""
        self._pool = None

    def run(self, conversation: Conversation[T], traffic: Traffic) -> T:
        """Drive a server's conversation to its end; adds its cost to ``traffic``."""
        with _BLAS.limit(limits=1, user_api="blas"):
            return self._run(conversation, traffic)

    def _run(self, conversation: Conversation[T], traffic: Traffic) -> T:
        try:
            ask = next(conversation)
            while True:
                ok = self._answers(ask)
                if listener := _listener.get():
                    listener(ask, ok)
                traffic.bytes_down += sum(map(len, ask.payloads.values()))
                if ask.wants_reply:
                    traffic.bytes_up += sum(map(len, ok.values()))
                traffic.add_trip(ask)
                ask = conversation.send(Replies(ok))
        except StopIteration as end:
            result: T = end.value
            return result

    def _answers(self, ask: Ask) -> dict[int, bytearray]:
        """Have every client asked answer."""
        started = time.perf_counter()
        each = self._pool.map if self._pool and len(ask.payloads) > 1 else map
        answers = each(
            lambda client: self._clients[client].handle(
                ask.phase, ask.payloads[client]
            ),
            ask.payloads,
        )
        ok = dict(zip(ask.payloads, answers, strict=True))
        self.client_seconds += time.perf_counter() - started
        return ok

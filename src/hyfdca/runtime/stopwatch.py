"""The cost of conversations if every client had its own machine."""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass, replace
from typing import TypeVar

from hyfdca.protocol.server_session import Ask, Conversation, Replies
from hyfdca.runtime.driver import Driver, Traffic

T = TypeVar("T")


@dataclass(frozen=True)
class ConversationCost:
    """What one conversation cost.

    Parameters
    ----------
    seconds : float
        Measured with clients one after another.
    parallel_seconds : float
        The server's own time and, for every exchange, that of its slowest client.
    """

    traffic: Traffic
    seconds: float
    parallel_seconds: float

    def simulated_seconds(self, latency: float) -> float:
        """Return the time between machines, with this many seconds per round trip."""
        trips = self.traffic.round_trips + self.traffic.search_round_trips
        return self.parallel_seconds + latency * trips


class Stopwatch(Driver):
    """Records the cost of each conversation; another driver carries its requests.

    Clients work one at a time, so that they do not slow each other down. That changes
    no reply.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._costs: list[ConversationCost] = []
        self._waited = self._slowest = 0.0  # in the present conversation

    def take_costs(self) -> list[ConversationCost]:
        """Return the costs of all conversations since the last call, in order."""
        costs, self._costs = self._costs, []
        return costs

    def run(self, conversation: Conversation[T], traffic: Traffic) -> T:
        """Drive a server's conversation to its end, and note its cost."""
        before = astuple(traffic)
        self._waited = self._slowest = 0.0
        started = time.perf_counter()
        try:
            return super().run(conversation, traffic)
        finally:
            seconds = time.perf_counter() - started
            parallel = seconds - self._waited + self._slowest
            each = zip(astuple(traffic), before, strict=True)
            own = Traffic(*(now - then for now, then in each))
            self._costs.append(ConversationCost(own, seconds, parallel))

    def exchange(self, ask: Ask) -> Replies:
        """Exchange with one client after another."""
        ok: dict[int, bytes | bytearray] = {}
        failed: dict[int, str] = {}
        slowest = 0.0
        for client, payload in ask.payloads.items():
            started = time.perf_counter()
            replies = self._driver.exchange(replace(ask, payloads={client: payload}))
            seconds = time.perf_counter() - started
            ok.update(replies.ok)
            failed.update(replies.failed)
            self._waited += seconds
            slowest = max(slowest, seconds)
        self._slowest += slowest
        return Replies(ok, failed)

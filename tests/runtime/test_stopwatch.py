"""What conversations cost, by a clock that only this test moves."""

from __future__ import annotations

import pytest

from hyfdca.protocol.server_session import Ask, Replies
from hyfdca.runtime import stopwatch
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess
from hyfdca.runtime.stopwatch import Stopwatch

LATENCY = 0.5


class Clock:
    """Seconds that pass when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        """Return the time."""
        return self.now


class Client:
    """Answers with its own name, after some time."""

    def __init__(self, clock: Clock, name: bytes, seconds: float) -> None:
        self._clock, self._name, self._seconds = clock, name, seconds

    def handle(self, phase: str, payload: bytes) -> bytes:
        """Answer a request."""
        self._clock.now += self._seconds
        return self._name + payload


@pytest.fixture
def clock(monkeypatch):
    own = Clock()
    monkeypatch.setattr(stopwatch, "time", own)
    return own


def conversation(clock):
    """Ask twice and tell once; the server itself works for 10 and 20 seconds."""
    replies = yield Ask("first", {0: b"a", 1: b"bb", 2: b"c"})
    clock.now += 10.0
    yield Ask("notice", {2: b"ddd"}, wants_reply=False)
    clock.now += 20.0
    yield Ask("second", {0: b"e", 1: b"f"}, is_extra=True)
    return replies


def test_the_slowest_client_counts(clock):
    """Clients would work at the same time: each exchange takes as long as one."""
    clients = {k: Client(clock, b"%d" % k, s) for k, s in enumerate([1.0, 2.0, 4.0])}
    watch, traffic = Stopwatch(InProcess(clients)), Traffic(bytes_up=100)
    replies = watch.run(conversation(clock), traffic)
    assert replies == Replies({0: b"0a", 1: b"1bb", 2: b"2c"})
    [cost] = watch.take_costs()
    assert cost.seconds == 10 + 20 + (1 + 2 + 4) + 4 + (1 + 2)
    assert cost.parallel_seconds == 10 + 20 + 4 + 4 + 2
    assert cost.traffic == Traffic(1.5, 1.0, 7 + 4, 4 + 3 + 2)
    assert traffic.bytes_up == 100 + 11
    expected = cost.parallel_seconds + LATENCY * 2.5
    assert cost.simulated_seconds(LATENCY) == expected
    assert watch.take_costs() == []


def test_a_conversation_that_fails(clock):
    """What it cost until then is noted, and the next one starts from zero."""

    def failing():
        yield Ask("first", {0: b"a"})
        clock.now += 3.0
        raise ArithmeticError

    watch = Stopwatch(InProcess({0: Client(clock, b"0", 2.0)}))
    with pytest.raises(ArithmeticError):
        watch.run(failing(), Traffic())
    watch.run((_ for _ in ()), Traffic())
    assert [cost.parallel_seconds for cost in watch.take_costs()] == [5.0, 0.0]

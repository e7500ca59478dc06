from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hyfdca.flare import network as network_module
from hyfdca.flare.controller import StudyController
from hyfdca.flare.network import (
    AbortedError,
    Courier,
    Failure,
    Network,
    NetworkRequest,
    PausedError,
)
from hyfdca.flare.supervisor import Watch
from hyfdca.kits.kit import read_server_kit
from hyfdca.protocol.server_session import Ask
from tests.kits.kit_makers import Parties

NAMES = ("north", "city")


@pytest.fixture
def make() -> Iterator[list[Network]]:
    made: list[Network] = []
    yield made
    for network in made:
        network.close()


def network(made: list[Network], courier: Courier, **states: bool) -> Network:
    answers = {name: (lambda value=value: value) for name, value in states.items()}
    made.append(Network(NAMES, courier, **answers))
    return made[-1]


def test_each_client_gets_its_own_bytes_and_its_own_answer(
    make: list[Network],
) -> None:
    """Payloads go by rank, answers come back by rank."""
    seen: dict[str, NetworkRequest] = {}

    def courier(name: str, request: NetworkRequest, timeout: float) -> bytes:
        seen[name] = request
        return name.encode() + bytes(request.payload)

    replies = network(make, courier).exchange("s", Ask("p", {1: b"b", 0: b"a"}), 60.0)
    assert replies.ok == {0: b"northa", 1: b"cityb"}
    assert not replies.failed
    assert seen["city"] == NetworkRequest("ask", "s", "p", b"b")


@pytest.mark.slow
def test_a_silent_client_is_named_while_others_are_heard(
    make: list[Network],
) -> None:
    """A slow client costs no more than the timeout: it is still silent afterwards."""
    done = threading.Event()
    answered: list[str] = []

    def courier(name: str, request: NetworkRequest, timeout: float) -> bytes:
        if name == "city":
            done.wait(60.0)
        answered.append(name)
        return b"ok"

    replies = network(make, courier).exchange("s", Ask("p", {0: b"", 1: b""}), 2.0)
    assert answered == ["north"]
    done.set()
    assert replies.ok == {0: b"ok"}
    assert replies.failed == {1: "did not answer within 2 s"}


def test_what_could_not_be_sent_is_sent_again_with_the_same_bytes(
    make: list[Network],
) -> None:
    """A temporary failure is retried, within the timeout."""
    sent: list[NetworkRequest] = []

    def courier(name: str, request: NetworkRequest, timeout: float) -> bytes | Failure:
        sent.append(request)
        return Failure("cannot be reached", may_pass=True) if len(sent) < 3 else b"ok"

    replies = network(make, courier).exchange("s", Ask("p", {0: b"x"}), 60.0)
    assert replies.ok == {0: b"ok"}
    assert sent == [NetworkRequest("ask", "s", "p", b"x")] * 3


class Clock:
    """Seconds that pass when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.now += seconds


def test_what_never_arrives_is_given_up_within_the_timeout(
    make: list[Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last reason is reported; no attempt comes after the timeout."""
    clock = Clock()
    monkeypatch.setattr(network_module, "time", clock)
    left: list[float] = []

    def courier(name: str, request: NetworkRequest, timeout: float) -> Failure:
        left.append(timeout)
        return Failure("cannot be reached", may_pass=True)

    replies = network(make, courier).exchange("s", Ask("p", {0: b"x"}), 5.0)
    assert clock.now < 1005.0
    assert left[0] == 5.0
    assert len(left) > 2
    assert left == sorted(set(left), reverse=True)
    assert left[-1] > 0.0
    assert replies.failed == {0: "cannot be reached"}


def test_a_refusal_is_not_sent_again(make: list[Network]) -> None:
    """A client that refuses is not asked twice."""
    sent = []

    def courier(name: str, request: NetworkRequest, timeout: float) -> Failure:
        sent.append(name)
        return Failure("refused: no")

    replies = network(make, courier).exchange("s", Ask("p", {0: b"x"}, False), 60.0)
    assert replies.failed == {0: "refused: no"}
    assert sent == ["north"]


def test_hello_shows_who_is_present(make: list[Network]) -> None:
    """Everybody is asked, in the job or not."""

    def courier(name: str, request: NetworkRequest, timeout: float) -> bytes | Failure:
        return b"" if name == "city" else Failure("is not connected")

    replies = network(make, courier).hello(60.0)
    assert set(replies.ok) == {1}
    assert replies.failed == {0: "is not connected"}


def test_a_job_that_is_ended_ends_the_exchange(make: list[Network]) -> None:
    """The server does not wait for clients of an aborted job."""

    def courier(name: str, request: NetworkRequest, timeout: float) -> bytes:
        time.sleep(0.2)
        return b""

    asked = network(make, courier, is_aborted=True)
    with pytest.raises(AbortedError):
        asked.exchange("s", Ask("p", {0: b""}), 5.0)


def test_a_study_pauses_when_an_organisation_is_not_in_its_job(
    installed: Parties, make: list[Network]
) -> None:
    """The supervisor's request reaches the job's process through the kit."""
    kit = read_server_kit(installed.kits / "server")
    kit.make_folders()
    signal = SimpleNamespace(triggered=False)
    make.append(StudyController()._network(kit, signal, engine=None))
    jobs = {name: {"job"} for name in kit.names}
    admin: Any = SimpleNamespace(jobs_by_site=lambda: jobs)
    parent: Any = None  # not used here
    said: list[str] = []
    expiry: Any = SimpleNamespace(look=lambda: None)
    watch = Watch(admin, parent, kit, said.append, expiry)
    watch._invite("job", kit.names)
    make[0].pause_if_asked()
    jobs["coast"] = set()
    for _ in range(2):
        watch._invite("job", kit.names)
        with pytest.raises(PausedError):
            make[0].pause_if_asked()
    assert said == ["coast can take part from the next round on."]

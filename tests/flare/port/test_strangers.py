"""Connections without TLS: limited per address, in the process that accepted them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from subprocess import DEVNULL

import pytest

from hyfdca.flare.port.strangers import Peer, StrangerLimit, peer_of

MOST = 3


class Port:
    """A port of this process, with both ends of what is connected to it."""

    def __init__(self, kept: ExitStack) -> None:
        self._kept = kept
        self.accepted: list[socket.socket] = []
        listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._listening = kept.enter_context(listening)
        self.number: int = self._listening.getsockname()[1]

    def connect(self, source: str) -> socket.socket:
        """Return the far end of a new connection from an address."""
        to, source_address = ("127.0.0.1", self.number), (source, 0)
        far = socket.create_connection(to, source_address=source_address)
        accepted, _ = self._listening.accept()
        self.accepted.append(self._kept.enter_context(accepted))
        far.settimeout(0.05)
        return self._kept.enter_context(far)


@pytest.fixture
def port() -> Iterator[Port]:
    with ExitStack() as kept:
        yield Port(kept)


def are_open(*far: socket.socket) -> list[bool]:
    """Return which connections were not ended by the other side."""
    found = []
    for own in far:
        try:
            found.append(bool(own.recv(1)))
        except TimeoutError:
            found.append(True)
    return found


@pytest.mark.slow
def test_the_oldest_beyond_the_limit_are_shut_down(port: Port) -> None:
    """The limit is per address; other addresses have their own."""
    limit = StrangerLimit(port.number, list, MOST)
    many = [port.connect("127.0.0.2") for _ in range(MOST)]
    others = [port.connect("127.0.0.3") for _ in range(MOST)]
    limit.look()
    assert all(are_open(*many, *others))
    many += [port.connect("127.0.0.2") for _ in range(2)]
    limit.look()
    assert are_open(*many) == [False, False, True, True, True]
    assert all(are_open(*others))


def test_connections_with_tls_do_not_count(port: Port) -> None:
    """Their number and their origin do not matter."""
    known: list[Peer] = []
    limit = StrangerLimit(port.number, lambda: known, MOST)
    organisations = [port.connect("127.0.0.2") for _ in range(2 * MOST)]
    known += [own.getsockname() for own in organisations]
    strangers = [port.connect("127.0.0.2") for _ in range(MOST + 1)]
    limit.look()
    assert all(are_open(*organisations))
    assert are_open(*strangers) == [False, True, True, True]


def test_other_ports_are_left_alone(port: Port) -> None:
    """The process has connections of its own."""
    with ExitStack() as kept:
        other = Port(kept)
        connected = [other.connect("127.0.0.2") for _ in range(2 * MOST)]
        StrangerLimit(port.number, list, MOST).look_again()
        assert all(are_open(*connected))


def test_what_was_closed_is_said_once(
    port: Port, caplog: pytest.LogCaptureFixture
) -> None:
    """A log that is written for each of them would be the next way to do harm."""
    limit = StrangerLimit(port.number, list, MOST)
    for _ in range(3):
        kept = [port.connect("127.0.0.2") for _ in range(MOST + 2)]
        limit.look()
        assert not all(are_open(*kept))
    said = "Closed 2 connections from 127.0.0.2 that had not completed TLS; an address "
    assert caplog.messages == [f"{said}may have 3 of them."]


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("ipv4:192.0.2.1:5000", ("192.0.2.1", 5000)),
        ("ipv6:%5B2001:db8::1%5D:5000", ("2001:db8::1", 5000)),
        ("ipv6:%5B::ffff:192.0.2.1%5D:5000", ("192.0.2.1", 5000)),
        ("ipv6:[fe80::1%25eth0]:5000", ("fe80::1", 5000)),
    ],
)
def test_peers_have_one_form(text: str, peer: Peer) -> None:
    """Both gRPC's form and the system's form are recognised."""
    assert peer_of(text) == peer


EXHAUSTED = """
import os, resource
from contextlib import ExitStack
from hyfdca.flare.port.strangers import StrangerLimit
from tests.flare.port.test_strangers import MOST, Port, are_open

def use_up():
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        return

def known():
    port.accepted[0].close()  # and its number is another file's
    use_up()
    return []

with ExitStack() as kept:
    taken = []
    port, other = Port(kept), Port(kept)
    far = [port.connect("127.0.0.2") for _ in range(MOST + 3)]
    others = [other.connect("127.0.0.2") for _ in range(MOST + 3)]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, most))
    use_up()
    StrangerLimit(port.number, known, MOST).look_again()
    print(are_open(*far), all(are_open(*others)), len(set(map(os.fstat, taken))))
"""


@pytest.mark.slow
def test_the_limit_holds_where_no_file_is_left() -> None:
    """A burst of connections uses up those that looking would take."""
    command = [sys.executable, "-c", EXHAUSTED]
    done = subprocess.run(  # noqa: S603  # our own
        command, capture_output=True, text=True, timeout=400, check=False, stdin=DEVNULL
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{[False] * 3 + [True] * MOST} True 1\n"
    assert "Closed 3 connections from 127.0.0.2" in done.stderr
    assert "Could not look" not in done.stderr


def test_an_error_is_logged_once_and_ends_nothing(
    port: Port, caplog: pytest.LogCaptureFixture
) -> None:
    """NVFlare may not know its own connections at some moment."""
    answers: Iterator[Exception | list[Peer]] = iter(
        [KeyError("peer"), KeyError("peer"), OSError("no"), []]
    )

    def known() -> list[Peer]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    limit = StrangerLimit(port.number, known, MOST)
    many = [port.connect("127.0.0.2") for _ in range(MOST + 1)]
    for _ in range(3):
        limit.look_again()
        assert all(are_open(*many))
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    limit.look_again()
    assert are_open(*many) == [False, True, True, True]

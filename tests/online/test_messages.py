"""Messages between real processes: exact bytes, plain errors, no strangers.

Three tests share one study, which runs until the last of them ends it.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hyfdca.kits.kit import read_server_kit
from hyfdca.kits.startup import ADMIN
from tests.flare.flare_parties import (
    ROOT,
    Command,
    Parties,
    own_port,
    parties,
    provision,
    wait_until,
)
from tests.flare.flare_study import N_ROUNDS
from tests.kits.kit_makers import PRIVATE_MARKS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("small_tls"),
    pytest.mark.xdist_group("online 2"),
]

NAMES = ["north", "city"]


class Study(NamedTuple):
    """A study that runs rounds until it may end."""

    parties: Parties
    server: Command
    clients: list[Command]

    @property
    def kit(self) -> Path:
        """The server's kit."""
        return self.parties.folder / "server"

    @property
    def rounds(self) -> int:
        """The number of rounds so far in which everybody was present."""
        file = self.kit / "state" / "progress.json"
        return int(read(file)) if file.exists() else 0

    def may_end(self) -> None:
        """Let it end when it has had enough rounds."""
        (self.kit / "go-on").unlink(missing_ok=True)


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def study(small_tls: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    folder = tmp_path_factory.mktemp("messages")
    provision(folder / "kits", NAMES, own_port())
    with parties(folder / "kits", folder, NAMES) as made:
        make_strangers(made, folder)
        (made.folder / "server" / "go-on").touch()
        with few_files(1024):
            server = made.server("messages and rounds")
        yield Study(made, server, [made.client(n, f"of {n}") for n in NAMES])


@contextmanager
def few_files(soft: int) -> Iterator[None]:
    """Start processes under the soft limit that many systems have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def make_strangers(made: Parties, folder: Path) -> None:
    """Make a second kit of city, and one of another authority, before city runs."""
    shutil.copytree(made.folder / "city", made.folder / "second")
    provision(folder / "strangers", NAMES, own_port())
    own = made.folder / "city" / "flare" / "startup" / "fed_client.json"
    shutil.copytree(folder / "strangers" / "city", made.folder / "stranger")
    shutil.copy(own, made.folder / "stranger" / "flare" / "startup")


def test_every_kind_of_message_passes_between_processes(study: Study) -> None:
    """Bytes come back exact, and whatever goes wrong is one sentence."""
    wait_until(lambda: study.rounds, 60.0, study.server.said)
    found = read(study.kit / "out" / "findings.json")
    assert found["hello"] == [0, 1]
    assert found["own"]
    assert found["empty"]
    assert found["large"]
    assert found["after"]
    assert found["table"] == {"0": "of north", "1": "of city"}
    answered, failed = found["slow"]
    assert answered == {"0": "0"}
    assert failed == {"1": "did not answer within 6 s"}  # it would have taken 12
    assert found["refused"] == {"0": "refused: this is not the time for that"}
    unexpected = "failed: an unexpected error ({}), described in its log"
    zero = unexpected.format("ZeroDivisionError")
    assert found["failed"] == {"0": zero, "1": zero}
    assert found["exit"] == {"0": unexpected.format("SystemExit")}
    # A client reaches the server, which does not pass its messages to another one.
    assert found["to the server"] == "cannot be reached"  # it has no such topic
    assert found["whispered"] == "did not answer within 2 s"
    assert found["number"] == {"0": unexpected.format("TypeError")}


def test_strangers_and_second_clients_are_refused_while_rounds_continue(
    study: Study,
) -> None:
    """A certificate of another authority, and one that is in use already."""
    wait_until(lambda: study.rounds, 60.0, study.server.said)
    second = study.parties.client("second")
    stranger = study.parties.client("stranger")
    assert stranger.ends(120) == 2
    assert "was not issued by the authority of this kit" in stranger.said
    assert second.ends(120) == 2
    assert "another client with the name 'city' is already connected" in second.said
    before = study.rounds
    wait_until(lambda: study.rounds > before + 3, 20.0, study.server.said)


@pytest.mark.thorough
def test_admin_commands_need_the_servers_own_kit(study: Study) -> None:
    """An organisation's certificate opens no admin session; the admin's own does."""
    wait_until(lambda: study.rounds, 60.0, study.server.said)
    folder, own = study.parties.folder, study.kit / "admin"
    copy = folder / "intruder"
    shutil.copytree(own, copy)
    for name in ("client.crt", "client.key"):
        shutil.copy(folder / "city" / "flare" / "startup" / name, copy / "startup")
    assert "answered cells" in intrusion(own, ADMIN)
    assert "answered" not in intrusion(copy, "city")
    assert "answered" not in intrusion(copy, ADMIN)  # with the certificate of city
    study.server.says("Refused a client with the name 'city': only organisations")


def intrusion(kit: Path, name: str) -> str:
    """Return what a startup kit gets out of the server."""
    words = [sys.executable, "-m", "tests.flare.port.intruder", str(kit), name]
    done = subprocess.run(  # noqa: S603  # our own command
        words, capture_output=True, text=True, cwd=ROOT, timeout=400, check=False
    )
    return done.stdout


def test_strangers_who_only_connect_do_not_stop_a_study(study: Study) -> None:
    """1,500 idle connections under a soft limit of 1,024 files; rounds continue.

    They are shut down long before TLS is overdue, those of another address are not.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 4096:
        pytest.skip(
            f"this system allows {most} open files; 1,500 connections need more"
        )
    wait_until(lambda: study.rounds, 60.0, study.server.said)
    with few_files(most), ExitStack() as connected:
        crowd = idle(study, "127.0.0.2", 1500, connected)
        few = idle(study, "127.0.0.3", 20, connected)
        wait_until(lambda: sum(map(is_open, crowd)) <= 100, 10.0, "they are shut down")
        assert all(map(is_open, few))
        assert any(map(is_open, crowd))  # which of those between two looks is chance
        before = study.rounds
        wait_until(lambda: study.rounds > before + 3, 60.0, study.server.said)
    [parent] = study.server.family("server.server_train")
    assert parent.rlimit(resource.RLIMIT_NOFILE) == (most, most)
    everybody = [study.server, *study.clients]
    for process in (p for command in everybody for p in command.family("")):
        assert process.rlimit(resource.RLIMIT_CORE) == (0, 0)
    printed = (study.kit / "log" / "server.log").read_text("utf-8")
    assert "connections from 127.0.0.2 that had not completed TLS" in printed
    assert "connections from 127.0.0.1 that" not in printed  # the organisations'


def idle(
    study: Study, source: str, number: int, connected: ExitStack
) -> list[socket.socket]:
    """Connect to the server from an address of this machine, and send nothing."""
    server = ("127.0.0.1", read_server_kit(study.kit).owner.port)
    made = []
    for _ in range(number):
        own = socket.create_connection(server, source_address=(source, 0))
        own.setblocking(False)
        made.append(connected.enter_context(own))
    return made


def is_open(own: socket.socket) -> bool:
    """Return whether the server has not ended a connection."""
    try:
        return bool(own.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_a_study_ends_at_all_parties(study: Study) -> None:
    """All rounds were run, and logs have neither keys nor data."""
    study.may_end()
    assert study.server.ends(120) == 0
    assert [client.ends(60) for client in study.clients] == [0, 0]
    assert study.rounds >= N_ROUNDS
    for name, words in (("server", "The server is up."), ("north", "is connected to")):
        kit = study.parties.folder / name
        side = "server" if name == "server" else "client"
        said = (kit / "log" / "hyfdca.log").read_text("utf-8")
        printed = (kit / "log" / f"{side}.log").read_text("utf-8")
        assert words in said
        assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - ", printed, re.M)
        assert "patient 4711" not in said + printed
        assert not any(mark.decode() in said + printed for mark in PRIVATE_MARKS)
        assert not list((kit / "flare").rglob("*log*.txt"))  # NVFlare's own
    assert "ZeroDivisionError" in printed


@pytest.mark.thorough
def test_a_table_that_does_not_fit_ends_the_client_with_its_sentence(
    tmp_path: Path,
) -> None:
    """A client that cannot join says why, at its own side and at the server's."""
    provision(tmp_path / "kits", NAMES, own_port())
    with parties(tmp_path / "kits", tmp_path, NAMES) as study:
        server = study.server("messages")
        study.client("north")
        city = study.client("city", text="")
        assert city.ends(60) == 2
        assert city.said.endswith("error: The table has no rows.\n")
        assert server.ends(60) == 2
        why = "Organisation 'city' cannot take part: The table has no rows."
        assert server.said.endswith(f"error: {why}\n")

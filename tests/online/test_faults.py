"""Studies of messages whose processes are killed: they come back and continue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flare.flare_parties import (
    Command,
    Parties,
    own_port,
    parties,
    provision,
    wait_until,
)
from tests.flare.flare_study import N_ROUNDS

pytestmark = [pytest.mark.chaos, pytest.mark.usefixtures("small_tls")]

NAMES = ["north", "city"]

CLIENT_JOB, SERVER_JOB = "client.worker_process", "server.runner_process"
CLIENT_PARENT, SERVER_PARENT = "client.client_train", "server.server_train"


@pytest.fixture(scope="module")
def kits(small_tls: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits") / "made"
    provision(folder, NAMES, own_port())
    return folder


@pytest.fixture
def study(kits: Path, tmp_path: Path) -> Iterator[Parties]:
    with parties(kits, tmp_path, NAMES) as made:
        yield made


def rounds(study: Parties) -> int:
    file = study.folder / "server" / "state" / "progress.json"
    return int(json.loads(file.read_text("utf-8"))) if file.exists() else 0


def start(study: Parties) -> tuple[Command, list[Command]]:
    """Start a study and wait until it is in its rounds."""
    server = study.server("rounds", quorum=1)
    clients = [study.client(name) for name in NAMES]
    wait_until(lambda: rounds(study) > 3, 180.0, server.said)
    return server, clients


def is_finished(study: Parties, server: Command, clients: list[Command]) -> bool:
    """Wait until a study ends; return whether all did so with all its rounds."""
    codes = [server.ends(180), *(client.ends(60) for client in clients)]
    return not any(codes) and rounds(study) >= N_ROUNDS


@pytest.mark.parametrize(
    ("side", "which"),
    [
        ("client", CLIENT_JOB),
        ("client", CLIENT_PARENT),
        ("server", SERVER_JOB),
        ("server", SERVER_PARENT),
    ],
)
def test_a_study_continues_whatever_process_is_killed(
    study: Parties, side: str, which: str
) -> None:
    """Killed processes come back, and the study resumes from its last round."""
    server, clients = start(study)
    command = server if side == "server" else clients[1]
    [process] = command.family(which)
    process.kill()
    assert is_finished(study, server, clients), server.said


def test_a_client_that_is_killed_leaves_nothing_and_may_come_back(
    study: Parties,
) -> None:
    """Its processes end with it; restarted, it takes part from the next round on."""
    server, clients = start(study)
    clients[1].kill()
    mine = str(study.folder / "city")
    left = lambda: [line for line in study.processes() if mine in line]  # noqa: E731
    wait_until(lambda: not left(), 60.0, "its processes are gone")
    clients[1] = study.client("city")
    assert is_finished(study, server, clients), server.said


def test_a_server_that_is_interrupted_continues_after_a_restart(
    study: Parties,
) -> None:
    """Ctrl-C ends the server's processes; the clients wait until it is back."""
    server, clients = start(study)
    server.interrupt()
    assert server.ends(60) == 130
    done = rounds(study)
    server = study.server("rounds", quorum=1)
    assert is_finished(study, server, clients), server.said
    assert done > 3

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyfdca.flare.processes import free_port
from tests.flare.flare_parties import (
    Command,
    Parties,
    parties,
    provision,
    wait_until,
)
from tests.flare.flare_study import N_ROUNDS

NAMES = ["north", "city"]

CLIENT_JOB, SERVER_JOB = "client.worker_process", "server.runner_process"
CLIENT_PARENT, SERVER_PARENT = "client.client_train", "server.server_train"


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits") / "made"
    provision(folder, NAMES, free_port())
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


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("side", "which"),
    [
        ("client", CLIENT_JOB),
        ("client", CLIENT_PARENT),
        ("server", SERVER_JOB),
        ("server", SERVER_PARENT),
    ],
)
def test_a_study_goes_on_whatever_process_is_killed(
    study: Parties, side: str, which: str
) -> None:
    """Killed processes come back, and the study goes on where it was."""
    server, clients = start(study)
    command = server if side == "server" else clients[1]
    [process] = command.family(which)
    process.kill()
    assert is_finished(study, server, clients), server.said


@pytest.mark.chaos
def test_a_client_that_is_killed_leaves_nothing_and_may_come_back(
    study: Parties,
) -> None:
    """Its processes end with it; started again, it is taken in at the next round."""
    server, clients = start(study)
    clients[1].kill()
    mine = str(study.folder / "city")
    left = lambda: [line for line in study.processes() if mine in line]  # noqa: E731
    wait_until(lambda: not left(), 5.0, "its processes are gone")
    clients[1] = study.client("city")
    assert is_finished(study, server, clients), server.said


@pytest.mark.chaos
def test_a_server_that_is_interrupted_goes_on_when_it_is_started_again(
    study: Parties,
) -> None:
    """Ctrl-C ends the server's processes; the clients wait for it to come back."""
    server, clients = start(study)
    server.interrupt()
    assert server.ends(15) == 130
    done = rounds(study)
    server = study.server("rounds", quorum=1)
    assert is_finished(study, server, clients), server.said
    assert done > 3


@pytest.mark.slow
def test_strangers_and_second_clients_are_refused_while_the_others_go_on(
    study: Parties, tmp_path: Path
) -> None:
    """A certificate of another authority, and one that is in use already."""
    shutil.copytree(study.folder / "city", study.folder / "second")
    strangers = tmp_path / "strangers"
    provision(strangers, NAMES, free_port())
    own = study.folder / "city" / "flare" / "startup" / "fed_client.json"
    shutil.copytree(strangers / "city", study.folder / "stranger")
    shutil.copy(own, study.folder / "stranger" / "flare" / "startup")
    go_on = study.folder / "server" / "go-on"  # so that they find a server
    go_on.touch()
    server, clients = start(study)
    second, stranger = study.client("second"), study.client("stranger")
    assert stranger.ends(120) == 2
    assert "was not made by the authority of this kit" in stranger.said
    assert second.ends(120) == 2
    assert "another one with the identity 'city' is connected already" in second.said
    before = rounds(study)
    wait_until(lambda: rounds(study) > before + 3, 20.0, server.said)
    go_on.unlink()
    assert is_finished(study, server, clients), server.said

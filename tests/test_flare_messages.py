from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.flare_parties import free_port, parties, provision

pytestmark = pytest.mark.slow

NAMES = ["north", "city"]


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits") / "made"
    provision(folder, NAMES, free_port())
    return folder


def test_every_kind_of_message_passes_between_processes(
    kits: Path, tmp_path: Path
) -> None:
    """Bytes come back exact, whatever goes wrong is one sentence, and all end."""
    with parties(kits, tmp_path, NAMES) as study:
        server = study.server("messages")
        clients = [study.client(name, f"of {name}") for name in NAMES]
        assert server.ends(60) == 0, server.said
        assert [client.ends(15) for client in clients] == [0, 0]
        found = json.loads(
            (study.folder / "server" / "out" / "findings.json").read_text("utf-8")
        )
    assert found["hello"] == [0, 1]
    assert found["own"]
    assert found["empty"]
    assert found["large"]
    assert found["after"]
    assert found["table"] == {"0": "of north", "1": "of city"}
    answered, failed, took = found["slow"]
    assert answered == {"0": "0"}
    assert failed == {"1": "did not answer within 2 s"}
    assert took < 3.0
    assert found["refused"] == {"0": "refused: this is not the time for that"}
    unexpected = "failed: an unexpected error ({}), told in its log"
    zero = unexpected.format("ZeroDivisionError")
    assert found["failed"] == {"0": zero, "1": zero}
    assert found["exit"] == {"0": unexpected.format("SystemExit")}
    assert found["number"] == {"0": unexpected.format("TypeError")}


def test_a_table_that_does_not_fit_ends_the_client_with_its_sentence(
    kits: Path, tmp_path: Path
) -> None:
    """Who cannot join is told why, and the server is told by whom it was left."""
    with parties(kits, tmp_path, NAMES) as study:
        server = study.server("messages")
        study.client("north")
        city = study.client("city", text="")
        assert city.ends(45) == 2
        assert city.said.endswith("error: The table has no rows.\n")
        assert server.ends(20) == 2
        why = "Organisation 'city' cannot take part: The table has no rows."
        assert server.said.endswith(f"error: {why}\n")

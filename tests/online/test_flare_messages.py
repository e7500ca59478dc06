from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hyfdca.flare.processes import free_port
from tests.flare.flare_parties import Parties, parties, provision
from tests.kits.kit_makers import PRIVATE_MARKS

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
        assert_logs(study)
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
    # A client reaches the server, which does not take its messages to another one.
    assert found["to the server"] == "cannot be reached"  # it has no such topic
    assert found["whispered"] == "did not answer within 2 s"
    assert found["number"] == {"0": unexpected.format("TypeError")}


def assert_logs(study: Parties) -> None:
    """Check that logs have what was said and printed, but no keys and no data."""
    for name, words in (("server", "The server is up."), ("north", "is connected to")):
        kit = study.folder / name
        side = "server" if name == "server" else "client"
        said = (kit / "log" / "hyfdca.log").read_text("utf-8")
        printed = (kit / "log" / f"{side}.log").read_text("utf-8")
        assert words in said
        assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - ", printed, re.M)
        assert "patient 4711" not in said + printed
        assert not any(mark.decode() in said + printed for mark in PRIVATE_MARKS)
        assert not list((kit / "flare").rglob("*log*.txt"))  # NVFlare's own
    assert "ZeroDivisionError" in printed


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

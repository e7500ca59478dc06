"""Forged weights and a forged model, between processes: nobody accepts them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.flare.flare_kits import Site, site
from tests.flare.flare_parties import Command
from tests.support.consortia import make_files

pytestmark = [
    pytest.mark.slow,
    # tests/study/hostile has them in one process; test_mended_study.py shows that
    # every party says between processes why a study ends.
    pytest.mark.thorough,
    pytest.mark.xdist_group("online 2"),
    pytest.mark.usefixtures("small_tls"),
]


def small_study():
    """Return a study of three organisations that ends soon."""
    return make_files(tol="1e-2", encryption='"stream"', algorithm='"bundle"')


def forger(made: Site, name: str) -> Command:
    """Start an organisation that forges its release."""
    own = [str(made.kit(name)), str(made.data[name]), "tests.flare.forger"]
    words = [sys.executable, "-m", "tests.flare.flare_command", "client", *own]
    command = Command(made.kit(name), words)
    made.commands.append(command)
    return command


def test_a_forged_release_ends_the_study_with_names(tmp_path: Path) -> None:
    """The server says whose weights do not fit, everybody ends, nobody has a model."""
    with site(tmp_path, small_study()) as made:
        server = made.server()
        clients = [made.client("north"), made.client("coast"), forger(made, "city")]
        assert server.ends(180) == 2
        said = " ".join(server.said.split())
        assert "released different weights of a feature that they both hold" in said
        assert "'city'" in said
        assert "'coast'" not in said.split("One of the organisations")[1]
        assert [client.ends(60) for client in clients[:2]] == [2, 2]
        assert not list(made.kits.glob("*/out/model.json"))


def test_a_forged_model_is_refused_by_the_organisation(tmp_path: Path) -> None:
    """A coordinator edits the file before one organisation has it."""
    with site(tmp_path, small_study()) as made:
        server, clients = made.start()
        assert server.ends(180) == 0, server.said
        assert [client.ends(60) for client in clients.values()] == [0] * 3
        model = made.kit("server") / "out" / "model.json"
        forged = json.loads(model.read_text("utf-8"))
        forged["weights"]["x4"] = [9.0]
        model.write_text(json.dumps(forged), "utf-8")
        (made.kit("server") / "state" / "over.json").write_text('["city"]', "utf-8")
        for file in ("state/over.json", "out/model.json"):
            (made.kit("city") / file).unlink()
        server, city = made.server("--resume"), made.client("city")
        assert city.ends(120) == 2
        assert server.ends(120) == 2
        for command in (city, server):
            said = " ".join(command.said.split())
            assert "the model does not fit what this organisation released" in said
            assert "'x4'" in said
        assert "'city'" in server.said
        assert not (made.kit("city") / "out" / "model.json").exists()

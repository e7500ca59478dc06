"""Settings in startup kits that name programs: never adopted, never started with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hyfdca.errors import StudyError
from hyfdca.kits.existing import install_client, install_server
from hyfdca.kits.kit import read_client_kit
from hyfdca.kits.policy import is_strict_client, write_policy
from hyfdca.kits.startup_settings import refuse_other_settings
from tests.kits.kit_makers import Parties

pytest.importorskip("nvflare")

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]


def program(marker: Path) -> dict[str, object]:
    """Return settings from which NVFlare runs a program that makes a file."""
    arguments = {"args": ["touch", str(marker)]}
    one = {"id": "one", "path": "subprocess.Popen", "args": arguments}
    return {"format_version": 2, "components": [one]}


def add(path: Path, settings: dict[str, object]) -> None:
    """Write settings to a file, beside those that it may already have."""
    path.parent.mkdir(exist_ok=True)
    old = json.loads(path.read_bytes()) if path.exists() else {}
    path.write_text(json.dumps(old | settings))


# Reads the settings of a client and makes its components, as NVFlare's client does.
NVFLARES_START = """
import argparse, sys
from nvflare.apis.workspace import Workspace
from nvflare.private.fed.app.fl_conf import FLClientStarterConfiger
flare = sys.argv[1]
given = dict(job_id=None, workspace=flare, set=[], fed_client="fed_client.json")
pairs = ["uid=north", "secure_train=true", "org=hyfdca", "config_folder=config"]
made = FLClientStarterConfiger(
    Workspace(flare, "north"), argparse.Namespace(**given, export_dir=None), pairs
)
made.configure()
assert "hyfdca_guard" in made.components
for one in made.components.values():
    if hasattr(one, "wait"):
        one.wait()
"""


def start_as_nvflare_does(flare: Path) -> None:
    """Let NVFlare make the components of a client, in a process of its own."""
    command = [sys.executable, "-c", NVFLARES_START, str(flare)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603


PLACES = (
    "local/x__resources.json",
    "startup/x__p_resources.json",
    "startup/fed_client.json",
    "startup/more/comm_config.json",
    "local/privacy.json",
    "local/custom/module.py",
)


@pytest.mark.slow
def test_nothing_of_an_adopted_kit_is_run(installed: Parties, tmp_path: Path) -> None:
    """Programs that the coordinator's startup kit names are not copied."""
    flare, marker = installed.kit("north") / "flare", tmp_path / "ran"
    for place in PLACES:
        add(flare / place, program(marker))
    out = tmp_path / "kit"
    install_client(flare, installed.study, installed.keys("north"), out)
    assert is_strict_client(out / "flare")
    start_as_nvflare_does(out / "flare")
    assert not marker.exists()
    owners = [read_client_kit(kit).owner for kit in (out, installed.kit("north"))]
    assert owners[0] == owners[1]


def test_the_admins_programs_are_not_adopted(
    installed: Parties, tmp_path: Path
) -> None:
    """The coordinator's own startup kits may come from somebody else, too."""
    server = installed.kits / "server"
    for place in ("startup/fed_admin.json", "local/resources.json.default"):
        add(server / "admin" / place, {"handlers": []})
    with pytest.raises(StudyError, match=r"has 'handlers'.* remove that"):
        refuse_other_settings(server / "admin", "admin")
    out = tmp_path / "kit"
    install_server(server / "flare", server / "admin", installed.study, out)
    refuse_other_settings(out / "admin", "admin")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_start_runs_no_other_program(
    installed: Parties, tmp_path: Path, place: str
) -> None:
    """Files in ``local`` are removed; those in ``startup`` are refused by name."""
    flare, marker = installed.kit("north") / "flare", tmp_path / "ran"
    assert is_strict_client(flare)
    add(flare / place, program(marker))
    assert not is_strict_client(flare)
    if place.startswith("local"):
        write_policy(flare, "client")
        assert is_strict_client(flare)
        start_as_nvflare_does(flare)
    else:
        with pytest.raises(StudyError, match=r"hyfdca did not write.* remove"):
            write_policy(flare, "client")
    assert not marker.exists()

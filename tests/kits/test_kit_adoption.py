"""Startup kits from elsewhere: adopted and made strict, or refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from hyfdca.kits import authority as authority_module
from hyfdca.kits.authority import new_authority
from hyfdca.kits.kit import read_client_kit, read_server_kit
from hyfdca.kits.policy import CLASS_ALLOW_LIST, is_strict_client
from tests.kits.kit_commands import refused, succeed

pytest.importorskip("nvflare")

from nvflare.lighter.constants import CtxKey
from nvflare.lighter.entity import Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.provisioner import Provisioner

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]


def loosened(flare):
    """Loosen a startup kit to NVFlare's own defaults."""
    for name in ("resources.json", "authorization.json"):
        (flare / "local" / name).unlink()
    return flare


def test_a_clients_startup_kit_is_adopted(installed, hyfdca, tmp_path):
    """Keys and certificates are copied; settings are strict, the rest stays there."""
    flare = loosened(installed.kit("north") / "flare")
    assert not is_strict_client(flare)
    (flare / "log.txt").write_text("old")
    succeed(
        hyfdca,
        *("kit", "adopt", flare, "--study", installed.study),
        *("--keys", installed.kit("north") / "keys", "--out", tmp_path / "kit"),
    )
    kit = tmp_path / "kit"
    assert {path.name for path in kit.iterdir()} == {
        *("study.toml", "keys", "policy.toml", "flare"),
    }
    assert is_strict_client(kit / "flare")
    assert not (kit / "flare" / "log.txt").exists()
    key = "startup/client.key"
    assert (kit / "flare" / key).read_bytes() == (flare / key).read_bytes()
    data = installed.root / "north" / "data.csv"
    succeed(hyfdca, "check", "--kit", kit, "--data", data)


def test_a_servers_startup_kit_is_adopted(installed, hyfdca, tmp_path):
    """It is adopted together with the admin's."""
    server = installed.kits / "server"
    loosened(server / "flare")
    succeed(
        hyfdca,
        *("kit", "adopt", server / "flare", "--admin", server / "admin"),
        *("--study", installed.study, "--out", tmp_path / "kit"),
    )
    kit = tmp_path / "kit"
    assert {path.name for path in kit.iterdir()} == {"study.toml", "admin", "flare"}
    text = (kit / "flare/local/resources.json").read_text()
    assert str(kit / "flare" / "jobs") in text
    assert json.loads(text)["class_allow_list"] == list(CLASS_ALLOW_LIST)


def nvflare_kits(folder):
    """Let NVFlare itself provision a server, an organisation and two people."""
    project = Project("project", "")
    project.set_server("localhost", "org", {"fed_learn_port": 8002})
    project.add_client("north", "org", {})
    for name, role in (("boss@org.com", "project_admin"), ("lead@org.com", "lead")):
        project.add_admin(name, "org", {"role": role})
    builders = [WorkspaceBuilder(), StaticFileBuilder(scheme="grpc"), CertBuilder()]
    context = Provisioner(str(folder), builders).provision(project)
    return Path(context[CtxKey.CURRENT_PROD_DIR])


def test_startup_kits_that_nvflare_made(installed, hyfdca, tmp_path, capsys):
    """They work as they are; the server's admin must be allowed to submit jobs."""
    made = nvflare_kits(tmp_path / "nvflare")
    capsys.readouterr()
    common = ("--study", installed.study, "--out")
    keys = ("--keys", installed.keys("north"))
    succeed(hyfdca, "kit", "adopt", made / "north", *common, tmp_path / "north", *keys)
    kit = read_client_kit(tmp_path / "north")
    assert (kit.owner.name, kit.owner.organisation) == ("north", "org")
    arguments = ("kit", "adopt", made / "localhost", *common)
    admin = ("--admin", made / "boss@org.com")
    succeed(hyfdca, *arguments, tmp_path / "server", *admin)
    server = read_server_kit(tmp_path / "server")
    assert (server.admin_name, server.owner.organisation) == ("boss@org.com", "org")
    lead = ("--admin", made / "lead@org.com")
    errors = refused(hyfdca, tmp_path, *arguments, tmp_path / "other", *lead)
    assert "not that of a project_admin" in errors
    other = ("--admin", installed.kits / "server/admin")
    errors = refused(hyfdca, tmp_path, *arguments, tmp_path / "other", *other)
    assert "different roots" in errors


def startup(parties, name="north"):
    return parties.kit(name) / "flare" / "startup"


def other_roots(parties):
    """Give the organisation a startup kit whose root did not sign it."""
    other = new_authority().root
    pem = authority_module.tls.certificate_pem(other)
    (startup(parties) / "rootCA.pem").write_text(pem)


def other_key(parties):
    shutil.copy(startup(parties, "city") / "client.key", startup(parties))


NOT_ADOPTED = {
    "another name": (
        lambda p: shutil.copytree(startup(p, "city"), startup(p), dirs_exist_ok=True),
        "is that of 'city', but the keys",
    ),
    "another root": (other_roots, "do not match"),
    "another key": (other_key, "do not match"),
    "open key": (lambda p: (startup(p) / "client.key").chmod(0o644), "chmod 600"),
    "no settings": (lambda p: (startup(p) / "fed_client.json").unlink(), "Cannot read"),
    "no folder": (lambda p: shutil.rmtree(startup(p)), "Cannot read"),
    "no address": (
        lambda p: (startup(p) / "fed_client.json").write_text('{"servers": []}'),
        "is damaged",
    ),
}


@pytest.mark.parametrize("case", NOT_ADOPTED)
def test_startup_kits_that_are_not_adopted(installed, hyfdca, case):
    """Each gets one sentence, and nothing is written."""
    change, message = NOT_ADOPTED[case]
    change(installed)
    errors = refused(
        hyfdca,
        installed.root,
        *("kit", "adopt", installed.kit("north") / "flare"),
        *("--study", installed.study, "--keys", installed.keys("north")),
        *("--out", installed.root / "north" / "new"),
    )
    assert message in errors


def test_adopting_needs_keys_or_an_admin(installed, hyfdca):
    """A server has no organisation's keys, a client no admin."""
    errors = refused(
        hyfdca,
        installed.root,
        *("kit", "adopt", installed.kit("north") / "flare"),
        *("--study", installed.study, "--out", installed.root / "new"),
    )
    assert "--keys for a client's" in errors

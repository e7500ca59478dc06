"""Installed kits: whom they connect to, and what jobs may do in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from cryptography import x509

from hyfdca.errors import StudyError
from hyfdca.kits.kit import Owner, read_certificate, read_client_kit, read_server_kit
from hyfdca.kits.policy import CLASS_ALLOW_LIST, write_policy
from tests.kits.kit_commands import succeed
from tests.kits.kit_makers import NAMES

pytest.importorskip("nvflare")

from hyfdca.kits.guard import SettingsOnly

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]


def flares(parties):
    """Return every startup kit that runs jobs."""
    return [parties.kits / "server/flare", *(parties.kit(n) / "flare" for n in NAMES)]


def test_jobs_can_do_nothing_but_train(installed):
    """Classes are listed, code is refused, logs stay, and jobs must be signed."""
    for flare in flares(installed):
        resources = json.loads((flare / "local/resources.json").read_bytes())
        assert resources["class_list_enforcement_mode"] == "enforce"
        assert resources["class_allow_list"] == list(CLASS_ALLOW_LIST)
        assert resources["allow_log_streaming"] is False
        assert resources["app_validator"]["path"] == "hyfdca.kits.guard.SettingsOnly"
        policy = json.loads((flare / "local/authorization.json").read_bytes())
        assert list(policy["permissions"]) == ["project_admin"]
        rights = policy["permissions"]["project_admin"]
        assert (rights["byoc"], rights["shell_commands"]) == ("none", "none")
        part = "server" if "server" in flare.parts else "client"
        assert rights["operate"] == ("any" if part == "server" else "none")
        fed = json.loads((flare / f"startup/fed_{part}.json").read_bytes())
        assert fed["require_signed_jobs"] is True
        guards = [c for c in resources["components"] if c["id"] == "hyfdca_guard"]
        assert len(guards) == (part == "client")


def test_connections_are_as_the_study_says(enrolled, hyfdca):
    """Host, port and name are in every kit, and TLS is mutual."""
    enrolled.write_study(*NAMES, server='host = "fl.example.org"\nport = 9001')
    succeed(
        hyfdca,
        *("provision", enrolled.study, "--requests", enrolled.requests),
        *("--out", enrolled.kits),
    )
    package = enrolled.kits / "north.package.json"
    kit = enrolled.kit("north")
    arguments = ("--keys", enrolled.keys("north"), "--out", kit)
    succeed(hyfdca, "kit", "install", package, *arguments)
    fed = json.loads((kit / "flare/startup/fed_client.json").read_bytes())
    assert fed["servers"][0]["service"]["target"] == "fl.example.org:9001"
    assert fed["servers"][0]["identity"] == "hyfdca-server"
    assert fed["client"]["connection_security"] == "mtls"
    admin = enrolled.kits / "server/admin/startup/fed_admin.json"
    settings = json.loads(admin.read_bytes())["admin"]
    assert (settings["host"], settings["port"]) == ("localhost", 9001)
    server = read_certificate(enrolled.kits / "server/flare", "server")
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    hosts = names.value.get_values_for_type(x509.DNSName)
    assert hosts == ["fl.example.org", "localhost"]


def test_the_servers_jobs_are_stored_in_its_kit(installed):
    """They are, even after the kit was moved."""
    flare, elsewhere = installed.kits / "server/flare", installed.root / "elsewhere"
    resources = flare / "local/resources.json"
    assert "/tmp/nvflare" not in resources.read_text()  # noqa: S108
    flare.rename(elsewhere)
    write_policy(elsewhere, "server")
    text = (elsewhere / "local/resources.json").read_text()
    assert str(elsewhere / "jobs") in text
    assert str(elsewhere / "snapshots") in text
    assert str(flare) not in text


def test_kits_are_read_back(installed):
    """They have the names that NVFlare's command line needs."""
    server = read_server_kit(installed.kits / "server")
    assert server.admin_name == "admin@hyfdca.local"
    assert server.owner == Owner("hyfdca-server", "hyfdca", "hyfdca-server:8102")
    assert server.names == NAMES
    assert (server.out.name, server.log.name, server.state.name) == (
        "out",
        "log",
        "state",
    )
    client = read_client_kit(installed.kit("north"))
    assert client.client.name == "north"
    assert client.owner == Owner("north", "hyfdca", "localhost:8102")
    assert (client.log.name, client.state.name) == ("log", "state")
    assert client.content == server.content
    with pytest.raises(StudyError, match="no startup kit"):
        read_server_kit(installed.kit("north"))


def test_clients_answer_to_nothing_but_jobs():
    """The test uses a separate process, because NVFlare's list is changed in place."""
    script = (
        "from hyfdca.kits.guard import JobsOnly, ClientRequestProcessors as known\n"
        "JobsOnly()\n"
        "print(*(t for p in known.request_processors for t in p.get_topics()))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    topics = done.stdout.split()
    assert {"train.deploy", "train.start_job", "train.abort"} <= {*topics}
    refused = {"sys.shell", "train.shutdown", "train.restart"}
    assert not refused & {*topics}
    assert not any("log" in topic for topic in topics)


def job(folder, **files):
    """Write a job's application; "__" in a name stands for a folder."""
    for name, content in {"config__config_fed_client.json": "{}", **files}.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return str(folder)


def test_jobs_of_settings_pass(tmp_path):
    """NVFlare's signatures in every folder do not matter."""
    folder = job(tmp_path)
    for name in (".__nvfl_sig.json", ".__nvfl_submitter.crt"):
        for place in (tmp_path, tmp_path / "config"):
            (place / name).write_text("{}")
    assert SettingsOnly().validate(folder) == ("", {})


@pytest.mark.parametrize(
    "name",
    [
        "custom__evil.py",
        "evil.py",
        "config__evil.py",
        "config__config_fed_client.conf",
        "config__more__config_fed_client.json",
        "config__log_config.json",
    ],
)
def test_jobs_with_anything_else_are_refused(tmp_path, name):
    """Code by any name, and settings that NVFlare would also read."""
    reason, _ = SettingsOnly().validate(job(tmp_path, **{name: "x = 1"}))
    assert reason.startswith("hyfdca accepts only jobs without code")


def test_jobs_with_links_or_huge_settings_are_refused(tmp_path):
    """A link can lead anywhere."""
    folder = job(tmp_path / "huge", **{"config__config_fed_server.json": " " * 2**20})
    assert SettingsOnly().validate(folder)[0]
    folder = job(tmp_path / "link")
    (tmp_path / "link" / "config" / "config_fed_server.json").symlink_to("/etc/hosts")
    assert SettingsOnly().validate(folder)[0]

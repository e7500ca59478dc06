"""Kits in use: a real server and a client of NVFlare meet over mutual TLS.

All tests share the two. NVFlare's own commands run them, so what is refused is refused
by the kits alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hyfdca.kits import tls
from hyfdca.kits.all_local import provision_all
from hyfdca.kits.authority import read_authority
from hyfdca.kits.installing import install
from hyfdca.kits.provisioning import provision
from hyfdca.kits.startup import ADMIN, ORG
from tests.flare.flare_parties import own_port, wait_until
from tests.kits.kit_makers import NAMES, Parties
from tests.support.consortia import make_files

pytest.importorskip("nvflare")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.xdist_group("online 2"),
]

_PATIENCE = 60  # seconds; a client is present within ten

# In a process of its own, because NVFlare's session leaves threads behind.
_ASK = """
import json, sys, time
from nvflare.fuel.flare_api.flare_api import new_secure_session

name, kit, n_clients, patience, *jobs = json.loads(sys.argv[1])
session, answers = new_secure_session(name, kit, timeout=patience), []
deadline = time.time() + patience
while True:
    info = session.get_system_info()
    present = sorted(client.name for client in info.client_info)
    if len(present) >= n_clients or time.time() > deadline:
        break
    time.sleep(0.5)
for number in [session.submit_job(job) for job in jobs]:
    while time.time() < deadline:
        meta = session.get_job_meta(number)
        if meta["status"].startswith("FINISHED"):
            break
        time.sleep(0.5)
    answers.append([meta["status"], str(meta.get("job_deploy_detail"))])
shell = session.api.do_command("ls " + present[0]) if present else {}
print("ANSWER" + json.dumps([present, answers, str(shell.get("data"))]))
session.close()
"""


@contextlib.contextmanager
def running(kit: Path, part: str, name: str) -> Iterator[None]:
    """Run a server or a client of NVFlare until the end of the block."""
    command = [
        *(sys.executable, "-m", f"nvflare.private.fed.app.{part}.{part}_train"),
        *("-m", str(kit / "flare"), "-s", f"fed_{part}.json", "--set"),
        *("secure_train=true", f"org={ORG}", f"uid={name}", "config_folder=config"),
    ]
    with (kit / "out.txt").open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=kit)  # noqa: S603
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Meeting(NamedTuple):
    """The kits of a study, of which the server and one client run."""

    kits: Path
    client: Path
    port: int


@pytest.fixture(scope="module")
def meeting(
    enrolled_once: Parties, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Meeting]:
    """Run kits that were made as between separate machines."""
    folder = tmp_path_factory.mktemp("meeting")
    parties = enrolled_once.copy(folder / "parties")
    port = own_port()
    parties.write_study(*NAMES, server=f"port = {port}")
    provision(parties.study, parties.requests, parties.kits, None)
    client = parties.kit("north")
    install(parties.kits / "north.package.json", parties.keys("north"), client)
    with (
        running(parties.kits / "server", "server", ""),
        running(client, "client", "north"),
    ):
        yield Meeting(parties.kits, client, port)


def ask(meeting: Meeting, *jobs: Path) -> tuple[list[str], list[list[str]], str]:
    """Return who is present, what became of jobs, and a shell command's answer."""
    admin = meeting.kits / "server" / "admin"
    question = [ADMIN, str(admin), 1, _PATIENCE, *map(str, jobs)]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _ASK, json.dumps(question)],
        capture_output=True,
        text=True,
        check=True,
        timeout=5 * _PATIENCE,
    )
    present, answers, shell = json.loads(
        done.stdout.partition("ANSWER")[2].splitlines()[0]
    )
    return present, answers, shell


def write_job(folder: Path, path: str, code: bool = False) -> Path:
    """Write a job that names a class, with or without code of its own."""
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    if code:
        (folder / "app" / "custom").mkdir()
        (folder / "app" / "custom" / "evil.py").write_text("x = 1\n")
    meta = {
        "name": folder.name,
        "resource_spec": {},
        "deploy_map": {"app": ["@ALL"]},
        "min_clients": 1,
    }
    part = {"path": path, "args": {}}
    client = {"executors": [{"tasks": ["*"], "executor": part}], "components": []}
    server = {"workflows": [{"id": "workflow", **part}], "components": []}
    (folder / "meta.json").write_text(json.dumps(meta))
    for name, content in (("client", client), ("server", server)):
        text = json.dumps({"format_version": 2, **content})
        (config / f"config_fed_{name}.json").write_text(text)
    return folder


def submit_as(role: str, kits: Path) -> None:
    """Let the coordinator submit jobs with another role: its root can issue any."""
    startup, key = kits / "server/admin/startup", tls.new_key()
    shown = read_authority(kits / "ca").issue(ADMIN, role, key.public_key())
    (startup / "client.key").write_bytes(tls.key_pem(key))
    (startup / "client.crt").write_text(tls.certificate_pem(shown))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("role", ["super", "project_admin"])
def test_kits_meet_and_refuse_code(meeting: Meeting, tmp_path: Path, role: str) -> None:
    """Kits of separate machines register; code, classes and commands do not run.

    NVFlare lets the role "super" do everything; the guards do not ask for roles.
    """
    submit_as(role, meeting.kits)
    jobs = [
        write_job(tmp_path / "code", "hyfdca.flare.Nothing", code=True),
        write_job(tmp_path / "class", "nvflare.app_common.workflows.fedavg.FedAvg"),
        write_job(tmp_path / "function", "hyfdca.cli.main.main"),
    ]
    before = len((meeting.client / "out.txt").read_text())
    present, answers, shell = ask(meeting, *jobs)
    assert present == ["north"]
    assert answers[0][0] == "FINISHED:FAILED_TO_RUN"
    assert "only jobs without code" in answers[0][1]
    log = (meeting.client / "out.txt").read_text()[before:]
    for path in ("nvflare.app_common.workflows.fedavg.FedAvg", "hyfdca.cli.main.main"):
        assert f"Component '{path}'" in log
    assert log.count("is not in allow_list") >= 2
    assert "invalid_request" in shell


def is_let_in(meeting: Meeting, certified: Path | None) -> bool:
    """Return whether the server speaks to a client with the certificate of a kit."""
    context = ssl.create_default_context(
        cafile=startup_of(meeting.client, "rootCA.pem")
    )
    context.set_alpn_protocols(["h2"])
    if certified is not None:
        pair = (startup_of(certified, name) for name in ("client.crt", "client.key"))
        context.load_cert_chain(*pair)
    try:
        with (
            socket.create_connection(("localhost", meeting.port), _PATIENCE) as bare,
            context.wrap_socket(bare, server_hostname="localhost") as channel,
        ):
            return bool(channel.recv(1))  # of the settings that gRPC begins with
    except (ssl.SSLError, ConnectionError):
        return False


def startup_of(kit: Path, name: str) -> Path:
    """Return a startup file of a kit."""
    return kit / "flare" / "startup" / name


def test_a_client_of_another_root_is_not_let_in(
    meeting: Meeting, tmp_path: Path
) -> None:
    """Mutual TLS keeps out clients that the coordinator did not approve."""
    files = make_files()
    files.organisations["coast"].extra = f'data = "x"\n[server]\nport = {own_port()}'
    provision_all(files.write(tmp_path), tmp_path / "others")
    wait_until(lambda: is_let_in(meeting, meeting.client), _PATIENCE, "a server")
    assert not is_let_in(meeting, tmp_path / "others" / "north")
    assert not is_let_in(meeting, None)
    assert is_let_in(meeting, meeting.client)

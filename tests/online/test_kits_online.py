"""Kits in use: a real server and clients of NVFlare meet over mutual TLS."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import pytest

from hyfdca.flare.processes import free_port
from hyfdca.kits import tls
from hyfdca.kits.all_local import provision_all
from hyfdca.kits.authority import read_authority
from hyfdca.kits.installing import install
from hyfdca.kits.provisioning import provision
from hyfdca.kits.startup import ADMIN, ORG
from tests.kits.kit_makers import NAMES
from tests.support.consortia import make_files

pytest.importorskip("nvflare")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]

_PATIENCE = 60  # seconds; a client is there within ten

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
for job in jobs:
    number = session.submit_job(job)
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
def running(kit, part, name):
    """Run a server or a client of NVFlare until the end of the block."""
    command = [
        *(sys.executable, "-m", f"nvflare.private.fed.app.{part}.{part}_train"),
        *("-m", str(kit / "flare"), "-s", f"fed_{part}.json", "--set"),
        *("secure_train=true", f"org={ORG}", f"uid={name}", "config_folder=config"),
    ]
    with (kit / "out.txt").open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=kit)  # noqa: S603
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ask(server_kit, n_clients, *jobs, patience=_PATIENCE):
    """Return who is there, what became of jobs, and what a shell command says."""
    question = [ADMIN, str(server_kit / "admin"), n_clients, patience, *map(str, jobs)]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _ASK, json.dumps(question)],
        capture_output=True,
        text=True,
        check=True,
        timeout=3 * _PATIENCE,
    )
    return json.loads(done.stdout.partition("ANSWER")[2].splitlines()[0])


def write_job(folder, path, code=False):
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


def submit_as(role, kits):
    """Have the coordinator submit jobs with another role: its root can issue any."""
    startup, key = kits / "server/admin/startup", tls.new_key()
    shown = read_authority(kits / "ca").issue(ADMIN, role, key.public_key())
    (startup / "client.key").write_bytes(tls.key_pem(key))
    (startup / "client.crt").write_text(tls.certificate_pem(shown))


@pytest.mark.parametrize("role", ["project_admin", "super"])
def test_kits_meet_and_refuse_code(enrolled, tmp_path, role):
    """Kits of separate machines register; code, classes and commands do not run.

    NVFlare lets the role "super" do everything; the guards do not ask for roles.
    """
    enrolled.write_study(*NAMES, server=f"port = {free_port()}")
    provision(enrolled.study, enrolled.requests, enrolled.kits, None)
    package, kit = enrolled.kits / "north.package.json", enrolled.kit("north")
    install(package, enrolled.keys("north"), kit)
    server = enrolled.kits / "server"
    submit_as(role, enrolled.kits)
    jobs = [
        write_job(tmp_path / "code", "hyfdca.flare.Nothing", code=True),
        write_job(tmp_path / "class", "nvflare.app_common.workflows.fedavg.FedAvg"),
        write_job(tmp_path / "function", "hyfdca.cli.main.main"),
    ]
    with running(server, "server", ""), running(kit, "client", "north"):
        present, answers, shell = ask(server, 1, *jobs)
    assert present == ["north"]
    assert answers[0][0] == "FINISHED:FAILED_TO_RUN"
    assert "jobs without code alone" in answers[0][1]
    log = (kit / "out.txt").read_text()
    for path in ("nvflare.app_common.workflows.fedavg.FedAvg", "hyfdca.cli.main.main"):
        assert f"Component '{path}'" in log
        assert "is not in allow_list" in log
    assert "invalid_request" in shell


def test_a_client_of_another_root_is_not_let_in(tmp_path):
    """Mutual TLS keeps out whoever the coordinator did not approve."""
    port = free_port()
    files = make_files()
    files.organisations["coast"].extra = f'data = "x"\n[server]\nport = {port}'
    study = files.write(tmp_path)
    for name in ("ours", "theirs"):
        provision_all(study, tmp_path / name)
    server = tmp_path / "ours" / "server"
    with (
        running(server, "server", ""),
        running(tmp_path / "ours" / "city", "client", "city"),
        running(tmp_path / "theirs" / "north", "client", "north"),
    ):
        present, _, _ = ask(server, 2, patience=25)
    assert present == ["city"]

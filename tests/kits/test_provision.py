"""Enrolment and provisioning: kits for everybody, nobody's secrets elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

import pytest

from hyfdca.kits import startup
from hyfdca.kits.enrolment import enrol
from hyfdca.kits.key_files import read_identity
from tests.kits.kit_commands import provision_refused, refused, succeed
from tests.kits.kit_makers import NAMES, PRIVATE_MARKS, Parties, snapshot

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]
pytest.importorskip("nvflare")


def secrets_of(parties, name):
    """Return what must never be found outside an organisation."""
    keys = parties.keys(name)
    lines = (keys / "tls.key").read_bytes().splitlines()
    return [(keys / "secret.key").read_bytes().strip(), *lines[1:-1]]


def test_everybody_gets_a_kit_and_keeps_its_keys(tmp_path, hyfdca):
    """The whole procedure by commands; no file between parties contains a secret."""
    parties = Parties(tmp_path)
    for name in NAMES:
        output = succeed(hyfdca, "enrol", "--name", name, "--out", parties.keys(name))
        identity = read_identity(parties.keys(name))
        assert f'public_key = "{identity.public.text}"\n' in output
        assert f"Send {parties.keys(name) / name}.request.json to" in output
    parties.write_study(*NAMES)
    parties.hand_in(*NAMES)
    output = succeed(
        hyfdca,
        *("provision", parties.study, "--requests", parties.requests),
        *("--out", parties.kits),
    )
    numbers = re.findall(r"(?:[0-9a-f]{4} ){15}[0-9a-f]{4}", output)
    assert len(numbers) == 2
    for name in NAMES:
        package = parties.kits / f"{name}.package.json"
        assert not any(mark in package.read_bytes() for mark in PRIVATE_MARKS)
        shutil.copy(package, parties.root / name)
        output = succeed(
            hyfdca,
            *("kit", "install", parties.root / name / package.name),
            *("--keys", parties.keys(name), "--out", parties.kit(name)),
            *("--fingerprint", numbers[0], "--fingerprint", numbers[1]),
        )
        assert re.findall(r"(?:[0-9a-f]{4} ){15}[0-9a-f]{4}", output) == numbers
        assert_client_kit(parties, name)
    assert_secrets_stay(parties)
    assert_server_kit(parties)


def assert_client_kit(parties, name):
    kit = parties.kit(name)
    assert {path.name for path in kit.iterdir()} == {
        *("study.toml", "keys", "policy.toml", "flare"),
    }
    assert (kit / "study.toml").read_bytes() == parties.study.read_bytes()
    secret = (parties.keys(name) / "secret.key").read_bytes()
    assert (kit / "keys" / "secret.key").read_bytes() == secret
    own = (parties.keys(name) / "tls.key").read_bytes()
    assert (kit / "flare" / "startup" / "client.key").read_bytes() == own
    assert (kit / "flare" / "transfer").is_dir()


def assert_server_kit(parties):
    kit = parties.kits / "server"
    assert {path.name for path in kit.iterdir()} == {"study.toml", "flare", "admin"}
    assert (kit / "study.toml").read_bytes() == parties.study.read_bytes()
    assert (kit / "flare" / "startup" / "server.key").exists()
    assert (kit / "admin" / "startup" / "client.key").exists()


def assert_secrets_stay(parties):
    """Look for each organisation's secrets in the folders of all others."""
    for name in NAMES:
        secrets = secrets_of(parties, name)
        others = [p for p in parties.root.iterdir() if p.name != name]
        for path in (path for folder in others for path in folder.rglob("*")):
            content = path.read_bytes() if path.is_file() else b""
            assert not any(secret in content for secret in secrets)
    for path in parties.requests.iterdir():
        assert not any(mark in path.read_bytes() for mark in PRIVATE_MARKS)


def test_everything_is_for_its_owner_alone(installed):
    """Others cannot access folders and files of keys, kits and the root."""
    folders = [installed.kits]
    folders += [installed.kit(name) for name in NAMES]
    folders += [installed.keys(name) for name in NAMES]
    for path in (p for folder in folders for p in (folder, *folder.rglob("*"))):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert not mode & 0o077, path
        if path.suffix == ".key":
            assert mode == 0o600


def test_nothing_is_written_over(installed, hyfdca, tmp_path):
    """Neither keys nor a provisioned folder are overwritten."""
    assert "never overwritten" in provision_refused(hyfdca, installed)
    folder = installed.keys("north")
    errors = refused(
        hyfdca, installed.root, "enrol", "--name", "north", "--out", folder
    )
    assert "never overwritten" in errors
    errors = refused(
        hyfdca, tmp_path, "enrol", "--name", "../up", "--out", tmp_path / "up"
    )
    assert "cannot be used" in errors


def test_the_root_is_used_again_for_a_later_organisation(enrolled, hyfdca):
    """With --ca the root stays, and packages contain the new study file."""
    enrolled.write_study("north", "city")
    (enrolled.requests / "coast.request.json").unlink()
    first = succeed(
        hyfdca,
        *("provision", enrolled.study, "--requests", enrolled.requests),
        *("--out", enrolled.kits, "--ca", enrolled.root / "ca"),
    )
    enrolled.write_study(*NAMES)
    enrolled.hand_in("coast")
    later = enrolled.coordinator / "later"
    before = snapshot(enrolled.root / "ca")
    second = succeed(
        hyfdca,
        *("provision", enrolled.study, "--requests", enrolled.requests),
        *("--out", later, "--ca", enrolled.root / "ca"),
    )
    assert snapshot(enrolled.root / "ca") == before
    roots = [re.search("Root certificate: (.*)", text)[1] for text in (first, second)]
    assert roots[0] == roots[1]
    certificate = "flare/startup/rootCA.pem"
    old, new = (kits / "server" / certificate for kits in (enrolled.kits, later))
    assert old.read_bytes() == new.read_bytes()
    assert not (later / "ca").exists()
    assert sorted(path.name for path in later.iterdir()) == [
        *(f"{name}.package.json" for name in sorted(NAMES)),
        "server",
    ]


SPOILT_ROOTS = {
    "open": (lambda ca: (ca / "root.key").chmod(0o644), "chmod 600"),
    "no key": (lambda ca: (ca / "root.key").unlink(), "Cannot read"),
    "garbled key": (lambda ca: (ca / "root.key").write_bytes(b"x"), "not an RSA key"),
    "garbled": (lambda ca: (ca / "root.pem").write_bytes(b"\xff"), "garbled"),
    "no pair": (
        lambda ca: shutil.copy(ca.parent / "server/flare/startup/server.key",
                               ca / "root.key"),
        "do not match",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILT_ROOTS)
def test_a_root_that_cannot_be_used(installed, hyfdca, case):
    """It is never replaced by another behind people's backs."""
    change, message = SPOILT_ROOTS[case]
    change(installed.kits / "ca")
    errors = refused(
        hyfdca,
        installed.root,
        *("provision", installed.study, "--requests", installed.requests),
        *("--out", installed.coordinator / "later", "--ca", installed.kits / "ca"),
    )
    assert message in errors


def test_without_nvflare(enrolled, hyfdca, monkeypatch):
    """One sentence says what to install."""
    monkeypatch.setattr(startup, "find_spec", lambda _: None)
    assert "install hyfdca[nvflare]" in provision_refused(hyfdca, enrolled)


def test_a_folder_that_cannot_be_written_to(tmp_path, hyfdca):
    """One sentence reports it."""
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "keys"
    errors = refused(hyfdca, tmp_path, "enrol", "--name", "north", "--out", target)
    assert "Cannot write to" in errors


def test_keys_are_whole_or_not_there(tmp_path, monkeypatch):
    """An enrolment that fails leaves nothing behind."""
    monkeypatch.setattr(Path, "rename", _fail)
    with pytest.raises(RuntimeError):
        enrol("north", tmp_path / "keys")
    assert not list(tmp_path.iterdir())


def _fail(*_):
    raise RuntimeError

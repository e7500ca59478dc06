"""Enrolment and provisioning: kits for everybody, nobody's secrets elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from hyfdca.crypto.identity import Identity
from hyfdca.key_files import read_identity
from hyfdca.kits import startup
from hyfdca.kits.enrolment import OwnKeys, enrol, read_keys, request_of
from hyfdca.study import load
from tests.consortia import assert_one_sentence, make_files
from tests.kit_makers import NAMES, PRIVATE_MARKS, Parties, snapshot

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]
pytest.importorskip("nvflare")


def refused(hyfdca, watched, *arguments):
    """Return the one sentence of a command that fails and writes nothing."""
    before = snapshot(watched)
    code, output, errors = hyfdca(*arguments)
    assert (code, output) == (2, "")
    assert_one_sentence(errors)
    assert snapshot(watched) == before
    return errors


def provision_refused(hyfdca, parties):
    return refused(
        hyfdca,
        parties.root,
        *("provision", parties.study, "--requests", parties.requests),
        *("--out", parties.kits),
    )


def succeed(hyfdca, *arguments):
    code, output, errors = hyfdca(*arguments)
    assert (code, errors) == (0, "")
    return output


def secrets_of(parties, name):
    """Return what must never be found outside an organisation."""
    keys = parties.keys(name)
    lines = (keys / "tls.key").read_bytes().splitlines()
    return [(keys / "secret.key").read_bytes().strip(), *lines[1:-1]]


def test_everybody_gets_a_kit_and_keeps_its_keys(tmp_path, hyfdca):
    """The whole way by commands, every file between parties free of secrets."""
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
    assert {path.name for path in kit.iterdir()} == {"study.toml", "keys", "flare"}
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
    """Folders and files of keys, kits and the root are closed to all others."""
    folders = [installed.kits]
    folders += [installed.kit(name) for name in NAMES]
    folders += [installed.keys(name) for name in NAMES]
    for path in (p for folder in folders for p in (folder, *folder.rglob("*"))):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert not mode & 0o077, path
        if path.suffix == ".key":
            assert mode == 0o600


def spoil_request(of, **changes):
    """Return what changes fields of a request without signing it anew."""

    def change(parties):
        path = parties.requests / f"{of}.request.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def replace_request(name, as_name=None, identity=None, tls_key=None):
    """Return what puts a request of other keys in the place of one."""

    def change(parties):
        own = read_keys(parties.keys(name))
        keys = OwnKeys(identity or own.identity, tls_key or own.tls_key)
        content = msgspec.json.encode(request_of(as_name or name, keys))
        (parties.requests / f"{name}.request.json").write_bytes(content)

    return change


def write_request(name, content):
    def change(parties):
        (parties.requests / f"{name}.request.json").write_bytes(content)

    return change


def twice(parties):
    path = parties.requests / "north.request.json"
    shutil.copy(path, path.with_name("again.request.json"))


def swap(parties):
    """Give one organisation's identity another's certificate request."""
    paths = [parties.requests / f"{name}.request.json" for name in ("north", "city")]
    north, city = (json.loads(path.read_text()) for path in paths)
    north["certificate_request"] = city["certificate_request"]
    paths[0].write_text(json.dumps(north))


def small_key(parties):
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505
    replace_request("north", tls_key=key)(parties)


WRONG = {
    "another name": (spoil_request("north", name="south"), "changed on its way"),
    "another key": (
        replace_request("north", identity=Identity.generate()),
        "'north' has another public_key than the study file",
    ),
    "signed with another key": (
        spoil_request("north", public_key=Identity.generate().public.text),
        "changed on its way",
    ),
    "no organisation": (
        replace_request("north", as_name="south"),
        "request of 'south' .* none of the study's organisations",
    ),
    "somebody else's": (
        replace_request("north", as_name="city"),
        "two requests of 'city'",
    ),
    "another's certificate": (swap, "changed on its way"),
    "twice": (twice, "two requests of 'north'"),
    "missing": (
        lambda p: (p.requests / "city.request.json").unlink(),
        "no request of 'city'",
    ),
    "path": (replace_request("north", as_name="../../north"), "name .* cannot be used"),
    "hidden": (replace_request("north", as_name=".north"), "name .* cannot be used"),
    "new line": (replace_request("north", as_name="no\nrth"), "name .* cannot be used"),
    "small key": (small_key, "has 1024 bits"),
    "garbled": (write_request("north", b"{"), "garbled"),
    "no text": (write_request("north", b"\xff\xfe\x00"), "garbled"),
    "deep": (write_request("north", b"[" * 60_000), "garbled"),
    "unknown field": (spoil_request("north", more=1), "garbled"),
    "huge": (write_request("north", b" " * 70_000), "larger than"),
    "no folder": (lambda p: shutil.rmtree(p.requests), "Cannot read the folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests(enrolled, hyfdca, case):
    """Each is one sentence, and nothing is written."""
    change, message = WRONG[case]
    change(enrolled)
    assert re.search(message, provision_refused(hyfdca, enrolled))


def test_a_certificate_request_of_a_key_that_the_sender_lacks(enrolled, hyfdca):
    """The key must have signed its own request."""
    own = read_keys(enrolled.keys("north"))
    request = request_of("north", own)
    lines = request.certificate_request.splitlines()
    lines[-2] = lines[-2][::-1]
    broken = "\n".join(lines) + "\n"
    unsigned = msgspec.structs.replace(request, certificate_request=broken)
    signed = msgspec.structs.replace(
        unsigned, signature=own.identity.sign(unsigned.signed_part)
    )
    write_request("north", msgspec.json.encode(signed))(enrolled)
    assert "certificate request in" in provision_refused(hyfdca, enrolled)


def test_keys_missing_in_the_study_file(enrolled, hyfdca):
    """The complaint has the lines to add, after asking whose they are."""
    text = enrolled.study.read_text()
    enrolled.study.write_text(re.sub("public_key = .*", "", text))
    errors = provision_refused(hyfdca, enrolled)
    for name in NAMES:
        line = read_identity(enrolled.keys(name)).public.text
        assert f"'{name}': public_key = \"{line}\"" in errors


@pytest.mark.parametrize(
    "name", ["hyfdca-server", "CITY", "Süd", "a b", "-x", "x" * 64]
)
def test_names_that_cannot_be_used(enrolled, hyfdca, name):
    """Names of sites differ from each other, whatever a file system thinks."""
    text = enrolled.study.read_text()
    enrolled.study.write_text(text.replace('name = "north"', f'name = "{name}"'))
    errors = provision_refused(hyfdca, enrolled)
    assert re.search("differs from that of|cannot be used", errors)


def test_nothing_is_written_over(installed, hyfdca, tmp_path):
    """Neither keys nor what was provisioned."""
    assert "never written over" in provision_refused(hyfdca, installed)
    folder = installed.keys("north")
    errors = refused(
        hyfdca, installed.root, "enrol", "--name", "north", "--out", folder
    )
    assert "never written over" in errors
    errors = refused(
        hyfdca, tmp_path, "enrol", "--name", "../up", "--out", tmp_path / "up"
    )
    assert "cannot be used" in errors


def test_the_root_is_used_again_for_a_later_organisation(enrolled, hyfdca):
    """With --ca the root stays, and packages are of the new study file."""
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
    "garbled key": (lambda ca: (ca / "root.key").write_bytes(b"x"), "no RSA key"),
    "garbled": (lambda ca: (ca / "root.pem").write_bytes(b"\xff"), "garbled"),
    "no pair": (
        lambda ca: shutil.copy(ca.parent / "server/flare/startup/server.key",
                               ca / "root.key"),
        "no pair",
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


def test_all_at_once_on_one_machine(tmp_path, hyfdca):
    """Every kit is there, the study has everybody's key, and a warning is said."""
    path = make_files().write(tmp_path)
    kits = tmp_path / "kits"
    output = succeed(hyfdca, "provision", path, "--out", kits, "--all-local")
    assert "whoever can read this folder can be anybody" in output
    expected = {"ca", "server", "study.toml", *NAMES}
    assert {entry.name for entry in kits.iterdir()} == expected
    content = (kits / "study.toml").read_bytes()
    for client in load(kits / "study.toml").clients:
        kit = kits / client.name
        assert read_identity(kit / "keys").public.text == client.public_key
        assert (kit / "study.toml").read_bytes() == content
        succeed(hyfdca, "check", "--kit", kit, "--data", tmp_path / client.data)


ALL_LOCAL_WRONG = {
    "has keys": (
        'name = "north"', 'name = "north"\npublic_key = "{key}"', "already"
    ),
    "called server": ('name = "north"', 'name = "server"', "cannot be used"),
    "called ca": ('name = "north"', 'name = "ca"', "cannot be called"),
    "header in a text": (
        'name = "test"', 'name = """\n[[clients]]\n"""', "do not begin with"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ALL_LOCAL_WRONG)
def test_studies_that_cannot_be_made_at_once(tmp_path, hyfdca, case):
    """The study file must leave a place for each organisation's key."""
    old, new, message = ALL_LOCAL_WRONG[case]
    path = make_files().write(tmp_path)
    new = new.format(key=Identity.generate().public.text)
    path.write_text(path.read_text().replace(old, new))
    errors = refused(
        hyfdca, tmp_path, "provision", path, "--out", tmp_path / "k", "--all-local"
    )
    assert message in errors


@pytest.mark.parametrize(
    "options",
    [(), ("--all-local", "--requests", "r"), ("--all-local", "--ca", "c")],
)
def test_requests_or_all_local(tmp_path, hyfdca, options):
    """One of both has to be given."""
    path = make_files().write(tmp_path)
    errors = refused(
        hyfdca, tmp_path, "provision", path, "--out", tmp_path / "kits", *options
    )
    assert "either --requests" in errors


def test_without_nvflare(enrolled, hyfdca, monkeypatch):
    """One sentence says what to install."""
    monkeypatch.setattr(startup, "find_spec", lambda _: None)
    assert "install hyfdca[nvflare]" in provision_refused(hyfdca, enrolled)


def test_a_folder_that_cannot_be_written_to(tmp_path, hyfdca):
    """Is one sentence."""
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "keys"
    errors = refused(hyfdca, tmp_path, "enrol", "--name", "north", "--out", target)
    assert "Cannot write to" in errors


def test_keys_are_whole_or_not_there(tmp_path, monkeypatch):
    """Whatever stops enrolment leaves nothing."""
    monkeypatch.setattr(Path, "rename", _fail)
    with pytest.raises(RuntimeError):
        enrol("north", tmp_path / "keys")
    assert not list(tmp_path.iterdir())


def _fail(*_):
    raise RuntimeError

"""All kits made at once, on one machine."""

from __future__ import annotations

import os

import pytest

from hyfdca.crypto.keys.identity import Identity
from hyfdca.kits.key_files import read_identity
from hyfdca.study.file import load
from tests.kits.kit_commands import refused, succeed
from tests.kits.kit_makers import NAMES
from tests.support.consortia import make_files

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]
pytest.importorskip("nvflare")


def test_all_at_once_on_one_machine(tmp_path, hyfdca):
    """Every kit exists, the study has everybody's key, and a warning is shown."""
    path = make_files().write(tmp_path)
    kits = tmp_path / "kits"
    output = succeed(hyfdca, "provision", path, "--out", kits, "--all-local")
    assert "anyone who can read this folder can impersonate" in output
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
        'name = "test"',
        'name = "test"\nignore = ["""\n[[clients]]\n"""]',
        "do not begin with",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ALL_LOCAL_WRONG)
def test_studies_that_cannot_be_made_at_once(tmp_path, hyfdca, case):
    """The study file must leave room for each organisation's key."""
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
    """One of the two must be given."""
    path = make_files().write(tmp_path)
    errors = refused(
        hyfdca, tmp_path, "provision", path, "--out", tmp_path / "kits", *options
    )
    assert "either --requests" in errors

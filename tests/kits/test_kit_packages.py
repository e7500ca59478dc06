"""Packages: combined with an organisation's own keys, or refused in one sentence."""

from __future__ import annotations

import datetime
import json
import os

import msgspec
import pytest

from hyfdca.kits import authority as authority_module
from hyfdca.kits.authority import new_authority, read_authority
from hyfdca.kits.enrolment import read_keys
from hyfdca.kits.package import package_content
from tests.kits.kit_commands import refused, succeed

pytest.importorskip("nvflare")

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]


def install_refused(hyfdca, parties, *more, keys="north"):
    """Return why the package of north is not installed."""
    return refused(
        hyfdca,
        parties.root,
        *("kit", "install", package_of(parties), "--keys", parties.keys(keys)),
        *("--out", parties.root / "north" / "new", *more),
    )


def package_of(parties):
    return parties.root / "north" / "package.json"


def spoil(**changes):
    """Return a function that changes north's package without signing it again."""

    def change(parties):
        path = package_of(parties)
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def another_study(parties):
    """Put a study with a key of the coordinator's own into a signed package."""
    study = (parties.kit("north") / "study.toml").read_bytes()
    study = study.replace(b'name = "test"', b'name = "other"')
    spoil(study=msgspec.to_builtins(study))(parties)


def of_another_root(parties):
    """Sign the package with another root, and show the first one's certificate."""
    key = read_keys(parties.keys("north")).tls_key.public_key()
    first = read_authority(parties.kits / "ca")
    study = (parties.kit("north") / "study.toml").read_bytes()
    shown = first.issue("north", "client", key)
    package_of(parties).write_bytes(
        package_content(new_authority(), "north", study, shown)
    )


def signed(parties, name, keys="north", study=None):
    """Write a package as a coordinator could, with or without mistakes."""
    root = read_authority(parties.kits / "ca")
    key = read_keys(parties.keys(keys)).tls_key.public_key()
    study = study or (parties.kit("north") / "study.toml").read_bytes()
    shown = root.issue(name, "client", key)
    package_of(parties).write_bytes(package_content(root, name, study, shown))


def without_own_key(parties):
    study = (parties.kit("north") / "study.toml").read_bytes()
    own = (parties.keys("north") / "public.key").read_bytes().strip()
    line = b'public_key = "' + own + b'"\n'
    signed(parties, "north", study=study.replace(line, b""))


def bad_study(parties):
    signed(parties, "north", study=b"[study]\n")


def expired(parties):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authority_module, "_LEAF_DAYS", -1)
        patch.setattr(authority_module, "_CLOCKS_DIFFER", datetime.timedelta(days=9))
        signed(parties, "north")


WRONG = {
    "garbled": (lambda p: package_of(p).write_bytes(b"{]"), "garbled"),
    "huge": (lambda p: package_of(p).write_bytes(b" " * 2_000_001), "larger than"),
    "missing": (lambda p: package_of(p).unlink(), "Cannot read"),
    "unknown field": (spoil(more=1), "garbled"),
    "another name": (spoil(name="city"), "changed in transit"),
    "no certificate": (spoil(certificate="x"), "certificate in"),
    "no root": (spoil(root=""), "certificate in"),
    "changed study": (another_study, "changed in transit"),
    "another root": (of_another_root, "from another root"),
    "named as another": (lambda p: signed(p, "city"), "is for 'city', but the keys"),
    "for another key": (
        lambda p: signed(p, "north", "city"),
        "not for the given TLS key",
    ),
    "not in the study": (without_own_key, "No organisation of the study"),
    "no study": (bad_study, "names no organisations"),
    "expired": (expired, "has expired"),
    "no TLS key": (lambda p: (p.keys("north") / "tls.key").unlink(), "Cannot read"),
    "open TLS key": (
        lambda p: (p.keys("north") / "tls.key").chmod(0o640),
        "chmod 600",
    ),
    "garbled TLS key": (
        lambda p: (p.keys("north") / "tls.key").write_bytes(b"x"),
        "not an RSA key",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_packages_that_are_refused(installed, hyfdca, case):
    """Each gets one sentence, and nothing is written."""
    change, message = WRONG[case]
    change(installed)
    assert message in install_refused(hyfdca, installed)


def test_somebody_elses_package(installed, hyfdca):
    """A package fits the keys of one organisation."""
    assert "not for the given TLS key" in install_refused(
        hyfdca, installed, keys="city"
    )


def test_kits_are_not_written_over(installed, hyfdca):
    """A kit remembers what it did; another study is another kit."""
    errors = refused(
        hyfdca,
        installed.root,
        *("kit", "install", package_of(installed)),
        *("--keys", installed.keys("north"), "--out", installed.kit("north")),
    )
    assert "never overwritten" in errors


@pytest.mark.parametrize("wrong", ["", "00" * 32, "abc"])
def test_fingerprints_that_differ(installed, hyfdca, wrong):
    """A number that is neither the root's nor the study's stops everything."""
    errors = install_refused(hyfdca, installed, "--fingerprint", wrong)
    assert "neither the root certificate's nor the study's" in errors


def test_fingerprints_are_read_as_people_write_them(installed, hyfdca, tmp_path):
    """Spaces, colons and capitals do not matter."""
    arguments = ("kit", "install", package_of(installed))
    arguments += ("--keys", installed.keys("north"))
    output = succeed(hyfdca, *arguments, "--out", tmp_path / "first")
    number = output.splitlines()[1].removeprefix("Study:").strip()
    for written in (number, number.upper(), number.replace(" ", ":")):
        target = tmp_path / str(len(list(tmp_path.iterdir())))
        said = succeed(hyfdca, *arguments, "--out", target, "--fingerprint", written)
        assert number in said

"""Certificates that expire: warned about, renewed with the same keys, and in time."""

from __future__ import annotations

import datetime
import os
import re

import pytest

from hyfdca.errors import PassingError, StudyError
from hyfdca.kits import authority as authority_module
from hyfdca.kits import tls
from hyfdca.kits.authority import new_authority, read_authority, write_authority
from hyfdca.kits.checking import check_certificate
from hyfdca.kits.expiry import ExpiryWatch, expiry_warnings, require_valid
from hyfdca.kits.kit import certificate_path, read_client_kit, read_server_kit
from hyfdca.kits.package import package_content, read_package
from hyfdca.kits.provisioning import SERVER
from tests.kits.kit_commands import refused, succeed

pytest.importorskip("nvflare")

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]


def age(parties, days):
    """Reissue all certificates with this many days left, for the same keys."""
    ca = read_authority(parties.kits / "ca")
    server, client = server_kit(parties), read_client_kit(parties.kit("north"))
    places = [
        (server.flare, "server", "server", server.file.server.host),
        (server.admin, "client", "project_admin", None),
        (client.flare, "client", "client", None),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authority_module, "_LEAF_DAYS", days)
        patch.setattr(authority_module, "_CLOCKS_DIFFER", datetime.timedelta(days=99))
        for flare, base, role, host in places:
            path = certificate_path(flare, base)
            old = tls.load_certificate(path.read_text("ascii"), str(path))
            name, key = tls.common_name(old), old.public_key()
            new = ca.issue(name, role, key, host)
            path.write_text(tls.certificate_pem(new), "ascii")


def server_kit(parties):
    return read_server_kit(parties.kits / SERVER)


def renew_all(parties, hyfdca):
    """Renew as the coordinator and north would do it."""
    ca, old = parties.kits / "ca", parties.kits / "north.package.json"
    new = parties.root / "north" / "renewed.json"
    succeed(hyfdca, "kit", "renew", parties.kits / SERVER, "--ca", ca)
    said = succeed(hyfdca, "kit", "renew", old, "--ca", ca, "--out", new)
    assert f"Send {new} to north." in re.sub(r"\s+", " ", said)
    return succeed(hyfdca, "kit", "renew", parties.kit("north"), "--package", new)


def test_expired_certificates_are_refused_until_they_are_renewed(installed, hyfdca):
    """Keys, study and names stay; a service that restarts tries until it works."""
    age(installed, -1)
    kits = server_kit(installed), read_client_kit(installed.kit("north"))
    keys = [path.read_bytes() for path in sorted(installed.root.rglob("*.key"))]
    for kit in kits:
        with pytest.raises(PassingError, match=r"has expired, .*hyfdca kit renew"):
            require_valid(kit)
        assert len(expiry_warnings(kit)) == (2 if kit.side == "server" else 1)
    assert "is valid until" in renew_all(installed, hyfdca)
    for kit in kits:
        require_valid(kit)
        assert expiry_warnings(kit) == []
        assert kit.owner.name in ("hyfdca-server", "north")
    check_certificate(kits[1])
    assert kits[0].admin_name
    assert keys == [path.read_bytes() for path in sorted(installed.root.rglob("*.key"))]


def test_a_month_before_there_is_a_warning_every_day(installed, monkeypatch):
    """Days are counted independently of the clock."""
    age(installed, 20)
    kit, warnings, now = read_client_kit(installed.kit("north")), [], [0.0]
    monkeypatch.setattr("hyfdca.kits.expiry.time.monotonic", lambda: now[0])
    watch = ExpiryWatch(kit, warnings.append)
    for hour in range(50):
        now[0] = 3600.0 * hour
        watch.look()
    path = certificate_path(kit.flare, "client")
    assert len(warnings) == 3
    assert set(warnings) == {
        f"The certificate {path} expires in 19 days; renew it as docs/deploy.md "
        "describes (hyfdca kit renew)."
    }
    age(installed, 40)
    assert expiry_warnings(kit) == []


def wrong_root(parties, path):
    authority = new_authority()
    old = read_package(path)
    certificate = authority.issue("north", "client", old.certificate.public_key())
    path.write_bytes(package_content(authority, "north", old.study, certificate))


def signed(parties, path, *, key_of="north", study=b"", name="north"):
    authority = read_authority(parties.kits / "ca")
    old, own = read_package(path), parties.kits / f"{key_of}.package.json"
    key = read_package(own).certificate.public_key()
    certificate = authority.issue(name, "client", key)
    content = package_content(authority, name, study or old.study, certificate)
    path.write_bytes(content)


WRONG = {
    "another root": (wrong_root, "another root"),
    "another key": (
        lambda parties, path: signed(parties, path, key_of="city"),
        "another key",
    ),
    "another name": (
        lambda parties, path: signed(parties, path, name="city"),
        "another organisation",
    ),
    "another study": (
        lambda parties, path: signed(parties, path, study=b"x"),
        "another study",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_package_that_does_not_continue_a_kit_is_refused(installed, hyfdca, case):
    """The kit has its old certificate then."""
    change, why = WRONG[case]
    package = installed.root / "north" / "package.json"
    change(installed, package)
    arguments = ("kit", "renew", installed.kit("north"), "--package", package)
    assert why in refused(hyfdca, installed.root, *arguments)


def test_another_root_renews_nothing(installed, hyfdca, tmp_path):
    """It renews neither the server's kit nor a package."""
    write_authority(new_authority(), tmp_path / "other")
    other = ("--ca", tmp_path / "other")
    kit, package = installed.kits / SERVER, installed.kits / "north.package.json"
    out = ("--out", tmp_path / "new.json")
    for arguments in ((kit, *other), (package, *other, *out)):
        said = refused(hyfdca, installed.root, "kit", "renew", *arguments)
        assert "is from another root certificate" in said


@pytest.mark.parametrize(
    "options", [(), ("--ca", "a", "--package", "b"), ("--out", "a")], ids=str
)
def test_options_that_do_not_fit_are_refused(installed, hyfdca, options):
    """One sentence says which options are needed for what."""
    arguments = ("kit", "renew", installed.kit("north"), *options)
    assert "Give --ca for the server's kit" in refused(
        hyfdca, installed.root, *arguments
    )


def test_a_package_is_never_overwritten(installed, hyfdca):
    """Nothing that was provisioned ever is."""
    old = installed.kits / "north.package.json"
    arguments = ("kit", "renew", old, "--ca", installed.kits / "ca", "--out", old)
    assert "already exists" in refused(hyfdca, installed.root, *arguments)
    assert issubclass(PassingError, StudyError)

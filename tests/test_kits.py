"""Kits: packages joined with own keys, startup kits adopted, and both made strict."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from cryptography import x509

from hyfdca.kits import authority as authority_module
from hyfdca.kits.authority import new_authority, read_authority
from hyfdca.kits.enrolment import read_keys
from hyfdca.kits.kit import Owner, read_certificate, read_client_kit, read_server_kit
from hyfdca.kits.package import package_content
from hyfdca.kits.policy import CLASS_ALLOW_LIST, is_strict_client, write_policy
from hyfdca.study_error import StudyError
from tests.kit_commands import refused, succeed
from tests.kit_makers import NAMES

pytest.importorskip("nvflare")

from nvflare.lighter.constants import CtxKey
from nvflare.lighter.entity import Project
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.impl.static_file import StaticFileBuilder
from nvflare.lighter.impl.workspace import WorkspaceBuilder
from nvflare.lighter.provisioner import Provisioner

from hyfdca.kits.guard import SettingsOnly

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
    """Return what changes fields of north's package without signing it anew."""

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
    """Have another root sign the package, and show the first one's certificate."""
    key = read_keys(parties.keys("north")).tls_key.public_key()
    first = read_authority(parties.kits / "ca")
    study = (parties.kit("north") / "study.toml").read_bytes()
    shown = first.issue("north", "client", key)
    package_of(parties).write_bytes(
        package_content(new_authority(), "north", study, shown)
    )


def signed(parties, name, keys="north", study=None):
    """Write a package as a coordinator can who makes mistakes, or does not."""
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
    "another name": (spoil(name="city"), "changed on its way"),
    "no certificate": (spoil(certificate="x"), "certificate in"),
    "no root": (spoil(root=""), "certificate in"),
    "changed study": (another_study, "changed on its way"),
    "another root": (of_another_root, "of another root"),
    "named as another": (lambda p: signed(p, "city"), "is for 'city', but the keys"),
    "for another key": (lambda p: signed(p, "north", "city"), "not for the TLS key"),
    "not in the study": (without_own_key, "No organisation of the study"),
    "no study": (bad_study, "has a mistake"),
    "expired": (expired, "has expired"),
    "no TLS key": (lambda p: (p.keys("north") / "tls.key").unlink(), "Cannot read"),
    "open TLS key": (
        lambda p: (p.keys("north") / "tls.key").chmod(0o640),
        "chmod 600",
    ),
    "garbled TLS key": (
        lambda p: (p.keys("north") / "tls.key").write_bytes(b"x"),
        "no RSA key",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_packages_that_are_refused(installed, hyfdca, case):
    """Each is one sentence, and nothing is written."""
    change, message = WRONG[case]
    change(installed)
    assert message in install_refused(hyfdca, installed)


def test_somebody_elses_package(installed, hyfdca):
    """A package fits the keys of one organisation."""
    assert "not for the TLS key" in install_refused(hyfdca, installed, keys="city")


def test_kits_are_not_written_over(installed, hyfdca):
    """A kit remembers what it did; another study is another kit."""
    errors = refused(
        hyfdca,
        installed.root,
        *("kit", "install", package_of(installed)),
        *("--keys", installed.keys("north"), "--out", installed.kit("north")),
    )
    assert "never written over" in errors


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
    """Also after it was moved."""
    flare, elsewhere = installed.kits / "server/flare", installed.root / "elsewhere"
    resources = flare / "local/resources.json"
    assert "/tmp/nvflare" not in resources.read_text()  # noqa: S108
    flare.rename(elsewhere)
    write_policy(elsewhere, "server")
    text = (elsewhere / "local/resources.json").read_text()
    assert str(elsewhere / "jobs") in text
    assert str(elsewhere / "snapshots") in text
    assert str(flare) not in text


def loosened(flare):
    """Open a startup kit as NVFlare's own are."""
    for name in ("resources.json", "authorization.json"):
        (flare / "local" / name).unlink()
    return flare


def test_a_clients_startup_kit_is_adopted(installed, hyfdca, tmp_path):
    """It is copied with its keys and made strict; what ran in it stays there."""
    flare = loosened(installed.kit("north") / "flare")
    assert not is_strict_client(flare)
    (flare / "log.txt").write_text("old")
    succeed(
        hyfdca,
        *("kit", "adopt", flare, "--study", installed.study),
        *("--keys", installed.kit("north") / "keys", "--out", tmp_path / "kit"),
    )
    kit = tmp_path / "kit"
    assert {path.name for path in kit.iterdir()} == {"study.toml", "keys", "flare"}
    assert is_strict_client(kit / "flare")
    assert not (kit / "flare" / "log.txt").exists()
    key = "startup/client.key"
    assert (kit / "flare" / key).read_bytes() == (flare / key).read_bytes()
    data = installed.root / "north" / "data.csv"
    succeed(hyfdca, "check", "--kit", kit, "--data", data)


def test_a_servers_startup_kit_is_adopted(installed, hyfdca, tmp_path):
    """With the admin's beside it."""
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
    """Have NVFlare itself provision a server, an organisation and two people."""
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
    assert "not a project_admin's" in errors
    other = ("--admin", installed.kits / "server/admin")
    errors = refused(hyfdca, tmp_path, *arguments, tmp_path / "other", *other)
    assert "different roots" in errors


def test_kits_are_read_back(installed):
    """With the names that NVFlare's command line needs."""
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
        "is of 'city', but the keys",
    ),
    "another root": (other_roots, "do not belong together"),
    "another key": (other_key, "do not belong together"),
    "open key": (lambda p: (startup(p) / "client.key").chmod(0o644), "chmod 600"),
    "no settings": (lambda p: (startup(p) / "fed_client.json").unlink(), "Cannot read"),
    "no folder": (lambda p: shutil.rmtree(startup(p)), "Cannot read"),
    "no local": (
        lambda p: shutil.rmtree(startup(p).parent / "local"),
        "Cannot write to|Cannot read",
    ),
}


@pytest.mark.parametrize("case", NOT_ADOPTED)
def test_startup_kits_that_are_not_adopted(installed, hyfdca, case):
    """Each is one sentence, and nothing is written."""
    change, message = NOT_ADOPTED[case]
    change(installed)
    errors = refused(
        hyfdca,
        installed.root,
        *("kit", "adopt", installed.kit("north") / "flare"),
        *("--study", installed.study, "--keys", installed.keys("north")),
        *("--out", installed.root / "north" / "new"),
    )
    assert any(part in errors for part in message.split("|"))


def test_adopting_needs_keys_or_an_admin(installed, hyfdca):
    """A server has no organisation's keys, a client no admin."""
    errors = refused(
        hyfdca,
        installed.root,
        *("kit", "adopt", installed.kit("north") / "flare"),
        *("--study", installed.study, "--out", installed.root / "new"),
    )
    assert "--keys for a client's" in errors


def test_clients_answer_to_nothing_but_jobs():
    """In a process of its own, because NVFlare's list is changed in place."""
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
    """With NVFlare's signatures in every folder."""
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
    assert reason.startswith("hyfdca takes jobs without code alone")


def test_jobs_with_links_or_huge_settings_are_refused(tmp_path):
    """A link can lead anywhere."""
    folder = job(tmp_path / "huge", **{"config__config_fed_server.json": " " * 2**20})
    assert SettingsOnly().validate(folder)[0]
    folder = job(tmp_path / "link")
    (tmp_path / "link" / "config" / "config_fed_server.json").symlink_to("/etc/hosts")
    assert SettingsOnly().validate(folder)[0]

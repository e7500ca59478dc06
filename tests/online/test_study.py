"""A whole study between processes: refusals at the start, then one process's model.

All tests share one study of four organisations. It waits for the last one while
strangers come, so they find a server however fast the machine is. The tests on its
results let it run to its end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from hyfdca.crypto.keys.identity import Identity
from hyfdca.kits import tls
from hyfdca.kits.all_local import provision_all
from hyfdca.kits.authority import read_authority
from hyfdca.kits.key_files import read_identity
from hyfdca.kits.writing import credentials_of, write_client_kit
from hyfdca.model.file import as_bytes
from hyfdca.study.file import load
from hyfdca.study.identity import study_fingerprint
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import Outcome, train
from tests.flare.flare_kits import NAMES, Site, four_organisations, numbers, site
from tests.flare.flare_parties import Command
from tests.support.consortia import Organisation, assert_one_sentence
from tests.support.labelled_files import add_column, blank, offset, weight

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("online 1")]

_SOON = 60.0  # seconds; a client is refused within thirty
_LAST = "coast"

# Brings up the loopback of a new network (SIOCSIFFLAGS; up and running), then waits.
_ALONE = """
import fcntl, socket, struct, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 0x41))
print("alone", flush=True)
sys.stdin.read()
"""


@contextmanager
def no_network() -> Iterator[list[str]]:
    """Give the first words of a command line whose process reaches nothing outside.

    A namespace of the kernel, which also holds for gRPC and other native code. Empty
    on systems that do not let us make one.
    """
    if not shutil.which("unshare"):
        yield []
        return
    command = ["unshare", "--map-root-user", "--net", sys.executable, "-c", _ALONE]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:  # noqa: S603
        assert holder.stdout is not None
        is_alone = holder.stdout.readline() == "alone\n"
        enter = ["nsenter", "-t", str(holder.pid), "--user", "--net"]
        try:
            yield enter if is_alone else []
        finally:
            holder.kill()


@dataclass
class Study:
    """A study that waits for its last organisation."""

    parties: Site
    server: Command
    clients: dict[str, Command]

    @cached_property
    def ended(self) -> Site:
        """Its site once all parties have ended well, the last organisation included."""
        self.clients[_LAST] = self.parties.client(_LAST)
        assert self.server.ends(300) == 0
        assert [client.ends(60) for client in self.clients.values()] == [0] * 4
        return self.parties

    @cached_property
    def expected(self) -> Outcome:
        """The outcome of the same study in one process."""
        folder = self.parties.folder
        return train(prepare(load(self.parties.study), folder), lambda *_: None)


@pytest.fixture(scope="module")
def alone() -> Iterator[list[str]]:
    with no_network() as words:
        yield words


@pytest.fixture(scope="module")
def study(
    small_tls: None, alone: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Study]:
    """Start a study whose vectors are in BFV, with no network but this machine's.

    It has weights, offsets, text and dates, a label that one organisation lacks and
    one that all lack, cells that are blank here and known there, and rows set aside.
    """
    tested = {"holdout": "0.25", "salt": '"online 7"', "min_bin": "2"}
    tested |= {"blank_cells": '"share"'}
    files = four_organisations(small_vectors='"same"', tol="1e-2", **tested)
    add_column(files, "weight_column", "w", weight, "island")
    add_column(files, "offset_column", "o", offset, "island")
    blank(blank(files, range(20, 25), "north"), [58], "city", "coast")
    files.organisations["city"].extra = 'data = "city.parquet"'
    for name in ("north", "city"):
        add_text_and_dates(files.organisations[name])
    files.organisations["north"].table["ward"][25] = ""
    files.organisations["city"].table["x2"][3] = ""
    with site(tmp_path_factory.mktemp("study"), files, alone) as made:
        as_parquet(made, "city")
        server = made.server()
        first = [name for name in NAMES if name != _LAST]
        yield Study(made, server, {name: made.client(name) for name in first})


def add_text_and_dates(own: Organisation) -> None:
    """Add a column of text with rare levels, and one of dates."""
    wards = ["ICU", "emergency", "ICU", "harbour"]
    rare = dict.fromkeys(range(28, 32), "attic") | dict.fromkeys(
        range(32, 36), "cellar"
    )
    own.table["ward"] = [rare.get(r, wards[r % 4]) for r in own.rows]
    own.table["admitted"] = [f"2025-{1 + r % 12:02d}-17" for r in own.rows]


def as_parquet(made: Site, name: str) -> None:
    """Make an organisation keep its table as Parquet."""
    for path in (made.folder / f"{name}.csv", made.data[name]):
        pyarrow.parquet.write_table(
            pyarrow.csv.read_csv(path), path.with_suffix(".parquet")
        )
        path.unlink()
    made.data[name] = made.data[name].with_suffix(".parquet")


# Before the study begins


def of_another_authority(made: Site) -> Path:
    """Return a kit of the same study file that another coordinator made."""
    others = made.folder / "others"
    provision_all(made.study, others)
    return others / _LAST


def with_other_keys(made: Site) -> Path:
    """Return a kit with keys that are not in its study file."""
    kit = made.folder / "other-keys"
    shutil.copytree(made.kit(_LAST), kit)
    shutil.rmtree(kit / "keys")
    shutil.copytree(made.folder / "others" / _LAST / "keys", kit / "keys")
    return kit


def not_of_the_study(made: Site) -> Path:
    """Return a kit that its own coordinator certified, with a study file of its own."""
    authority = read_authority(made.kits / "ca")
    identity, key = Identity.generate(), tls.new_key()
    entry = f'[[clients]]\nname = "harbour"\npublic_key = "{identity.public.text}"\n'
    study = entry.encode() + (made.kits / "study.toml").read_bytes()
    shown = authority.issue("harbour", "client", key.public_key())
    credentials = credentials_of(key, shown, authority.root)
    kit, server = made.folder / "harbour", load(made.study).server
    write_client_kit(kit, study, "harbour", identity, server, credentials)
    return kit


def second_of(made: Site, name: str) -> Path:
    """Return a copy of a kit that is in use."""
    kit = made.folder / "second"
    shutil.copytree(made.kit(name), kit, ignore=shutil.ignore_patterns("said-*"))
    return kit


def assert_refused(stranger: Command, why: str) -> None:
    """Check that a command ended with a sentence of its own as the last line."""
    assert stranger.ends(_SOON) == 2, stranger.said
    assert_one_sentence(stranger.said.splitlines(keepends=True)[-1])
    assert why in stranger.said.splitlines()[-1]
    assert "Traceback" not in stranger.said


def test_strangers_are_refused(study: Study) -> None:
    """Other authorities, other keys, other names and second clients, with reasons."""
    made, server = study.parties, study.server
    server.says(f"Waiting for {_LAST}.", _SOON)
    foreign = made.client(_LAST, of_another_authority(made))
    keyless = made.client(_LAST, with_other_keys(made))
    unknown = made.client("north", not_of_the_study(made))
    second = made.client("north", second_of(made, "north"))
    assert_refused(foreign, "was not issued by the authority of this kit")
    assert_refused(keyless, "No organisation of the study 'test' has the public")
    assert_refused(unknown, "or the server's study has no such organisation")
    assert_refused(second, "another client with the name 'north' is already")
    server.says("with the name 'harbour': the study has no such organisation.")
    server.says("with the name 'north': it is already connected.")


@pytest.mark.thorough
def test_an_organisation_with_another_study_file_is_refused(study: Study) -> None:
    """One byte more is another study; both sides say so, and the study waits."""
    made, server = study.parties, study.server
    path = made.kit(_LAST) / "study.toml"
    agreed = path.read_bytes()
    path.write_bytes(agreed + b"\n")
    try:
        other = made.client(_LAST)
        assert_refused(other, "This organisation cannot take part: its study file (")
        said = f"Organisation {_LAST!r} is unavailable: refused: its study file ("
        server.says(said)
    finally:
        path.write_bytes(agreed)


# Its results


def test_every_party_has_the_model_of_one_process(study: Study) -> None:
    """Weights, scaling and certificate, byte for byte, at the server and at all."""
    made = study.ended
    for party in ("server", *NAMES):
        path = made.kit(party) / "out" / "model.json"
        assert path.read_bytes() == as_bytes(study.expected.model())
    assert {"ward=harbour", "ward=other", "admitted"} < {
        *study.expected.run.consortium.features
    }


def test_the_history_is_that_of_one_process(study: Study) -> None:
    """Objectives and participants bit for bit; round trips too."""
    history, records = study.ended.result("history.json"), study.expected.history()
    assert len(history) >= 3
    assert numbers(history) == numbers(records)
    for name in ("round_trips", "search_round_trips"):
        assert [r[name] for r in history] == [r[name] for r in records]


def test_the_model_was_tested_as_in_one_process(study: Study) -> None:
    """The numbers on the rows set aside are the same, bit for bit."""
    found = study.ended.result("result.json")["evaluation"]
    assert found == study.expected.evaluation
    assert found["n_rows"] > 10
    assert 0.0 < found["auc_low"] <= found["auc_high"]


def test_vectors_were_sealed_as_the_study_says(study: Study) -> None:
    """BFV sealed them, although others take fewer bytes; stream sealed totals."""
    sealed_with = dict(study.ended.result("result.json")["sealed_with"])
    assert sealed_with.pop("totals") == "stream"
    assert all(scheme.startswith("bfv") for scheme in sealed_with.values())


def test_the_server_writes_a_report(study: Study) -> None:
    """It says who took part, by the fingerprints that they compared."""
    made = study.ended
    out = made.kit("server") / "out"
    card = json.loads((out / "model-card.json").read_text())
    about = card["about"]
    content = (made.kit("server") / "study.toml").read_bytes()
    assert about["fingerprint"] == study_fingerprint(content)
    assert about["is_rehearsal"] is False
    page = (out / "report.html").read_text()
    for own in about["organisations"]:
        known = read_identity(made.kit(own["name"]) / "keys").public
        assert own["key"] == known.fingerprint
        assert own["key"] in page
    result = made.result("result.json")
    assert sum(cost["bytes_up"] for cost in about["costs"]) == result["bytes_up"]


def test_rows_without_a_label_and_blank_cells_are_counted(study: Study) -> None:
    """The counts are those of one process."""
    for result in (study.ended.result("result.json"), study.expected.result()):
        assert result["rows_without_label"] == 1
        assert result["filled_cells"] == 2


def test_no_kit_has_a_number_of_a_table(study: Study) -> None:
    """Neither logs nor state contain one."""
    made = study.ended
    rows = made.data["north"].read_text("utf-8").splitlines()[1:]
    cells = {row.split(",")[1].encode() for row in rows}
    for path in made.kits.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [cell for cell in cells if cell in content], path


def test_the_study_reached_nothing_but_this_machine(
    study: Study, alone: list[str]
) -> None:
    """Its network had a loopback only, where the system allows it."""
    if not alone:
        pytest.skip("This system lets us make no network of our own.")
    words = [*alone, "cat", "/proc/net/dev"]
    listed = subprocess.check_output(words, text=True)  # noqa: S603
    interfaces = [line.split(":")[0].strip() for line in listed.splitlines()[2:]]
    assert interfaces == ["lo"]

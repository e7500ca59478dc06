"""The command ``hyfdca data``: what it lists, its exit codes, its downloads."""

from __future__ import annotations

import bz2
import io
import json

import pytest
from rich.console import Console

from hyfdca.cli.displays.data import DataDisplay
from hyfdca.data import sources
from tests.support.consortia import assert_one_sentence
from tests.support.data_sets import NEWS20, serve_from, serving, write_sets

pytestmark = pytest.mark.usefixtures("small_sets")


def test_all_there(tmp_path, hyfdca):
    """All sets found: exit code 0, a row each with shape, check and folder."""
    folder = write_sets(tmp_path / "data")
    code, output, errors = hyfdca("data", "--folder", folder)
    assert (code, errors) == (0, "")
    for title in ("MNIST", "news20.binary", "covtype.binary"):
        assert title in output
    assert output.count("checksum") == 3
    assert "Looked in" not in output
    assert "--fetch" not in output


def test_checked_by_shape(tmp_path, monkeypatch, hyfdca):
    """A set whose bytes are not known is listed as checked by its shape."""
    folder = write_sets(tmp_path / "data", "mnist", "covtype")
    (folder / "news20.binary.bz2").write_bytes(bz2.compress(NEWS20))
    monkeypatch.setenv("HYFDCA_DATA", str(folder))
    code, output, _ = hyfdca("data", "--json")
    assert code == 0
    found = {entry["name"]: entry for entry in json.loads(output)["sets"]}
    assert found["news20"] == {
        "name": "news20",
        "title": "news20.binary",
        "status": "found",
        "path": str(folder / "news20.binary.bz2"),
        "samples": 10,
        "features": 10,
        "checked_by": "shape",
        "problem": None,
    }
    assert found["mnist"]["checked_by"] == "sha256"


def test_nothing_there(tmp_path, hyfdca):
    """Missing sets: exit code 1, where it looked, how to get them, nothing made."""
    before = sorted(tmp_path.rglob("*"))
    code, output, errors = hyfdca("data")
    assert (code, errors) == (1, "")
    assert output.count("missing") == 4  # a row each, and the advice
    line = "".join(output.split())
    assert f"Lookedin{sources.user_folder()},".replace(" ", "") in line
    assert "hyfdca data --fetch downloads what is missing" in output
    assert sorted(tmp_path.rglob("*")) == before


def test_damaged(tmp_path, hyfdca):
    """A damaged set: exit code 1 and a sentence; with --json it is a field."""
    folder = write_sets(tmp_path / "data")
    path = folder / "news20" / "news20.binary.xz"
    path.write_bytes(path.read_bytes()[:-4])
    code, output, _ = hyfdca("data", "--folder", folder)
    assert code == 1
    assert "the checksum of news20.binary.xz is wrong; replace it" in output
    code, output, _ = hyfdca("data", "--folder", folder, "--json")
    assert code == 1
    [entry] = [e for e in json.loads(output)["sets"] if e["status"] != "found"]
    assert (entry["name"], entry["status"]) == ("news20", "damaged")
    assert_one_sentence(f"{entry['problem']}\n")


def test_fetch(tmp_path, monkeypatch, hyfdca):
    """Only sets that are missing are downloaded; then all are there."""
    site = write_sets(tmp_path / "site", "mnist", "covtype")
    folder = write_sets(tmp_path / "data", "news20")
    with serving(site) as address:
        serve_from(address, monkeypatch)
        code, output, errors = hyfdca("data", "--fetch", "--folder", folder, "--json")
    assert code == 0
    assert "fetching t10k-labels-idx1-ubyte.gz\n" in errors
    assert "news20" not in errors
    content = json.loads(output)
    assert content["fetch_folder"] == str(folder)
    assert {entry["status"] for entry in content["sets"]} == {"found"}
    assert {path.name for path in folder.iterdir()} == {"mnist", "news20", "covtype"}
    assert hyfdca("data", "--folder", folder)[0] == 0


def test_fetch_without_network(tmp_path, monkeypatch, hyfdca):
    """No network: one sentence, exit code 2, nothing written."""
    with serving(tmp_path) as address:
        pass
    serve_from(address, monkeypatch)
    before = sorted(tmp_path.rglob("*"))
    code, output, errors = hyfdca("data", "--fetch")
    assert (code, output) == (2, "")
    assert "Cannot fetch http://127.0.0.1" in errors
    assert_one_sentence(errors)
    assert sorted(tmp_path.rglob("*")) == before


def test_one_site_down(tmp_path, monkeypatch, hyfdca):
    """A set that cannot be had does not keep others from being downloaded."""
    site = write_sets(tmp_path / "site", "covtype")
    with serving(site) as address:
        serve_from(address, monkeypatch)
        code, output, errors = hyfdca("data", "--fetch", "--folder", tmp_path / "data")
    assert (code, output) == (2, "")
    assert "/mnist/train-images-idx3-ubyte.gz (File not found)" in errors
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["covtype"]


def test_bar():
    """On a terminal a bar shows what is checked and how much has come."""
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80)
    with DataDisplay(console) as display:
        display.check("MNIST")
        display("news20.binary.bz2", 500_000, None)
        display("covtype.libsvm.binary.scale.bz2", 1_000_000, 2_000_000)
    assert "fetching covtype.libsvm.binary.scale.bz2" in shown.getvalue()
    assert "1.0 MB" in shown.getvalue()


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.touch()])
def test_no_such_folder(make, tmp_path, hyfdca):
    """A folder that is named must be one."""
    make(tmp_path / "data")
    code, output, errors = hyfdca("data", "--folder", tmp_path / "data")
    assert (code, output) == (2, "")
    assert "does not exist; correct --folder" in errors
    assert_one_sentence(errors)

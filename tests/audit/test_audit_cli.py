"""hyfdca audit: tables or JSON, exit code 1 for a leak, 2 for an invalid folder."""

from __future__ import annotations

import json

import pytest

from hyfdca.audit.views import view_path
from tests.audit.audits import PAPER, TWO, record, write_study

pytestmark = pytest.mark.usefixtures("no_figure")

HINGE = {"loss": '"hinge"', "l2": "0.01", "max_rounds": "5"}


def test_a_sealed_run_passes(hyfdca, tmp_path):
    """A sealed run is shown with its verdict, and the exit code is 0."""
    path = write_study(tmp_path, TWO, encryption='"stream"', **HINGE)
    out = tmp_path / "out"
    assert hyfdca("train", path, "--out", out, "--record-client", "north")[0] == 3
    code, shown, errors = hyfdca("audit", out)
    assert (code, errors) == (0, "")
    for words in ("What the server saw", "sealed, stream", "What north could infer"):
        assert words in shown
    assert "Nobody saw more than the trust model allows" in shown


def test_an_unencrypted_run_fails(hyfdca, tmp_path):
    """A run that seals nothing yields a plain sentence and exit code 1."""
    out = record(tmp_path, TWO, **PAPER)
    code, shown, _ = hyfdca("audit", out)
    assert code == 1
    sentence = "The server could read what the sealed profile seals: row norms,"
    assert sentence in " ".join(shown.split())
    code, shown, _ = hyfdca("audit", out, "--json")
    result = json.loads(shown)
    assert code == 1
    assert not result["clean"]
    assert result["attacks"]["margins and weights"]["error"] < 1e-6
    assert {"value": "margins", "form": "open"}.items() <= next(
        seen for seen in result["server"] if seen["value"] == "margins"
    ).items()


def test_json_has_the_clients(hyfdca, tmp_path):
    """The JSON says what a client could find out, by group of its rows."""
    out = record(tmp_path, TWO, clients=["north"], encryption='"stream"', **PAPER)
    code, shown, _ = hyfdca("audit", out, "--json")
    [group] = json.loads(shown)["clients"]["north"]["groups"]
    assert code == 0
    assert group["others"] == ["city"]
    assert group["few"]["known_rows"] == 3
    assert group["gram_error"] < 1e-6


def cut(out):
    path = view_path(out, None)
    path.write_bytes(path.read_bytes()[:-1])


def other_run(out):
    view_path(out, 0).write_bytes((out.parent / "kept").read_bytes())


BAD = {
    "no folder": (lambda out: view_path(out, None).unlink(), "train with --record"),
    "cut short": (cut, "is damaged or cut short"),
    "no view": (lambda out: view_path(out, None).write_bytes(b"x"), "is not a view"),
    "other study": (
        lambda out: (out.parent / "study.toml").write_text(
            (out.parent / "study.toml").read_text() + "# changed\n"
        ),
        "is not the one that was recorded",
    ),
    "no study": (lambda out: (out.parent / "study.toml").unlink(), "Cannot read the"),
    "other run": (other_run, "are of different runs"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_folders_are_one_sentence(case, hyfdca, tmp_path):
    """A folder that cannot be audited yields one sentence and exit code 2."""
    spoil, expected = BAD[case]
    record(tmp_path, TWO, clients=["north"], **HINGE)
    (tmp_path / "kept").write_bytes(view_path(tmp_path / "out", 0).read_bytes())
    out = record(tmp_path, TWO, clients=["north"], **HINGE)
    spoil(out)
    code, shown, errors = hyfdca("audit", out)
    assert (code, shown) == (2, "")
    assert expected in errors
    assert len(errors.splitlines()) == 1


def test_the_study_may_be_elsewhere(hyfdca, tmp_path):
    """A study that was moved with its tables is found through --study."""
    out = record(tmp_path, TWO, encryption='"stream"', **HINGE)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("study.toml", "north.csv", "city.csv"):
        (tmp_path / name).rename(moved / name)
    assert hyfdca("audit", out)[0] == 2
    assert hyfdca("audit", out, "--study", moved / "study.toml")[0] == 0

"""hyfdca audit: tables or JSON, exit code 1 for a leak, 2 for an invalid folder."""

from __future__ import annotations

import json

import pytest

from hyfdca.audit.findings import EXPECTABLE, Finding
from hyfdca.audit.views import view_path
from tests.audit.audits import PAPER, TWO, record, write_study

pytestmark = pytest.mark.usefixtures("no_figure")

HINGE = {"loss": '"hinge"', "l2": "0.01", "max_rounds": "5"}


def test_recovered_cells_are_the_headline(hyfdca, tmp_path):
    """A sealed run in which one organisation can compute cells is not an all-clear."""
    path = write_study(tmp_path, TWO, encryption='"stream"', **HINGE)
    out = tmp_path / "out"
    code, shown, _ = hyfdca("train", path, "--out", out, "--record-client", "north")
    exposed = (
        "with 3 known rows it can compute the 3 features of city in 40 shared rows"
    )
    assert code == 3
    assert f"north (up to 5 margins per row): {exposed}." in shown
    code, shown, errors = hyfdca("audit", out)
    assert (code, errors) == (1, "")
    assert exposed in shown
    assert shown.index("With 3 known rows, north computes") < shown.index("What the")
    for words in ("sealed, stream", "What north could infer without knowing a row"):
        assert words in shown
    assert "say so with --expect client-rows" in shown.splitlines()[-1]


def test_expected_findings_are_accepted(hyfdca, tmp_path):
    """--expect turns findings of these kinds and shares, and no others, into exit 0."""
    given = {"clients": ["north"], "encryption": '"stream"', **HINGE}
    out = record(tmp_path, TWO, **given)
    code, shown, _ = hyfdca("audit", out, "--expect", "client-sparse, client-rows")
    assert code == 0
    last = shown.splitlines()[-1]
    assert last == "Cells were recovered, as expected: client-rows."
    code, shown, _ = hyfdca("audit", out, "--expect", "client-rows=0.9")
    assert code == 1
    said = " 100 % was recovered (client-rows), and --expect accepts 90 %."
    assert shown.splitlines()[-1].endswith(said)
    assert "say so with" not in shown
    assert hyfdca("audit", out, "--expect", "client-columns,server-shares")[0] == 1


def test_only_what_the_trust_model_admits_can_be_expected(hyfdca, tmp_path):
    """A run that seals nothing fails, whatever is expected."""
    out = record(tmp_path, TWO, **PAPER)
    everything = ",".join(EXPECTABLE)
    code, shown, _ = hyfdca("audit", out, "--expect", everything, "--json")
    kinds = {found["kind"]: found for found in json.loads(shown)["findings"]}
    assert code == 1
    assert not kinds["server-margins"]["is_admitted"]
    assert not kinds["server-margins"]["is_accepted"]
    sealed = Finding("server-planes", 0.1, "Planes differ by rows.", is_admitted=False)
    assert not sealed.is_accepted({"server-planes": 1.0})


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ("rows", "--expect does not know 'rows'; choose from client-rows,"),
        ("server-margins", "--expect does not know 'server-margins'"),
        ("client-rows=2", "give a number from 0 to 1, such as client-rows=0.5"),
        ("client-rows=", "give a number from 0 to 1"),
        ("client-rows=nan", "give a number from 0 to 1"),
    ],
)
def test_invalid_expectations_are_one_sentence(expect, words, hyfdca, tmp_path):
    """An expectation that cannot be read exits with 2, before anything is read."""
    code, shown, errors = hyfdca("audit", tmp_path, "--expect", expect)
    assert (code, shown) == (2, "")
    assert words in errors
    assert len(errors.splitlines()) == 1


def test_help_names_all_that_can_be_expected(hyfdca):
    """The help of --expect lists every kind."""
    shown = hyfdca("audit", "--help")[1]
    assert [kind for kind in EXPECTABLE if kind not in shown] == []


def test_a_run_without_findings_is_no_proof(hyfdca, tmp_path):
    """Without a recorded organisation the last line says what was not measured."""
    out = record(tmp_path, TWO, encryption='"stream"', **HINGE)
    code, shown, _ = hyfdca("audit", out)
    assert code == 0
    last = shown.splitlines()[-1]
    assert "No organisation was recorded" in last
    assert "does not prove secrecy" in last
    assert "with 3 known rows it can compute the 3 features" in shown


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
    result = json.loads(shown)
    [group] = result["clients"]["north"]["groups"]
    assert code == 1
    assert (result["clean"], result["accepted"]) == (False, False)
    assert [found["kind"] for found in result["findings"]] == ["client-rows"]
    assert group["others"] == ["city"]
    assert group["few"]["known_rows"] == 3
    assert group["gram_error"] < 1e-6
    [sparse] = result["clients"]["north"]["sparse"]
    assert (sparse["rank"], sparse["dense"], sparse["binary"]["columns"]) == (3, 3, 0)
    assert result["exposed"][0] == {
        "client": "north",
        "others": ["city"],
        "rows": 40,
        "columns": 3,
        "own_columns": 0,
        "margins": 30,
    }


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

"""The command ``hyfdca compare``: its files, its output and what it refuses."""

from __future__ import annotations

import json

import pyarrow.parquet
import pytest

from hyfdca.comparison.runs import Arena
from tests.support.consortia import assert_one_sentence, make_files
from tests.support.labelled_files import add_column


@pytest.fixture
def no_comparison_figure(monkeypatch):
    """Write an empty figure: drawing takes longer than small studies."""
    monkeypatch.setattr("hyfdca.comparison.figure.draw_comparison", lambda *_: b"")


def hinge_study(folder):
    return make_files(encryption='"none"', loss='"hinge"').write(folder)


def test_compare(tmp_path, monkeypatch, hyfdca):
    """It writes a table and a figure, and lists what an algorithm refused."""
    monkeypatch.chdir(tmp_path)
    study = hinge_study(tmp_path)
    arguments = ("--algorithms", "hyfdca,lbfgs,fedavg(rate=0.5)", "--rounds", 3)
    code, output, errors = hyfdca("compare", study, *arguments)
    assert (code, errors) == (0, "")
    out = tmp_path / "compare-out"
    assert {p.name for p in out.iterdir()} == {
        *("comparison.parquet", "comparison.csv"),
        *("comparison.json", "comparison.png"),
    }
    assert (out / "comparison.png").read_bytes()[:4] == b"\x89PNG"
    rows = pyarrow.parquet.read_table(out / "comparison.parquet").to_pylist()
    assert [(row["algorithm"], row["round"]) for row in rows] == [
        (name, number) for name in ("hyfdca", "fedavg") for number in range(4)
    ]
    assert all(0.0 <= row["validation"] <= 1.0 for row in rows)
    assert "hyfdca (1 of 3), round 1: certified gap" in output
    assert "lbfgs (2 of 3) refused\n" in output
    assert "accuracy on 12 rows set aside" in " ".join(output.split())
    assert "so the gap may be the smaller number" in " ".join(output.split())
    assert "Written to compare-out" in output


@pytest.mark.usefixtures("no_comparison_figure")
def test_one_reason_for_several_algorithms(tmp_path, hyfdca):
    """It is said once, with all their names."""
    files = make_files(encryption='"none"')
    add_column(files, "offset_column", "o", lambda row: row % 3)
    options = ("--rounds", 1, "--holdout", 0, "--out", tmp_path / "out")
    names = "bundle,fedavg,hyfem,d3ca"
    study = files.write(tmp_path)
    _, output, _ = hyfdca("compare", study, "--algorithms", names, *options)
    assert output.count("takes no offsets; use algorithm=") == 1
    assert "fedavg, hyfem, d3ca" in " ".join(output.split())


@pytest.mark.usefixtures("no_comparison_figure")
def test_json(tmp_path, hyfdca):
    """With --json the output is exactly the content of the summary."""
    study, out = hinge_study(tmp_path), tmp_path / "out"
    options = ("--rounds", 2, "--holdout", 0, "--seed", 9, "--latency", 0, "--json")
    code, output, errors = hyfdca(
        "compare", study, "--algorithms", "lbfgs,hyfdca", "--out", out, *options
    )
    assert code == 0
    assert "hyfdca (2 of 2), round 2: certified gap" in errors
    assert output == (out / "comparison.json").read_text()
    summary = json.loads(output)
    assert (summary["settings"]["seed"], summary["settings"]["max_rounds"]) == (9, 2)
    assert (summary["held_out_rows"], summary["validation_metric"]) == (0, None)
    refused, trained = summary["algorithms"]
    assert "smooth loss" in refused["reason"]
    assert (trained["rounds"], trained["stop_reason"]) == (2, "round limit")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithms", "magic"], "There is no algorithm 'magic'"),
        (["--algorithms", "fedavg(rate=0.5"], "Cannot read --algorithms"),
        (["--algorithms", "fedavg(rate=-1)"], "rate must be"),
        (["--algorithms", "lbfgs"], "No algorithm can train this study"),
        (["--algorithms", "hyfdca", "--holdout", "1"], "use a smaller --holdout"),
        (["--holdout", "1.5"], "--holdout"),
        (["--holdout", "nan"], "--holdout"),
        (["--latency", "-1"], "--latency"),
        (["--latency", "inf"], "--latency"),
        (["--rounds", "0"], "--rounds"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path, hyfdca):
    """Invalid arguments yield one sentence, exit code 2, and no file."""
    study, out = hinge_study(tmp_path), tmp_path / "out"
    code, _, errors = hyfdca("compare", study, "--out", out, *arguments)
    assert code == 2
    assert message in errors
    assert_one_sentence(errors)
    assert not out.exists()


def test_an_impossible_folder(tmp_path, hyfdca):
    """An output folder that cannot be written to is refused before training."""
    study = hinge_study(tmp_path)
    code, output, errors = hyfdca("compare", study, "--out", study / "out")
    assert (code, output) == (2, "")
    assert "Cannot write to" in errors
    assert_one_sentence(errors)


def _breaking_off(monkeypatch, error, after):
    """Make the training after some others fail."""
    train, begun = Arena.train, []

    def one(arena, contender, watch):
        begun.append(contender)
        if len(begun) > after:
            raise error
        return train(arena, contender, watch)

    monkeypatch.setattr(Arena, "train", one)


@pytest.mark.usefixtures("no_comparison_figure")
def test_an_interruption_keeps_what_has_ended(tmp_path, monkeypatch, hyfdca):
    """After Ctrl-C the files have the algorithms that ended before it."""
    study, out = hinge_study(tmp_path), tmp_path / "out"
    _breaking_off(monkeypatch, KeyboardInterrupt(), after=1)
    options = ("--algorithms", "hyfdca,fedavg,hyfem", "--rounds", 2, "--out", out)
    code, output, errors = hyfdca("compare", study, *options)
    assert code == 130
    sentence, interrupted = errors.splitlines()
    assert sentence.startswith("Only 1 of 3 algorithms finished; ")
    assert interrupted == "Interrupted."
    assert "Written to" in output
    rows = pyarrow.parquet.read_table(out / "comparison.parquet").to_pylist()
    assert {row["algorithm"] for row in rows} == {"hyfdca"}
    summary = json.loads((out / "comparison.json").read_text())
    assert summary["not_run"] == ["fedavg", "hyfem"]
    assert len(list(out.iterdir())) == 4


@pytest.mark.usefixtures("no_comparison_figure")
def test_an_error_keeps_what_has_ended(tmp_path, monkeypatch, hyfdca):
    """A mistake of the program is not hidden, and loses nothing."""
    study, out = hinge_study(tmp_path), tmp_path / "out"
    _breaking_off(monkeypatch, MemoryError("too large"), after=1)
    options = ("--algorithms", "hyfdca,fedavg", "--rounds", 2, "--out", out)
    with pytest.raises(MemoryError, match="too large"):
        hyfdca("compare", study, *options)
    assert json.loads((out / "comparison.json").read_text())["not_run"] == ["fedavg"]


def test_an_early_interruption_writes_nothing(tmp_path, monkeypatch, hyfdca):
    """Before any algorithm ends, Ctrl-C leaves an earlier comparison unchanged."""
    study, out = hinge_study(tmp_path), tmp_path / "out"
    _breaking_off(monkeypatch, KeyboardInterrupt(), after=0)
    code, _, errors = hyfdca("compare", study, "--out", out)
    assert (code, errors) == (130, "Interrupted.\n")
    assert not out.exists()


@pytest.mark.usefixtures("no_comparison_figure")
def test_replacing_a_comparison(tmp_path, hyfdca):
    """That an earlier comparison is replaced is said before the first training."""
    study, out = hinge_study(tmp_path), tmp_path / "out"
    options = ("--algorithms", "fedavg", "--rounds", 1, "--out", out)
    sentence = f"This replaces the comparison in {out}."
    _, output, _ = hyfdca("compare", study, *options)
    assert sentence not in output
    code, output, _ = hyfdca("compare", study, *options)
    assert code == 0
    assert output.index(sentence) < output.index("fedavg (1 of 1)")

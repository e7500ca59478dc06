"""The command ``hyfdca tune``: what it writes, that it continues, what it refuses."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from hyfdca.cli.displays.tune import TuningDisplay
from hyfdca.reproduction import tune
from tests.reproduction.small_problem import SETTING, small_covtype
from tests.support.consortia import assert_one_sentence

__all__ = ["small_covtype"]

SMALL = ("--clients", "3,3", "--rounds", "20", "--processes", "1")


@pytest.fixture
def found(monkeypatch):
    """Provide the data set."""
    monkeypatch.setattr(tune, "require", lambda *_: "there")


def rows_of(folder):
    """Return the table of all trials."""
    return list(csv.DictReader((folder / "trials.csv").read_text().splitlines()))


@pytest.mark.usefixtures("found")
def test_a_search_writes_what_it_chose(small_covtype, tmp_path, hyfdca):
    """A summary and a table of all trials; the terminal has the paper's choice too."""
    out = tmp_path / "out"
    code, output, _ = hyfdca("tune", "covtype", *SMALL, "--trials", 4, "--out", out)
    assert code == 0
    summary = json.loads((out / "tuned.json").read_text())
    assert summary["setting"]["fraction"] == 0.5
    assert set(summary["methods"]) == {"hyfdca", "fedavg", "hyfem"}
    rows = rows_of(out)
    assert len(rows) == len(small_covtype) == 12
    for method, own in summary["methods"].items():
        assert own["trials"] == 4
        chosen = [r for r in rows if r["method"] == method and r["chosen"] == "1"]
        assert len(chosen) == (own["hyperparameters"] is not None)
        for name, value in (own["hyperparameters"] or {}).items():
            assert float(chosen[0][name]) == value
    assert "iic 0.0002643" in " ".join(output.split())  # the paper's


@pytest.mark.usefixtures("found")
def test_a_search_continues_in_its_folder(small_covtype, tmp_path, hyfdca):
    """Trials that are there are not run again; all are those of one search."""
    arguments = ("tune", "covtype", *SMALL, "--methods", "hyfdca", "--json")
    for n_trials in (2, 5):
        out = tmp_path / "in two parts"
        code, output, _ = hyfdca(*arguments, "--out", out, "--trials", n_trials)
        assert code == 0
        assert json.loads(output)["methods"]["hyfdca"]["trials"] == n_trials
    assert len(small_covtype) == 5
    hyfdca(*arguments, "--out", tmp_path / "at once", "--trials", 5)
    timeless = ("iic", "diverged", "final_loss", "best_accuracy", "volatility")
    found, expected = (
        [[row[name] for name in timeless] for row in rows_of(folder)]
        for folder in (out, tmp_path / "at once")
    )
    assert found == expected


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["digits", "--clients", "3,3"], "There is no data set 'digits'"),
        (["mnist", "--clients", "3,3"], "--clients of mnist takes one number"),
        (["covtype", "--clients", "5"], "--clients of covtype takes two numbers"),
        (["covtype", "--clients", "0,3"], "--clients of covtype takes two numbers"),
        (["covtype", "--clients", "3,x"], "--clients of covtype takes two numbers"),
        (
            ["covtype", "--clients", "3,3", "--methods", "bundle"],
            "--methods takes some of hyfdca, fedavg, hyfem",
        ),
        (
            ["covtype", "--clients", "3,3", "--methods", "hyfdca,hyfdca"],
            "--methods takes some of hyfdca, fedavg, hyfem",
        ),
        (
            ["covtype", "--clients", "3,3", "--fraction", "0"],
            "--fraction must be above 0",
        ),
        (["covtype", "--clients", "3,100"], "at most 54 feature groups, got 100"),
        (["mnist", "--clients", "60000"], "at most 35,000 sample groups, got 60,000"),
        (["covtype", "--clients", "3,3", "--minutes", "0"], "must be above 0"),
        (
            ["covtype", "--clients", "3,3", "--minutes", "1", "--trials", "3"],
            "leave out one",
        ),
    ],
)
def test_bad_input(arguments, sentence, hyfdca, tmp_path):
    """Invalid input yields one sentence and exit code 2; nothing is written."""
    code, _, errors = hyfdca("tune", *arguments, "--out", tmp_path / "out")
    assert code == 2
    assert sentence in " ".join(errors.split())
    assert_one_sentence(errors)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("small_sets")
def test_without_data_it_says_how_to_get_them(hyfdca, tmp_path):
    """It does so before anything is run."""
    code, _, errors = hyfdca("tune", "covtype", *SMALL, "--out", tmp_path / "out")
    assert code == 2
    assert "hyfdca data --fetch" in errors
    assert_one_sentence(errors)


def test_progress_on_a_terminal(small_covtype, tmp_path, monkeypatch):
    """The bar has the method, how many trials ended and the lowest loss."""
    monkeypatch.setattr(tune, "require", lambda *_: "there")
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    budget = tune.Budget(n_trials=2, n_rounds=10, n_processes=1)
    with TuningDisplay(console, 2) as display:
        tune.tune_setting(SETTING, ["hyfdca"], budget, tmp_path, display)
    said = console.file.getvalue()
    assert "hyfdca" in said
    assert "trials, lowest loss" in said

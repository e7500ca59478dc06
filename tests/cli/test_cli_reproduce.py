"""The command ``hyfdca reproduce``: what it writes, and what it refuses."""

from __future__ import annotations

import pytest

from hyfdca.cli import reproduce as command
from hyfdca.cli.reproduction_options import choices_of
from hyfdca.data import sources
from hyfdca.reproduction import plan
from hyfdca.reproduction.problems import Choices
from hyfdca.reproduction.report import report
from tests.reproduction.small_problem import small_covtype
from tests.reproduction.test_reproduce import SMALL, find_small_table
from tests.support.consortia import assert_one_sentence

__all__ = ["small_covtype"]


@pytest.mark.slow
@pytest.mark.usefixtures("small_covtype")
def test_a_study_writes_its_report(tmp_path, hyfdca, monkeypatch):
    """The report in two forms, figures, all rows; the terminal has the counts."""
    find_small_table(monkeypatch)
    monkeypatch.setattr(plan, "QUICK", SMALL)
    monkeypatch.setattr(command, "_COST_SECONDS", 0.01)
    # Drawn in the tests of the report, which takes ten seconds.
    monkeypatch.setattr(report, "chart_files", lambda chart: {f"{chart.name}.svg": b""})
    out = tmp_path / "out"
    arguments = ("reproduce", "--quick", "--sets", "covtype", "--processes", "1")
    code, output, errors = hyfdca(
        *arguments, "--hyperparameters", "paper", "--out", out
    )
    assert code == 0
    written = {path.name for path in out.iterdir()}
    assert {"report.html", "report.md", "rows.parquet", "figures", "runs"} <= written
    assert "69 of 72" in output
    assert "runs, paper's settings: 54 to do" in errors
    assert "hyfdca reproduce --quick" in (out / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--quick", "--scale", "0.1"), "leave out one of the two"),
        (("--scale", "2"), "between 0.001 and 1, got '2'"),
        (("--scale", "nan"), "between 0.001 and 1, got 'nan'"),
        (("--scale", "mnist=1"), "such as mnist=0.1,news20=0.1,covtype=0.1"),
        (("--sets", "mnist", "--scale", "mnist=much"), "and 1, got 'much'"),
        (("--sets", "mnist,iris"), "--sets takes some of mnist, news20, covtype"),
        (("--sets", "mnist,mnist"), "each once"),
        (("--hyperparameters", "mine"), "takes some of paper, tuned, each once"),
        (("--l2", "mine"), "--l2 takes validation or paper, got 'mine'"),
        (("--digits", "33"), "--digits takes some of 0123456789"),
        (("--digits", "0123456789"), "--digits takes some of 0123456789"),
        (("--digits", "three"), "--digits takes some of 0123456789"),
        (("--choose", "refresh=often"), "refresh=all|drawn"),
        (("--choose", "refresh=all,refresh=drawn"), "each once"),
        (("--choose", "seed=3"), "--choose takes some of mnist_clients="),
        (("--choose", "validation=1"), "is between 0 and 1"),
    ],
)
def test_what_it_refuses(arguments, words, tmp_path, hyfdca):
    """Invalid input yields one sentence and code 2; nothing is written."""
    out = tmp_path / "out"
    code, _, errors = hyfdca("reproduce", *arguments, "--out", out)
    assert code == 2
    assert_one_sentence(errors)
    assert words in errors
    assert not out.exists()


def test_answers_to_what_the_paper_leaves_open():
    """Each has a name; those that are not given keep their defaults."""
    found = choices_of("02", "divide_by=active, validation=0.3", seed=5)
    assert found == Choices((0, 2), divide_by="active", validation=0.3, seed=5)
    assert choices_of("", "", seed=0) == Choices()


def test_a_data_set_that_is_not_there(tmp_path, hyfdca, monkeypatch):
    """A missing data set is reported before anything is measured or run."""
    monkeypatch.setattr(sources, "locate", lambda *_: None)
    code, _, errors = hyfdca("reproduce", "--quick", "--out", tmp_path / "out")
    assert code == 2
    assert_one_sentence(errors)
    assert "The data set MNIST is not there" in errors
    assert not (tmp_path / "out").exists()

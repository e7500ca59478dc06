"""The benchmarks without the paper's data sets: what needs none runs all the same."""

from __future__ import annotations

import importlib
import sys

import pytest
from benchmarks import __main__ as benchmarks
from benchmarks import participation, problems, rounds

from hyfdca.data.public_sets import SETS
from tests.support.consortia import assert_one_sentence
from tests.support.data_sets import write_sets

pytestmark = pytest.mark.usefixtures("small_sets")

BENCH = benchmarks.NAMES  # make bench
BENCH_ROUNDS = ("rounds", "losses", "participation", "wall")  # make bench-rounds


@pytest.fixture
def run(monkeypatch, capsys):
    """Run benchmarks that do nothing; return exit code, output, errors, what ran."""
    ran = []
    for name in (*BENCH, *BENCH_ROUNDS):
        module = importlib.import_module(f"benchmarks.{name}")
        monkeypatch.setattr(module, "run", lambda _, name=name: ran.append(name))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, arguments)])
        try:
            code = benchmarks.main()
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr(), ran

    return run


@pytest.mark.parametrize(
    ("names", "left_out", "runs"),
    [
        (
            (),
            "reference, round, simulator, memory, path in part",
            ["convergence", "alignment", "path"],
        ),
        (BENCH_ROUNDS, "rounds in part, participation, wall", ["rounds", "losses"]),
    ],
)
def test_without_data(names, left_out, runs, run):
    """In a bare clone one sentence says how to get the data; the exit code is 0."""
    code, output, errors, ran = run(*names)
    assert (code, errors, ran) == (0, "", runs)
    sentence, *rest = output.splitlines(keepends=True)
    assert_one_sentence(sentence)
    assert f": {left_out}; run hyfdca data --fetch, or set HYFDCA_DATA" in sentence
    assert rest == [f"== {name}\n" for name in runs]


def test_with_data(tmp_path, run):
    """With all sets nothing is left out, and no message says so."""
    code, output, _, ran = run("--data", write_sets(tmp_path / "data"))
    assert (code, ran) == (0, [*BENCH])
    assert output == "".join(f"== {name}\n" for name in BENCH)


def test_with_some_data(tmp_path, run):
    """The sentence names the sets that are missing, not those that are there."""
    _, output, _, ran = run("--data", write_sets(tmp_path / "data", "covtype"))
    assert output.startswith(
        "Left out for want of MNIST, news20.binary: simulator, memory; "
    )
    assert ran == ["convergence", "reference", "round", "alignment", "path"]


def test_rounds_in_part(monkeypatch, capsys):
    """Without data rounds are counted on the two small problems."""
    counted = []
    monkeypatch.setattr(rounds, "_line", lambda row, *_: counted.append(row.problem))
    rounds.run(None)
    assert {problem.name for problem in counted} == {"breast_cancer", "digits"}


def test_damaged_data(tmp_path, run, monkeypatch):
    """Data that is damaged is an error: one sentence and exit code 2."""
    folder = write_sets(tmp_path / "data")
    (folder / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    monkeypatch.setattr(participation, "run", problems.mnist)
    code, _, errors, _ = run("participation", "--data", folder)
    assert code == 2
    assert_one_sentence(errors)


@pytest.mark.parametrize(
    "arguments", [["flying"], ["--data", "nowhere"], ["rounds", "--colour"]]
)
def test_refused(arguments, run):
    """What is unknown or not there is refused."""
    code, output, errors, ran = run(*arguments)
    assert (code, output, ran) == (2, "", [])
    assert errors.splitlines()[-1].startswith("python -m benchmarks: error: ")


@pytest.mark.parametrize("name", benchmarks.KNOWN)
def test_needs(name):
    """Every benchmark says which data sets it needs."""
    assert set(importlib.import_module(f"benchmarks.{name}").NEEDS) <= set(SETS)


def test_problems_name_their_data(tmp_path):
    """A problem is there as soon as the set is that it loads."""
    folder = write_sets(tmp_path / "data", "covtype")
    assert problems.DIGITS.is_there(folder)
    assert problems.COVTYPE_3.is_there(folder)
    assert not problems.NEWS20.is_there(folder)
    assert problems.COVTYPE_3.load(folder).y.shape == (10, 1)

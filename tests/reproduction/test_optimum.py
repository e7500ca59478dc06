"""The certified optimum: bounds that hold, kept in a file of its own data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hyfdca.errors import StudyError
from hyfdca.maths.objective import reference_optimum
from hyfdca.reproduction import optimum
from hyfdca.reproduction.optimum import certified_optimum
from hyfdca.reproduction.problems import Choices, PaperProblem, Rows
from hyfdca.training import central
from tests.reproduction.small_problem import problem
from tests.support.small_runs import classification


def wide_problem():
    X, y = classification(60, 50)
    return PaperProblem(
        "news20", 0.01, Choices(), Rows(X[:40], y[:40, 0]), Rows(X[40:], y[40:, 0])
    )


@pytest.mark.parametrize(
    ("data", "method"),
    [(problem(), "bundle method"), (wide_problem(), "dual coordinate ascent")],
    ids=["narrow", "wide"],
)
def test_it_is_certified(data, method):
    """P and D enclose the optimum of coordinate ascent within the gap."""
    found = certified_optimum(data, gap=1e-7)
    exact = reference_optimum(data.objective, 1e-10)
    assert found.relative_gap <= 1e-7
    assert found.method == method
    assert found.dual <= exact.primal
    assert exact.dual <= found.primal
    norm = 0.5 * data.l2 * float(np.sum(exact.weights**2))
    assert found.regulariser == pytest.approx(norm, rel=1e-2)
    assert found.accuracy == data.validation.accuracy(exact.weights[:, 0])


def test_the_other_method_is_tried_where_one_fails(monkeypatch):
    """The smaller gap is returned, whatever it is."""
    monkeypatch.setattr(central, "_ROUNDS", 1)
    assert certified_optimum(problem()).method == "dual coordinate ascent"
    monkeypatch.setattr(central, "_EPOCHS", 0)
    found = certified_optimum(problem())
    assert optimum.GAP < found.relative_gap <= 1.0


def test_it_is_found_once(tmp_path, monkeypatch):
    """For the same data, gap and λ; a file of other data is not taken."""
    first = certified_optimum(problem(), tmp_path)
    monkeypatch.setattr(optimum, "_solve", None)
    assert certified_optimum(problem(), tmp_path) == first
    other_rows = Rows(problem().train.X, -problem().train.y)
    for other in (problem(0.02), replace(problem(), train=other_rows)):
        with pytest.raises(TypeError):
            certified_optimum(other, tmp_path)
    with pytest.raises(TypeError):
        certified_optimum(problem(), tmp_path, 1e-5)


def test_a_damaged_file_is_named(tmp_path):
    """One sentence says what to do."""
    certified_optimum(problem(), tmp_path)
    [path] = tmp_path.iterdir()
    path.write_bytes(b"{}")
    with pytest.raises(StudyError, match=r"cannot be read .* delete it"):
        certified_optimum(problem(), tmp_path)

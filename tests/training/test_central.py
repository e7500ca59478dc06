"""Solving in one place: bounds around a closed form, and which solver counts."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective
from hyfdca.training.central import (
    CentralOptimum,
    by_ascent,
    by_bundle,
    central_optimum,
)

L2 = 0.05


@pytest.fixture
def ridge(regression):
    """Return a problem of least squares."""
    return Objective(regression.X, regression.labels, make_loss("half_squared"), L2)


@pytest.mark.parametrize("solve", [by_ascent, by_bundle])
def test_the_bounds_enclose_the_closed_form(solve, ridge):
    """(X'X + λN I) w = X'y."""
    X, y = ridge.X.toarray(), ridge.labels
    gram = X.T @ X + L2 * len(y) * np.eye(X.shape[1])
    optimum = ridge.primal(np.linalg.solve(gram, X.T @ y))
    found = solve(ridge, 1e-9)
    assert found.relative_gap <= 1e-9
    assert found.dual - 1e-12 <= optimum <= found.primal + 1e-12
    assert ridge.primal(found.weights) == pytest.approx(found.primal, rel=1e-12)


def solver(gap, asked):
    """Return a solver that gets to a gap, and takes note that it was asked."""

    def solve(problem, _):
        asked.append(gap)
        return CentralOptimum(np.zeros((1, 1)), 1.0, 1.0 - gap, f"to {gap:g}")

    return solve


@pytest.mark.parametrize(
    ("gaps", "n_asked", "method"),
    [((1e-4, 1e-2), 1, "to 0.0001"), ((1e-2, 1e-4), 2, "to 0.0001")],
)
def test_the_first_that_is_exact_enough_counts(gaps, n_asked, method, ridge):
    """The others are not asked."""
    asked = []
    solvers = [solver(gap, asked) for gap in gaps]
    assert central_optimum(ridge, 1e-3, solvers).method == method
    assert len(asked) == n_asked


def test_if_none_is_the_best_of_them_counts(ridge):
    """Its gap shows that."""
    found = central_optimum(ridge, 1e-9, [solver(1e-3, []), solver(1e-2, [])])
    assert found.relative_gap == pytest.approx(1e-3)

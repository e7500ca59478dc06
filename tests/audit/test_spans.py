"""Spans of vectors that were rounded to grids."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.audit.spans import grid_step, span_of
from hyfdca.maths.seeds import stream


@pytest.mark.parametrize("bits", [8, 20, 40])
def test_the_rank_is_that_of_the_data(bits):
    """Rounding to a grid adds no dimension to the span."""
    random = stream(3, "spans", bits)
    table, weights = random.normal(size=(300, 5)), random.normal(size=(5, 20))
    rounded = np.ldexp(np.rint(np.ldexp(table @ weights, bits)), -bits)
    basis = span_of(rounded, n_parts=1)
    assert basis.shape == (300, 5)
    missed = table - basis @ (basis.T @ table)
    assert np.abs(missed).max() < 300 * 2.0**-bits


def test_directions_below_the_grid_are_left_out():
    """A direction that is smaller than the rounding errors is not in the span."""
    random = stream(3, "small")
    table = random.normal(size=(300, 2)) * [1.0, 2.0**-12]
    rounded = np.ldexp(np.rint(np.ldexp(table @ random.normal(size=(2, 9)), 10)), -10)
    assert span_of(rounded, n_parts=1).shape[1] == 1


@pytest.mark.parametrize("step", [2.0**-52, 0.25, 8.0])
def test_the_step_is_the_largest_that_divides_all(step):
    """The step of a grid is read off its numbers."""
    assert grid_step(step * np.array([0.0, 6.0, -4.0, 3.0])) == step
    assert grid_step(np.zeros(3)) == 0.0

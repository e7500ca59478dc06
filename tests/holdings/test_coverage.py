"""Cells that nobody holds, counted by groups and one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.holdings.axis import Axis
from hyfdca.holdings.coverage import coverage_of

SIZES = st.tuples(*[st.integers(1, 7)] * 3)


@given(SIZES, st.randoms(use_true_random=False))
def test_groups_count_what_cells_do(sizes, random):
    """Any tables: the same number as cell by cell."""
    n_rows, n_columns, n_clients = sizes
    masks = [
        [random.random() < 0.5 for _ in range(n)]
        for n in (n_rows, n_columns)
        for _ in range(n_clients)
    ]
    rows = [np.flatnonzero(mask) for mask in masks[:n_clients]]
    columns = [np.flatnonzero(mask) for mask in masks[n_clients:]]
    held = np.zeros((n_rows, n_columns), dtype=bool)
    for own_rows, own_columns in zip(rows, columns, strict=True):
        held[np.ix_(own_rows, own_columns)] = True
    found = coverage_of(Axis(n_rows, tuple(rows)), Axis(n_columns, tuple(columns)))
    assert found.n_cells == held.size
    assert found.n_uncovered == np.sum(~held)
    assert found.uncovered_share == pytest.approx(np.mean(~held))
    assert found.sizes[found.is_held].sum() == held.sum()

"""What stands for a placement: the same for the same cells, however it was told."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from hyfdca.holdings.ownership import OwnCells
from hyfdca.study.client.placements import placement_digest


def placed(owns, row_groups, column_groups, rows, columns, **changed):
    """Return what the digest needs of a placement."""
    own = OwnCells(np.array(row_groups), np.array(column_groups), np.array(owns))
    n_rows, n_columns = len(row_groups), len(column_groups)
    told = {
        "counts_sample": [False] * n_rows,
        "counts_feature": [True] * n_columns,
        "counts_bias": False,
        "n_samples": 9,
        "classes": ("healthy", "unwell"),
        "levels": {},
        "is_rounded": [False] * n_rows,
        **changed,
    }
    for name in ("counts_sample", "counts_feature", "is_rounded"):
        told[name] = np.array(told[name], dtype=bool)
    is_rounded = told.pop("is_rounded")
    aligned = SimpleNamespace(own=own, **told)
    order = {"rows": np.array(rows), "columns": np.array(columns)}
    return SimpleNamespace(aligned=aligned, is_rounded=is_rounded, **order)


def test_orders_and_numbers_of_groups_change_nothing():
    """They follow from pseudonyms, which are new in each run."""
    first = placed(
        [[True, False], [True, True]],
        [0, 1, 1],
        [0, 1],
        [0, 1, 2],
        [0, 1],
        counts_sample=[True, False, False],
        counts_feature=[True, False],
        is_rounded=[False, False, True],
    )
    again = placed(
        [[True, True], [False, True]],
        [0, 1, 0],
        [0, 1],
        [2, 0, 1],
        [1, 0],
        counts_sample=[False, True, False],
        counts_feature=[False, True],
        is_rounded=[True, False, False],
    )
    assert placement_digest(first) == placement_digest(again)


PLAIN = ([[True, True], [True, True]], [0, 1], [0, 1], [0, 1], [0, 1])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (([[True, True], [True, False]], *PLAIN[1:]), {}),
        (([[True, True], [False, True]], *PLAIN[1:]), {}),
        (([[True, True]], [0, 0], *PLAIN[2:]), {}),  # the same cells, other groups
        (([[True], [True]], [0, 1], [0, 0], *PLAIN[3:]), {}),
        ((*PLAIN[:3], [0, 2], [0, 1]), {}),
        (PLAIN, {"counts_sample": [True, False]}),
        (PLAIN, {"counts_sample": [False, True]}),
        (PLAIN, {"counts_feature": [True, False]}),
        (PLAIN, {"counts_feature": [False, True]}),
        (PLAIN, {"counts_bias": True}),
        (PLAIN, {"n_samples": 10}),
        (PLAIN, {"classes": ("healthy", "ill", "unwell")}),
        (PLAIN, {"levels": {"ward": ()}}),
        (PLAIN, {"is_rounded": [False, True]}),
    ],
)
def test_all_that_a_server_says_counts(given, told):
    """A placement that differs in one of them is another one."""
    assert placement_digest(placed(*given, **told)) != placement_digest(placed(*PLAIN))


def test_many_groups_of_many_columns_take_no_memory():
    """A table of groups and columns could be larger than the client's memory."""
    n_groups, n_columns = 1000, 50_000
    owns = np.ones((n_groups, 1), dtype=bool)
    rows, columns = np.arange(n_groups), np.arange(n_columns)
    of_columns = np.zeros(n_columns, np.int64)
    large = placed(owns, rows, of_columns, rows, columns)
    tracemalloc.start()
    try:
        placement_digest(large)
        assert tracemalloc.get_traced_memory()[1] < n_groups * n_columns / 8
    finally:
        tracemalloc.stop()

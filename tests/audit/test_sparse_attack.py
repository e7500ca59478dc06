"""Columns of 0 and 1, and sparse ones, that a client finds without a known row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from hyfdca.maths.seeds import stream
from tests.audit.audits import PAPER, audited

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_figure")]

N_ROWS, N_OWN = 80, 3
LEVELS = (4, 5)  # of two categories, each with a reference level that has no column
N_BINARY = sum(LEVELS) - len(LEVELS)
BUNDLE = {"loss": '"hinge"', "l2": "0.001"}
HYFDCA = {**PAPER, "l2": "0.01", "max_rounds": "60"}


def census() -> np.ndarray:
    """Return a table like a9a: numbers, then levels as 0 and 1, then a rare amount."""
    random = stream(7, "census")
    numbers = random.normal(size=(N_ROWS, N_OWN))
    levels = []
    for n_levels in LEVELS:
        halving = 2.0 ** -np.arange(n_levels)  # how frequent levels are
        drawn = random.choice(n_levels, N_ROWS, p=halving / halving.sum())
        levels.append((drawn[:, None] == np.arange(1, n_levels)).astype(float))
    amount = np.where(random.random(N_ROWS) < 0.15, random.normal(5, 1, N_ROWS), 0.0)
    return np.column_stack([numbers, *levels, amount])


def split(table: np.ndarray) -> dict[str, tuple[range, range]]:
    """Give the numbers to north and the rest to city; both have all rows."""
    rows = range(len(table))
    return {
        "north": (rows, range(N_OWN)),
        "city": (rows, range(N_OWN, table.shape[1])),
    }


@pytest.fixture(scope="module")
def n_attainable() -> int:
    """Count the columns that are the lightest vectors of their span through some row.

    This is the programme in its plain form, on the table itself. A search finds these
    columns if it has enough margins and tries enough rows.
    """
    theirs = census()[:, N_OWN:]
    n_columns = theirs.shape[1]
    cost = np.append(np.zeros(n_columns), np.ones(N_ROWS))
    sizes = np.block([[theirs, -np.eye(N_ROWS)], [-theirs, -np.eye(N_ROWS)]])
    found = set()
    for row in np.unique(theirs[theirs.any(axis=1)], axis=0):
        is_one = np.append(row, np.zeros(N_ROWS))[None]
        solved = linprog(
            cost, sizes, np.zeros(2 * N_ROWS), is_one, [1.0], bounds=(None, None)
        )
        mixing = np.abs(solved.x[:n_columns])
        if np.sum(mixing > 1e-6 * mixing.max()) == 1:
            found.add(int(mixing.argmax()))
    return len(found)


@pytest.mark.parametrize(
    ("method", "scale"),
    [(BUNDLE, "none"), (BUNDLE, "standard"), (HYFDCA, "none")],
    ids=["bundle", "bundle, centred", "hyfdca"],
)
def test_sparse_columns_need_no_known_row(method, scale, n_attainable, tmp_path):
    """One of two holders finds the other's sparse columns in its own margins."""
    table = census()
    n_theirs = table.shape[1] - N_OWN
    audit = audited(
        tmp_path,
        split(table),
        table=table,
        clients=["north"],
        encryption='"stream"',
        scale=f'"{scale}"',
        **method,
    )
    [found] = audit.clients[0].sparse
    assert found.rank == n_theirs
    assert (found.binary.columns, found.sparse.columns) == (N_BINARY, 1)
    assert found.n_found >= n_attainable > n_theirs / 2


@pytest.mark.parametrize("method", [BUNDLE, HYFDCA], ids=["bundle", "hyfdca"])
def test_too_few_margins_give_no_column(method, tmp_path):
    """Margins of fewer rounds than the other has columns span none of them."""
    table = census()
    n_rounds = table.shape[1] - N_OWN - 2
    given = {**method, "max_rounds": str(n_rounds), "encryption": '"stream"'}
    audit = audited(tmp_path, split(table), table=table, clients=["north"], **given)
    [found] = audit.clients[0].sparse
    assert 0 < found.rank <= n_rounds
    assert found.n_programmes > 0
    assert found.n_found == 0
    assert found.binary.columns == N_BINARY


def test_dense_columns_are_not_searched_for(tmp_path):
    """Columns of many values have no sparse vector in their span."""
    table = stream(7, "dense").normal(size=(N_ROWS, 8))
    given = {**BUNDLE, "encryption": '"stream"', "clients": ["north"]}
    audit = audited(tmp_path, split(table), table=table, **given)
    [found] = audit.clients[0].sparse
    assert (found.rank, found.n_dense) == (5, 5)
    assert found.n_found == found.n_wrong == 0

"""What clients draw: fair, without repeats where that is asked for, and independent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hyfdca.maths.draws import distinct_rows, repeated_rows, round_key

LEAST_P = 1e-4  # of a fair draw, seed by seed, this is bad luck once in 10,000


@pytest.mark.parametrize(("n_held", "size"), [(1, 1), (7, 1), (7, 6), (7, 7), (500, 3)])
def test_distinct_rows_are_distinct_and_held(n_held, size, seed):
    """Sorted, without repeats, below the number held."""
    for number in range(50):
        rows = distinct_rows(round_key(seed, "draw", number), 3, n_held, size)
        assert len(rows) == size
        assert np.all(np.diff(rows) > 0)
        assert rows[0] >= 0
        assert rows[-1] < n_held


def test_every_subset_is_as_likely(seed):
    """All 10 pairs out of 5 come as often, over clients and rounds."""
    counts: dict[tuple[int, ...], int] = {}
    for number in range(100):
        key = round_key(seed, "draw", number)
        for client in range(100):
            pair = tuple(distinct_rows(key, client, 5, 2).tolist())
            counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 10
    assert stats.chisquare(list(counts.values())).pvalue > LEAST_P


def test_every_row_is_as_likely(seed):
    """Rows with replacement are uniform, and next ones do not depend on the last."""
    rows = repeated_rows(round_key(seed, "local rows", 1), 0, 6, 36_000)
    assert stats.chisquare(np.bincount(rows, minlength=6)).pvalue > LEAST_P
    pairs = np.bincount(6 * rows[:-1].astype(int) + rows[1:], minlength=36)
    assert stats.chisquare(pairs).pvalue > LEAST_P


def test_clients_rounds_names_and_seeds_draw_apart(seed):
    """No two of them have the same rows."""
    keys = [
        round_key(seed, "draw", 1),
        round_key(seed, "draw", 2),
        round_key(seed, "other", 1),
        round_key(seed + 1, "draw", 1),
    ]
    drawn = {
        repeated_rows(key, client, 1000, 8).tobytes()
        for key in keys
        for client in range(20)
    }
    assert len(drawn) == 80


def test_splitmix64_is_the_published_one():
    """The first numbers of the generator's reference seed 1234567."""
    from hyfdca.maths.draws import _STEP, _mixed  # noqa: PLC0415

    state, found = np.uint64(1234567), []
    with np.errstate(over="ignore"):
        for _ in range(3):
            state += _STEP
            found.append(int(_mixed(state)))
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]

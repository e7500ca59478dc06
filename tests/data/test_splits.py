"""Rows to train on and to validate with."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.data.splits import train_validation
from hyfdca.maths.seeds import stream


@pytest.mark.parametrize("share", [0.0, 0.2, 0.25, 0.97])
def test_every_row_is_in_one_part(share, seed):
    """The parts are ascending, disjoint and complete, and of the size asked for."""
    split = train_validation(40, share, seed)
    assert sorted(np.concatenate(split)) == [*range(40)]
    assert len(split.validation) == round(share * 40)
    for part in split:
        assert (np.diff(part) > 0).all()


def test_the_seed_decides(seed):
    """The same seed draws the same rows, another seed others."""
    first, again = (train_validation(1000, 0.3, seed) for _ in range(2))
    other = train_validation(1000, 0.3, seed + 1)
    np.testing.assert_array_equal(first.validation, again.validation)
    assert not np.array_equal(first.validation, other.validation)


def test_the_rows_of_earlier_comparisons():
    """The rows are those of docs/comparison.md, drawn from the stream "validation"."""
    order = stream(0, "validation").permutation(50)
    split = train_validation(50, 0.2, 0)
    assert split.validation.tolist() == sorted(order[:10])
    assert split.train.tolist() == sorted(order[10:])


@pytest.mark.parametrize(
    ("n_samples", "share", "message"),
    [
        (10, -0.1, "from 0 to below 1"),
        (10, 1.0, "from 0 to below 1"),
        (10, float("nan"), "from 0 to below 1"),
        (10, 0.99, "no row to train on"),
        (0, 0.0, "no row to train on"),
    ],
)
def test_refused(n_samples, share, message):
    """An invalid share, or one that takes all rows, is refused."""
    with pytest.raises(ValueError, match=message):
        train_validation(n_samples, share, 0)

"""Rows to train on and rows to validate with, drawn with a seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.maths.seeds import stream


class Split(NamedTuple):
    """Row numbers in ascending order; every row is in exactly one of the two."""

    train: IntArray
    validation: IntArray


def train_validation(n_samples: int, share: float, seed: int) -> Split:
    """Set a share of the rows aside for validation, the same rows for the same seed.

    Parameters
    ----------
    n_samples : int
    share : float
        The share of rows to validate with, from 0 to below 1; rounded to whole rows.
    seed : int
        Not negative.

    Raises
    ------
    ValueError
        Also if no row would be left to train on.
    """
    if not 0.0 <= share < 1.0:
        raise ValueError(f"share must be from 0 to below 1, got {share}.")
    n_validation = round(share * n_samples)
    if n_validation >= n_samples:
        raise ValueError(
            f"Setting a share of {share} of {n_samples} rows aside leaves no row to "
            "train on; use a smaller share."
        )
    order = stream(seed, "validation").permutation(n_samples)
    return Split(np.sort(order[n_validation:]), np.sort(order[:n_validation]))

"""A client's own cells: those of its table that no lower-ranked client owns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from hyfdca.axis import BoolArray, IntArray
from hyfdca.partition import Partition


@dataclass(frozen=True)
class Cells:
    """A client's own cells.

    Parameters
    ----------
    stored : CSR array (samples held, features held)
        Owned cells; NaN is missing. What is not stored is zero if owned.
    n_owned : array (features held,)
        How many cells of a feature the client owns, stored or not.
    is_dense : bool
        All owned cells are stored, zeros too.
    """

    stored: sp.csr_array
    n_owned: IntArray
    is_dense: bool


def owned_cells(partition: Partition, client: int, table: sp.csr_array) -> Cells:
    """Return what a client counts of its table, which may store zeros."""
    mine = partition.holdings[client]
    others = partition.holdings[:client]
    holds = [np.isin(mine.features, other.features) for other in others]
    shares = [np.isin(mine.samples, other.samples) for other in others]
    n_owned = np.full(len(mine.features), len(mine.samples))
    for pattern, columns in _patterns(holds, len(mine.features)):
        taken = [rows for rows, is_in in zip(shares, pattern, strict=True) if is_in]
        if taken:
            n_owned[columns] -= np.logical_or.reduce(taken).sum()
    stored = partition.owned(client, table)
    return Cells(stored, n_owned, bool(np.all(n_stored(stored) == n_owned)))


def _patterns(
    holds: list[BoolArray], n_features: int
) -> Iterator[tuple[BoolArray, BoolArray]]:
    """Group features by which lower-ranked clients hold them too."""
    table = np.reshape(holds, (len(holds), n_features)).astype(bool)
    found, group = np.unique(table, axis=1, return_inverse=True)
    for number in range(found.shape[1]):
        yield found[:, number], group == number


def n_stored(stored: sp.csr_array) -> IntArray:
    """Return how many cells of each feature are stored."""
    return np.bincount(stored.indices, minlength=stored.shape[1])

"""A client's own cells: those of its table that no lower-ranked client owns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import IntArray
from hyfdca.holdings.ownership import OwnCells


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


def owned_cells(own: OwnCells, table: sp.csr_array) -> Cells:
    """Return what a client counts of its table, which may store zeros."""
    stored, n_owned = own.of(table), own.counts()
    return Cells(stored, n_owned, bool(np.all(n_stored(stored) == n_owned)))


def n_stored(stored: sp.csr_array) -> IntArray:
    """Return how many cells of each feature are stored."""
    return np.bincount(stored.indices, minlength=stored.shape[1])

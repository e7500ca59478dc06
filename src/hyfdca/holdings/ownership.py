"""Who counts a cell that several clients hold: the lowest-ranked of them.

A row group and a column group of owners form a rectangle of cells. A client that
holds one cell of a rectangle holds all of them. Ownership is therefore decided per
rectangle, of which there are few, and never by comparing the clients' rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.holdings.axis import Axis, owner_groups


@dataclass(frozen=True)
class OwnCells:
    """The cells that a client counts: all it must know about the others' tables.

    Parameters
    ----------
    row_groups, column_groups : arrays (samples held,) and (features held,)
        The owner group of each, in numbers that mean nothing elsewhere.
    owns : array (row groups, column groups) of bool
        Whether the client counts the cells of each rectangle.
    """

    row_groups: IntArray
    column_groups: IntArray
    owns: BoolArray

    def of(self, block: sp.csr_array) -> sp.csr_array:
        """Return a client's block without the cells that others count."""
        if self.owns.all():
            return block
        row_groups = np.repeat(self.row_groups, np.diff(block.indptr))
        keep = self.owns[row_groups, self.column_groups[block.indices]]
        starts = np.concatenate([[0], np.cumsum(keep)])[block.indptr]
        kept = (block.data[keep], block.indices[keep], starts)
        return sp.csr_array(kept, shape=block.shape)

    def of_columns(self, columns: BoolArray) -> OwnCells:
        """Return the same for some of the client's columns."""
        return replace(self, column_groups=self.column_groups[columns])

    def counts(self) -> IntArray:
        """How many cells of each feature the client counts, (features held,)."""
        sizes = np.bincount(self.row_groups, minlength=len(self.owns))
        counts: IntArray = (sizes @ self.owns)[self.column_groups]
        return counts


@dataclass(frozen=True)
class CellHolders:
    """Who holds the rectangles of a client's cells.

    Parameters
    ----------
    row_groups, column_groups : arrays (samples held,) and (features held,)
        The owner group of each, numbered in order of appearance at this client, so
        the numbers reveal nothing about other clients.
    columns : array (column groups,)
        The owner groups' numbers on the feature axis.
    owners : array (row groups, column groups)
        The lowest-ranked holder.
    is_shared : array (row groups, column groups) of bool
        Whether there is more than one holder.
    """

    row_groups: IntArray
    column_groups: IntArray
    columns: IntArray
    owners: IntArray
    is_shared: BoolArray

    def own_cells(self, client: int) -> OwnCells:
        """Return the part that the client itself receives."""
        owns = np.equal(self.owners, client)
        return OwnCells(self.row_groups, self.column_groups, owns)


def cell_holders(samples: Axis, features: Axis) -> list[CellHolders]:
    """Return who holds the rectangles of each client's cells, by client."""
    rows, columns = _Groups(samples), _Groups(features)
    return [_holders(rows, columns, client) for client in range(len(samples.items))]


class _Groups:
    """The owner groups of an axis, and who holds each."""

    def __init__(self, axis: Axis) -> None:
        groups = owner_groups(axis)
        n_groups = int(groups.max(initial=-1)) + 1
        own = [_by_appearance(groups[items], n_groups) for items in axis.items]
        self.local = [local for local, _ in own]
        self.numbers = [numbers for _, numbers in own]
        self._axis = Axis(n_groups, tuple(map(np.sort, self.numbers)))

    def pairs(self, client: int) -> tuple[IntArray, IntArray]:
        """Return all pairs (index of one of the client's groups, holder of it)."""
        which, clients, _ = self._axis.holders_of(self.numbers[client])
        return which, clients


def _by_appearance(groups: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Number groups by first appearance; also return each new one's old number."""
    first = np.full(n_groups, len(groups))
    first[groups[::-1]] = np.arange(len(groups))[::-1]  # the last assignment wins
    n_found = int(np.sum(first < len(groups)))
    numbers = np.argsort(first, kind="stable")[:n_found]
    local = np.empty(n_groups, np.int64)
    local[numbers] = np.arange(n_found)
    return local[groups], numbers


def _holders(rows: _Groups, columns: _Groups, client: int) -> CellHolders:
    row_pairs, column_pairs = rows.pairs(client), columns.pairs(client)
    both = np.intersect1d(row_pairs[1], column_pairs[1])  # includes itself
    has_row = _table(row_pairs, both, len(rows.numbers[client]))
    has_column = _table(column_pairs, both, len(columns.numbers[client]))
    shape = (has_row.shape[1], has_column.shape[1])
    owners, is_shared = np.full(shape, client), np.zeros(shape, dtype=bool)
    for place in reversed(range(len(both))):  # so that the lowest rank wins
        if both[place] != client:
            held = np.logical_and.outer(has_row[place], has_column[place])
            is_shared |= held
            if both[place] < client:
                owners[held] = both[place]
    return CellHolders(
        rows.local[client],
        columns.local[client],
        columns.numbers[client],
        owners,
        is_shared,
    )


def _table(
    pairs: tuple[IntArray, IntArray], clients: IntArray, n_groups: int
) -> BoolArray:
    """Return whether each of ``clients`` holds each group."""
    which, holders = pairs
    is_wanted = np.isin(holders, clients)
    table = np.zeros((len(clients), n_groups), dtype=bool)
    table[np.searchsorted(clients, holders[is_wanted]), which[is_wanted]] = True
    return table


@dataclass(frozen=True)
class Cells:
    """A client's own cells.

    Parameters
    ----------
    stored : CSR array (samples held, features held)
        Owned cells; NaN means missing. Owned cells that are not stored are zero.
    n_owned : array (features held,)
        How many cells of each feature the client owns, stored or not.
    is_dense : bool
        Whether all owned cells are stored, including zeros.
    """

    stored: sp.csr_array
    n_owned: IntArray
    is_dense: bool


def owned_cells(own: OwnCells, table: sp.csr_array) -> Cells:
    """Return the cells that a client counts in its table, which may store zeros."""
    stored, n_owned = own.of(table), own.counts()
    return Cells(stored, n_owned, bool(np.all(n_stored(stored) == n_owned)))


def n_stored(stored: sp.csr_array) -> IntArray:
    """Return how many cells of each feature are stored."""
    return np.bincount(stored.indices, minlength=stored.shape[1])

"""Which cells of a table nobody holds.

A row group and a column group of owners form a rectangle of cells. A client that holds
one cell of it holds all, so a rectangle is held completely or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.holdings.axis import Axis, group_holders, owner_groups


@dataclass(frozen=True)
class Coverage:
    """Who holds each rectangle.

    Parameters
    ----------
    rows, columns : arrays (row groups,) and (column groups,)
        How many rows and columns are in each group.
    row_holders, column_holders : arrays (groups, clients) of bool
    group_of_column : array (n_columns,)
    """

    rows: IntArray
    columns: IntArray
    row_holders: BoolArray
    column_holders: BoolArray
    group_of_column: IntArray

    def columns_of(self, group: int) -> IntArray:
        """Return the columns of a group."""
        return np.flatnonzero(self.group_of_column == group)

    @property
    def is_held(self) -> BoolArray:
        """Whether somebody holds each rectangle, (row groups, column groups)."""
        shared = self.row_holders.astype(np.int64) @ self.column_holders.T
        return np.asarray(shared > 0)

    @property
    def sizes(self) -> IntArray:
        """How many cells are in each rectangle, (row groups, column groups)."""
        return np.outer(self.rows, self.columns)

    @property
    def n_cells(self) -> int:
        """How many cells the whole table has."""
        return int(self.rows.sum()) * int(self.columns.sum())

    @property
    def n_uncovered(self) -> int:
        """How many of them nobody holds."""
        return int(self.sizes[~self.is_held].sum())

    @property
    def uncovered_share(self) -> float:
        """Their share of all cells."""
        return self.n_uncovered / self.n_cells if self.n_cells else 0.0


def coverage_of(samples: Axis, features: Axis) -> Coverage:
    """Return who holds which parts of a table, by owner groups."""
    rows, row_holders, _ = _groups(samples)
    columns, column_holders, group_of_column = _groups(features)
    return Coverage(rows, columns, row_holders, column_holders, group_of_column)


def _groups(axis: Axis) -> tuple[IntArray, BoolArray, IntArray]:
    """Return the sizes of an axis's owner groups, who holds each, and all groups."""
    groups = owner_groups(axis)
    return np.bincount(groups), group_holders(axis, groups), groups

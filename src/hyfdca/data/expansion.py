"""Columns of a table as features: a category becomes one feature per level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import AnyArray, BoolArray, FloatArray, IntArray

NOWHERE = -1  # the place of the reference level, which has no feature

_Entries = tuple[AnyArray, IntArray, FloatArray]  # rows, features and values


@dataclass(frozen=True, repr=False)
class Expansion:
    """How the columns of a table become features.

    A column of numbers is one feature. A category has one per level that is kept: 1
    where a cell has that level, and 0 elsewhere.

    Parameters
    ----------
    widths : array (columns,)
        How many features each column becomes.
    places : mapping of int to array
        By column that is a category: the place of each code among the features of the
        column, or ``NOWHERE``. Code 0 is a blank cell.
    """

    widths: IntArray
    places: Mapping[int, IntArray]

    @cached_property
    def is_number(self) -> BoolArray:
        """Which columns are numbers."""
        is_number = np.ones(len(self.widths), dtype=bool)
        is_number[list(self.places)] = False
        return is_number

    @cached_property
    def starts(self) -> IntArray:
        """The first feature of each column."""
        return np.asarray(np.cumsum(self.widths) - self.widths)

    def numbers(self, cells: sp.csr_array) -> sp.csr_array:
        """Return the columns that are numbers."""
        return sp.csr_array(cells[:, self.is_number]) if self.places else cells

    def features(self, cells: sp.csr_array) -> sp.csr_array:
        """Return all features of a table as it was read."""
        return self.join(self.numbers(cells), cells)

    def join(self, numbers: sp.csr_array, cells: sp.csr_array) -> sp.csr_array:
        """Return all features, with columns of numbers that were changed meanwhile.

        Parameters
        ----------
        numbers : CSR array (rows, columns of numbers)
        cells : CSR array (rows, columns)
            Of which only the categories are used.
        """
        if not self.places:
            return numbers
        parts = zip(self._spread(numbers), self._levels(cells), strict=True)
        rows, features, values = (np.concatenate(both) for both in parts)
        shape = (cells.shape[0], int(self.widths.sum()))
        return sp.coo_array((values, (rows, features)), shape=shape).tocsr()

    def _spread(self, numbers: sp.csr_array) -> _Entries:
        own = numbers.tocoo()
        return own.row, self.starts[self.is_number][own.col], own.data

    def _levels(self, cells: sp.csr_array) -> _Entries:
        """Return a 1 for each cell whose level has a feature."""
        stored = cells.tocoo()
        is_code = ~self.is_number[stored.col]
        rows, columns = stored.row[is_code], stored.col[is_code]
        codes = np.nan_to_num(stored.data[is_code]).astype(np.int64)
        sizes = np.array([len(places) for places in self.places.values()])
        first = np.zeros(len(self.widths), np.int64)
        first[list(self.places)] = np.cumsum(sizes) - sizes
        place = np.concatenate(list(self.places.values()))[first[columns] + codes]
        kept = place != NOWHERE
        features = self.starts[columns[kept]] + place[kept]
        return rows[kept], features, np.ones(len(features))


def expansion_of_numbers(n_columns: int) -> Expansion:
    """Return the expansion of a table without categories."""
    return Expansion(np.ones(n_columns, np.int64), {})

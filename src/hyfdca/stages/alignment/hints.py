"""A client's cells, rounded on grids that their owners choose.

A row group and a column group form a rectangle of cells, which one client owns. Its
hint to the other holders says on which of two grids each cell is rounded. Cells of
zeros are not stored and need none. So a hint has, by row, how many cells are stored,
and then one bit for each. A row with another number of cells differs anyway. Where
tokens are by column, so are hints: they have the same for every column. The server sees
how long a hint is, so it is filled up as if more cells were stored.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import BoolArray, IntArray, TokenArray
from hyfdca.crypto.keys.notes import NoteError, open_note, seal_note
from hyfdca.crypto.keys.pseudonyms import group_digests
from hyfdca.protocol.codec import RemoteProtocolError, pack_bits, unpack_bits
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.alignment.lengths import padded_count
from hyfdca.stages.alignment.messages import Line
from hyfdca.stages.alignment.rounding import choose_grids, round_values

_COUNT = np.dtype("<u4")
_LEAST = 1 << 16  # bits of a hint, unless its rectangle has fewer cells


class RoundedCells:
    """Rounds the cells of one client's table.

    Parameters
    ----------
    pseudonyms : array (rows, 2)
        Pseudonyms in the order of the table; with ``key``, they bind a hint to its
        rectangle.
    by : {"row", "column"}
        What a hint goes by: below, these are the *lines* of the table.
    """

    def __init__(
        self,
        table: AlignedTable,
        pseudonyms: TokenArray,
        key: bytes,
        tolerance: float,
        by: Line = "row",
    ) -> None:
        self._table, self._pseudonyms, self._key = table, pseudonyms, key
        self._tolerance, self._by = tolerance, by

    def hints(self, row_groups: IntArray, column_groups: IntArray) -> list[memoryview]:
        """Return the sealed hints of rectangles that the client owns."""
        if not self._table.own.owns[row_groups, column_groups].all():
            raise RemoteProtocolError("hints are asked for cells that others own")
        return [
            memoryview(seal_note(self._hint(*where), self._place(*where), self._key))
            for where in zip(row_groups.tolist(), column_groups.tolist(), strict=True)
        ]

    def table(
        self, row_groups: IntArray, column_groups: IntArray, hints: list[memoryview]
    ) -> AlignedTable:
        """Return the table with rounded cells, given the hints of some rectangles."""
        if len(hints) != len(row_groups):
            raise RemoteProtocolError(f"expected {len(row_groups)} hints of cells")
        is_shifted = self._own_choice.copy()
        each = zip(row_groups.tolist(), column_groups.tolist(), hints, strict=True)
        for row_group, column_group, hint in each:
            cells = self._cells_of(row_group, column_group)
            is_shifted[cells] = self._opened(row_group, column_group, hint)
        stored = self._stored
        values = round_values(stored.data, is_shifted, self._tolerance)
        values = np.where(self._is_number, values, stored.data)
        parts = (values, stored.indices, stored.indptr)
        rounded = sp.csr_array(parts, shape=stored.shape)
        return replace(self._table, cells=rounded)

    @cached_property
    def _stored(self) -> sp.csr_array:
        """All cells but zeros, in the order that all holders share."""
        stored = self._table.cells.copy()
        stored.eliminate_zeros()
        stored.sort_indices()
        return stored

    @cached_property
    def _is_number(self) -> BoolArray:
        """Which stored cells are rounded: levels of categories are compared by name."""
        is_category = np.zeros(len(self._table.features), dtype=bool)
        is_category[list(self._table.categories)] = True
        return ~is_category[self._stored.indices]

    @cached_property
    def _own_choice(self) -> BoolArray:
        return choose_grids(self._stored.data, self._tolerance) & self._is_number

    @cached_property
    def _rows(self) -> IntArray:
        """The row of each stored cell."""
        n_rows = len(self._table.own.row_groups)
        return np.repeat(np.arange(n_rows), np.diff(self._stored.indptr))

    @cached_property
    def _lines(self) -> IntArray:
        """The line of each stored cell."""
        columns = self._stored.indices.astype(np.int64)
        return self._rows if self._by == "row" else columns

    @property
    def _line_groups(self) -> IntArray:
        """The group of each line."""
        own = self._table.own
        return own.row_groups if self._by == "row" else own.column_groups

    @cached_property
    def _by_rectangle(self) -> tuple[IntArray, IntArray]:
        """Stored cells, rectangle by rectangle, and where each rectangle starts."""
        own = self._table.own
        n_row_groups, n_column_groups = own.owns.shape
        numbers = own.column_groups[self._stored.indices] * n_row_groups
        numbers = numbers + own.row_groups[self._rows]
        order = np.lexsort((self._lines, numbers))
        starts = np.arange(n_row_groups * n_column_groups + 1)
        return order, np.searchsorted(numbers[order], starts)

    def _cells_of(self, row_group: int, column_group: int) -> IntArray:
        """Return the stored cells of a rectangle, line by line."""
        order, starts = self._by_rectangle
        number = column_group * self._table.own.owns.shape[0] + row_group
        return order[starts[number] : starts[number + 1]]

    @cached_property
    def _group_sizes(self) -> IntArray:
        """How many lines each group has."""
        return np.bincount(self._line_groups)

    @cached_property
    def _ranks(self) -> IntArray:
        """The place of each line among those of its group."""
        order = np.argsort(self._line_groups, kind="stable")
        starts = np.cumsum(self._group_sizes) - self._group_sizes
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order)) - np.repeat(starts, self._group_sizes)
        return ranks

    def _counts(
        self, row_group: int, column_group: int, cells: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Return the rank of each cell's line in its group, and cells per line."""
        group = row_group if self._by == "row" else column_group
        ranks = self._ranks[self._lines[cells]]
        return ranks, np.bincount(ranks, minlength=int(self._group_sizes[group]))

    def _hint(self, row_group: int, column_group: int) -> bytes:
        cells = self._cells_of(row_group, column_group)
        _, counts = self._counts(row_group, column_group, cells)
        bits = np.zeros(self._n_bits(row_group, column_group, len(cells)), dtype=bool)
        bits[: len(cells)] = self._own_choice[cells]
        return counts.astype(_COUNT).tobytes() + bytes(pack_bits(bits))

    def _n_bits(self, row_group: int, column_group: int, n_stored: int) -> int:
        """Return the length of a hint about that many stored cells."""
        rows, columns = self._sizes
        n_cells = int(rows[row_group] * columns[column_group])
        if n_stored > n_cells:
            raise RemoteProtocolError("a hint is about more cells than there are")
        return padded_count(n_stored, n_cells, _LEAST)

    @cached_property
    def _sizes(self) -> tuple[IntArray, IntArray]:
        """How many rows and columns their groups have."""
        own = self._table.own
        return np.bincount(own.row_groups), np.bincount(own.column_groups)

    def _opened(self, row_group: int, column_group: int, hint: memoryview) -> BoolArray:
        """Return the grid of each stored cell of a rectangle, as its owner chose it."""
        content = self._content(row_group, column_group, hint)
        cells = self._cells_of(row_group, column_group)
        ranks, counts = self._counts(row_group, column_group, cells)
        size = len(counts) * _COUNT.itemsize
        if len(content) < size:
            raise RemoteProtocolError("a hint is cut off")
        theirs = np.frombuffer(content[:size], _COUNT).astype(np.int64)
        n_bits = self._n_bits(row_group, column_group, int(theirs.sum()))
        bits = unpack_bits(content[size:], (n_bits,))
        # Within a line the bits are in the order of the cells.
        within = np.arange(len(ranks)) - (np.cumsum(counts) - counts)[ranks]
        places = (np.cumsum(theirs) - theirs)[ranks] + within
        is_alike = (theirs == counts)[ranks]
        is_shifted = np.zeros(len(ranks), dtype=bool)
        is_shifted[is_alike] = bits[places[is_alike]]
        return is_shifted

    def _content(
        self, row_group: int, column_group: int, hint: memoryview
    ) -> memoryview:
        place = self._place(row_group, column_group)
        try:
            return memoryview(open_note(hint, place, self._key))
        except NoteError as error:
            raise RemoteProtocolError(f"a hint is invalid: {error}") from None

    def _place(self, row_group: int, column_group: int) -> bytes:
        """Return the name of a rectangle at all holders: all its rows and columns."""
        rows, columns = self._digests
        return bytes(rows[row_group].tobytes() + columns[column_group].tobytes())

    @cached_property
    def _digests(self) -> tuple[TokenArray, TokenArray]:
        """The digests of row groups and of column groups."""
        own, about = self._table.own, f"hints by {self._by}"
        rows = group_digests(own.row_groups, self._pseudonyms, about, self._key)
        words = self._table.words
        return rows, group_digests(own.column_groups, words, about, self._key)

"""Fills blank cells of a table with values from other organisations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.data.tables import KINDS, Kind, Table

Places = tuple[IntArray, IntArray]  # rows and columns of a table


@dataclass(frozen=True, repr=False)
class KnownCells:
    """What an organisation knows about some cells; without a repr, since it is data.

    Parameters
    ----------
    kinds : array (cells,)
        The kind of each cell's column, as its place in ``KINDS``.
    numbers : array (cells,)
        The values, NaN if not known; of a category the place of the level in
        ``levels``.
    """

    kinds: IntArray
    numbers: FloatArray
    levels: tuple[str, ...] = ()


def blank_places(table: Table) -> Places:
    """Return the rows and columns of all blank cells."""
    stored = np.flatnonzero(np.isnan(table.cells.data))
    rows = np.searchsorted(table.cells.indptr, stored, side="right") - 1
    return rows, table.cells.indices[stored].astype(np.int64)


def known_cells(table: Table, places: Places) -> KnownCells:
    """Return what a table has in some of its cells."""
    columns, at = places[1], _stored(table.cells, places)
    numbers = np.append(table.cells.data, 0.0)[at]  # what is not stored is zero
    is_known, levels = ~np.isnan(numbers), list[str]()
    for name, own_levels in table.levels.items():
        own = np.flatnonzero((columns == table.features.index(name)) & is_known)
        codes, which = np.unique(numbers[own], return_inverse=True)
        numbers[own] = len(levels) + which
        levels += [own_levels[int(code) - 1] for code in codes]
    kinds = [KINDS.index(table.kind_of(c)) for c in range(len(table.features))]
    return KnownCells(np.array(kinds, np.int64)[columns], numbers, tuple(levels))


def filled(table: Table, found: Sequence[tuple[Places, KnownCells]]) -> Table:
    """Return a table as if its file had had the values that were found.

    Where several have a value of a blank cell, the first one counts.
    """
    data, texts = table.cells.data.copy(), dict[int, str]()
    kinds = [table.kind_of(column) for column in range(len(table.features))]
    for places, known in found:
        at, is_new = _stored(table.cells, places), ~np.isnan(known.numbers)
        is_new &= np.isnan(data[at]) & ~np.isin(at, list(texts))
        for column in np.unique(places[1][is_new]).tolist():
            own = np.flatnonzero(is_new & (places[1] == column))
            kind = KINDS[int(known.kinds[own[0]])]
            kinds[column] = kind if kinds[column] == "blank" else kinds[column]
            if kind == "category":
                levels = [known.levels[int(place)] for place in known.numbers[own]]
                texts |= dict(zip(at[own].tolist(), levels, strict=True))
            else:
                data[at[own]] = known.numbers[own]
    return _with_cells(table, data, texts, kinds)


def filled_by_others(tables: Sequence[Table]) -> list[Table]:
    """Return tables in one place, each filled from all others, by rank."""
    return [
        filled(table, [_found(table, other) for other in tables if other is not table])
        for table in tables
    ]


def _found(table: Table, other: Table) -> tuple[Places, KnownCells]:
    """Return the blank cells of a table that another one holds too, and its values."""
    row_of = {name: row for row, name in enumerate(other.ids)}
    column_of = {name: column for column, name in enumerate(other.features)}
    rows, columns = blank_places(table)
    their_rows = np.array([row_of.get(name, -1) for name in table.ids], np.int64)
    their_columns = np.array([column_of.get(f, -1) for f in table.features], np.int64)
    is_common = (their_rows[rows] >= 0) & (their_columns[columns] >= 0)
    rows, columns = rows[is_common], columns[is_common]
    return (rows, columns), known_cells(
        other, (their_rows[rows], their_columns[columns])
    )


def _stored(cells: sp.csr_array, places: Places) -> IntArray:
    """Return where some cells are in the data of a CSR array, or -1."""
    rows = np.repeat(np.arange(cells.shape[0]), np.diff(cells.indptr))
    numbers = np.append(rows * cells.shape[1] + cells.indices, -1)
    order = np.argsort(numbers, kind="stable")
    wanted = places[0] * cells.shape[1] + places[1]
    at = order[np.searchsorted(numbers, wanted, side="right", sorter=order) - 1]
    return np.where(numbers[at] == wanted, at, -1)


def _with_cells(
    table: Table, data: FloatArray, texts: dict[int, str], kinds: Sequence[Kind]
) -> Table:
    """Return a table with other cells; levels are numbered as a reader does."""
    levels = dict(table.levels)
    at = np.array(list(texts), np.int64)
    for column in np.unique(table.cells.indices[at]).tolist():
        name, own = table.features[column], at[table.cells.indices[at] == column]
        before = levels.get(name, ())
        levels[name] = tuple(sorted({*before, *(texts[place] for place in own)}))
        code_of = {level: code for code, level in enumerate(levels[name], start=1)}
        here = np.flatnonzero((table.cells.indices == column) & ~np.isnan(data))
        codes = np.array([code_of[level] for level in before], np.float64)
        data[here] = codes[data[here].astype(np.int64) - 1]
        data[own] = [code_of[texts[place]] for place in own]
    own_levels = {name: levels[name] for name in table.features if name in levels}
    parts = (data, table.cells.indices, table.cells.indptr)
    return replace(
        table,
        cells=sp.csr_array(parts, shape=table.cells.shape),
        levels=own_levels,
        kinds=tuple(kinds) if table.kinds else (),
    )

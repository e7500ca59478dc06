"""Rows that are set aside before training, by a hash of their IDs or by a column.

Every holder of a row computes the same answer by itself: the hash depends on the ID and
on a public salt, not on the study's keys. So a row is held out again in every study
with the same salt, and nobody can choose which rows these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from hyfdca.arrays import BoolArray
from hyfdca.data.tables import Table, TableError
from hyfdca.errors import counted

_PERSON = b"hyfdca holdout"
_WORD = 8  # bytes of a hash that decide


@dataclass(frozen=True)
class HoldoutRule:
    """Which rows are set aside.

    Parameters
    ----------
    share : float
        The share of all rows, by the hash of their IDs.
    has_column : bool
        Whether a column of the tables decides instead.
    salt : str
        The salt of the hash.
    """

    share: float = 0.0
    has_column: bool = False
    salt: str = ""

    def __bool__(self) -> bool:
        """Whether any rows are set aside."""
        return self.has_column or self.share > 0.0

    def is_held_out(self, table: Table) -> BoolArray:
        """Return whether each row of a table is set aside."""
        if not self.has_column:
            return is_drawn(table.ids, self.share, self.salt)
        if table.held_out is None:
            raise ValueError("the table was read without its holdout_column")
        return table.held_out


@dataclass(frozen=True, repr=False)
class SplitTable:
    """An organisation's rows to train on, and those set aside."""

    training: Table
    held_out: Table


def split_table(table: Table, rule: HoldoutRule) -> SplitTable:
    """Return a table's rows in two parts, each as if the other did not exist."""
    is_held_out = rule.is_held_out(table)
    table = replace(table, held_out=None)
    parts = (~is_held_out, is_held_out)
    return SplitTable(
        *(_own_levels(table.of_rows(np.flatnonzero(part))) for part in parts)
    )


def is_drawn(ids: Sequence[str], share: float, salt: str) -> BoolArray:
    """Return whether the hash of each ID is below a share of all hashes."""
    key = blake2b(salt.encode(), person=_PERSON).digest()  # a salt has any length
    empty = blake2b(key=key, digest_size=_WORD, person=_PERSON)
    hashes = bytearray()
    for name in ids:
        own = empty.copy()
        own.update(name.encode())
        hashes += own.digest()
    limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    return np.asarray(np.frombuffer(hashes, "<u8") < limit)


def held_out_column(file: str, name: str, values: object) -> BoolArray:
    """Return a column of 0 and 1 as booleans.

    Raises
    ------
    TableError
        If it has other values.
    """
    numbers = np.asarray(values, dtype=np.float64)
    n_bad = int(np.sum((numbers != 0.0) & (numbers != 1.0)))
    if n_bad:
        raise TableError(
            f"{file} has {counted(n_bad, 'row')} with neither 0 nor 1 in the "
            f"holdout_column {name!r}; write 1 in rows to set aside and 0 in all others"
        )
    return np.asarray(numbers == 1.0)


def _own_levels(table: Table) -> Table:
    """Return a table without levels that no row has; the others count from 1."""
    if not table.levels:
        return table
    cells, levels = table.cells.copy(), dict(table.levels)
    for column, name in enumerate(table.features):
        if name in levels:
            places = np.flatnonzero(cells.indices == column)
            codes = cells.data[places]
            is_known = ~np.isnan(codes)
            used, numbers = np.unique(codes[is_known], return_inverse=True)
            codes[is_known] = numbers + 1.0
            cells.data[places] = codes
            levels[name] = tuple(levels[name][int(code) - 1] for code in used)
    return replace(table, cells=cells, levels=levels)

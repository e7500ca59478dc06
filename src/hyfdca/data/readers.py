"""Readers of one organisation's table, one per file format, with checks.

Every problem with a file raises a ``TableError`` of one sentence. It says what is
wrong, where, and what to do. It never quotes a cell: cells are somebody's data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from hyfdca.data.named_columns import NamedColumns, open_csv, open_parquet
from hyfdca.data.named_tables import read_csv, read_parquet
from hyfdca.data.numbered_tables import read_libsvm, read_npz
from hyfdca.data.tables import (
    LARGEST_CELL,
    Columns,
    Table,
    TableError,
)
from hyfdca.data.target_columns import check_offsets, check_weights
from hyfdca.errors import counted, reading

T = TypeVar("T")
_OR_OTHER_IDS = (", or correct id_column", "id_column")
_SCIENTIFIC = re.compile(r"[0-9][.,]?[0-9]*[eE]\+?[0-9]+")


def read_table(path: Path, columns: Columns) -> Table:
    """Read and check a table; the ending of the file gives its format.

    Raises
    ------
    TableError
    """
    reader = _READERS.get(_ending(path))
    if reader is None:
        known = ", ".join(_READERS)
        raise TableError(f"cannot read {path.name}; use a file that ends in {known}")
    _check_file(path)
    table = _openable(path, lambda: reader(path, columns))
    _check_ids(path, table.ids, columns.id or "ids")
    _check_cells(path, table)
    check_weights(path.name, columns.weight or "", table)
    check_offsets(path.name, columns.offset or "", table, not columns.label_needed)
    return table


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise TableError(f"{path} is a folder; give the path of a file in it")
    if not path.is_file():
        raise TableError(f"the file {path} does not exist; correct its path")
    if path.stat().st_size == 0:
        raise TableError(f"the file {path.name} is empty; give a file with a table")


def _openable(path: Path, read: Callable[[], T]) -> T:
    damaged = TableError(
        f"the table {path} is damaged, or too large for this machine; save it again"
    )
    with reading(damaged):
        try:
            return read()
        except OSError as error:
            if error.errno is None:  # a compressed file that ends early, for example
                raise damaged from None
            raise TableError(
                f"cannot open {path.name}; check its permissions"
            ) from None


def has_named_columns(path: Path) -> bool:
    """Return whether the columns of such a file have names."""
    return _READERS.get(_ending(path)) in (read_csv, read_parquet)


def _shortened(ids: Sequence[str]) -> str:
    """Return further advice if IDs look like long numbers from a spreadsheet."""
    if any(map(_SCIENTIFIC.fullmatch, ids)):
        return ", write IDs such as 1.2E+11 with all their digits"
    return ""


def _check_ids(path: Path, ids: Sequence[str], name: str) -> None:
    if not ids:
        raise TableError(f"the file {path.name} has no rows; add some")
    if "" in ids:
        raise TableError(
            f"{path.name} has {counted(ids.count(''), 'row')} without an ID in column "
            f"{name!r}; give each row one",
            *_OR_OTHER_IDS,
        )
    n_repeated = len(ids) - len(set(ids))
    if n_repeated:
        raise TableError(
            f"{path.name} has {counted(n_repeated, 'row')} with the ID of another row "
            f"in column {name!r}; keep one row per ID{_shortened(ids)}",
            *_OR_OTHER_IDS,
        )


def _check_cells(path: Path, table: Table) -> None:
    if not table.features:
        raise TableError(
            f"{path.name} has no feature columns besides ID, label and what ignore "
            "leaves out; add some"
        )
    twice = [name for name, count in Counter(table.features).items() if count > 1]
    if twice:
        raise TableError(
            f"features for {path.name} are named twice, such as {twice[0]!r}; name "
            "each once in the key features"
        )
    too_large = np.abs(table.cells.data) > LARGEST_CELL
    if too_large.any():
        columns = np.unique(table.cells.indices[too_large])
        numbers = counted(int(too_large.sum()), "number that is", "numbers that are")
        raise TableError(
            f"{path.name} has {numbers} infinite or beyond {LARGEST_CELL}, the first "
            f"in column {table.features[columns[0]]!r}; correct them",
            ", or leave such columns out with ignore",
        )


def _ending(path: Path) -> str:
    suffixes: Iterable[str] = (s for s in path.suffixes if s not in (".gz", ".bz2"))
    return ([s.lower() for s in suffixes] or [""])[-1]


def open_columns(path: Path, columns: Columns) -> NamedColumns:
    """Read a file whose columns have names; the ID and the label of a CSV as text.

    Raises
    ------
    TableError
    """
    _check_file(path)
    opener = open_csv if _READERS[_ending(path)] is read_csv else open_parquet
    return _openable(path, lambda: opener(path, columns))


_READERS: dict[str, Callable[[Path, Columns], Table]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".txt": read_csv,
    ".parquet": read_parquet,
    ".libsvm": read_libsvm,
    ".svm": read_libsvm,
    ".npz": read_npz,
}

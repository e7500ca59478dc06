"""Files with one organisation's table, whatever their format, checked.

Whatever is wrong with a file is a ``TableError`` of one sentence that says what, where
and what to do, and never quotes a cell: cells are somebody's data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from hyfdca.data.named_tables import read_csv, read_parquet
from hyfdca.data.numbered_tables import read_libsvm, read_npz
from hyfdca.data.tables import Columns, Table, TableError

_LARGEST = 1e100  # squares of larger numbers soon overflow

_READERS: dict[str, Callable[[Path, Columns], Table]] = {
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".libsvm": read_libsvm,
    ".svm": read_libsvm,
    ".npz": read_npz,
}


def read_table(path: Path, columns: Columns) -> Table:
    """Return the table of a file, by its ending, checked.

    Raises
    ------
    TableError
    """
    reader = _READERS.get(_ending(path))
    if reader is None:
        known = ", ".join(_READERS)
        raise TableError(f"cannot read {path.name}; use a file that ends in {known}")
    if not path.is_file():
        raise TableError(f"there is no file {path}; correct its path")
    if path.stat().st_size == 0:
        raise TableError(f"the file {path.name} is empty; give it a table")
    try:
        table = reader(path, columns)
    except OSError:
        raise TableError(f"cannot open {path.name}; see who may read it") from None
    _check_ids(path, table.ids)
    _check_cells(path, table)
    if columns.label_needed and table.labels is not None and "" in table.labels:
        raise TableError(
            f"{table.labels.count('')} rows of {path.name} have no label; fill the "
            "label column or leave these rows out"
        )
    return table


def has_named_columns(path: Path) -> bool:
    """Return whether columns of such a file have names of their own."""
    return _READERS.get(_ending(path)) in (read_csv, read_parquet)


def _check_ids(path: Path, ids: Sequence[str]) -> None:
    if not ids:
        raise TableError(f"the file {path.name} has no rows; give it some")
    if "" in ids:
        raise TableError(
            f"{ids.count('')} rows of {path.name} have no ID; give each row one"
        )
    n_repeated = len(ids) - len(set(ids))
    if n_repeated:
        raise TableError(
            f"{n_repeated} rows of {path.name} repeat the ID of another row; keep one "
            "row an ID"
        )


def _check_cells(path: Path, table: Table) -> None:
    if not table.features:
        raise TableError(f"{path.name} has no feature columns; give it some")
    if len(set(table.features)) < len(table.features):
        raise TableError(f"features for {path.name} are named twice; name each once")
    too_large = np.abs(table.cells.data) > _LARGEST
    if too_large.any():
        columns = np.unique(table.cells.indices[too_large])
        raise TableError(
            f"{path.name} has {too_large.sum()} infinite numbers or beyond {_LARGEST}, "
            f"first in column {table.features[columns[0]]!r}; correct them"
        )


def _ending(path: Path) -> str:
    suffixes: Iterable[str] = (s for s in path.suffixes if s not in (".gz", ".bz2"))
    return ([s.lower() for s in suffixes] or [""])[-1]

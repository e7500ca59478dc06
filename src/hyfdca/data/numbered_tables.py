"""Tables with numbered columns: LIBSVM and NPZ files."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from hyfdca.data.held_out import held_out_column
from hyfdca.data.tables import (
    Columns,
    Table,
    TableError,
    check_columns,
    id_text,
    label_text,
    stored_densely,
)

_MOST_FEATURES = 20_000_000
# Raised when reading a damaged NPZ file; a RuntimeError if the archive is encrypted or
# packed in an unknown way.
_BAD_NPZ = (
    *(AttributeError, EOFError, KeyError, MemoryError, OSError, RuntimeError),
    *(TypeError, ValueError, zipfile.BadZipFile, zlib.error),
)
# The arrays of a scipy sparse matrix in an NPZ file
_CSR_PARTS = {"data", "indices", "indptr", "shape"}
_NUMBERED = re.compile(r"f(0|[1-9][0-9]{0,8})")  # names of features


def read_libsvm(path: Path, columns: Columns) -> Table:
    """Return the table of a LIBSVM file."""
    # Imported here because it takes seconds, and few tables have this format.
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    try:
        cells, labels = load_svmlight_file(str(path), zero_based=False)
    except (OverflowError, ValueError):  # its message would quote the line
        raise TableError(
            f"{path.name} is not a LIBSVM file; write one label and index:value pairs "
            "per line, with indices from 1"
        ) from None
    cells = sp.csr_array(cells)
    if columns.absent_are_zero:
        n_rows, n_features = cells.shape
        shape = (n_rows, max(n_features, _width(columns.features)))
        parts = (cells.data, cells.indices, cells.indptr)
        cells = sp.csr_array(parts, shape=shape)
    return _numbered(path, cells, labels, None, columns)


def _width(features: Sequence[str] | None) -> int:
    """Return how many numbered features are needed to include these."""
    numbers = (_NUMBERED.fullmatch(name) for name in features or ())
    found = (int(number[1]) + 1 for number in numbers if number)
    return min(max(found, default=0), _MOST_FEATURES)


def read_npz(path: Path, columns: Columns) -> Table:
    """Return the table of an NPZ file."""
    try:
        # Opened here because numpy does not close a damaged file.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except _BAD_NPZ:
        raise TableError(
            f"{path.name} is not an NPZ file of plain arrays; save it again"
        ) from None
    try:
        cells = _cells_of(arrays)
    except (KeyError, TypeError, ValueError):
        raise TableError(
            f"{path.name} has no table of numbers; save it with an array X, or with "
            "the data, indices, indptr and shape of a CSR matrix"
        ) from None
    labels, ids = (_with_text(path, name, arrays.get(name)) for name in ("y", "ids"))
    return _numbered(path, cells, labels, ids, columns)


def _with_text(
    path: Path, name: str, array: NDArray[Any] | None
) -> NDArray[Any] | None:
    """Return an array of labels or IDs whose bytes are read as text."""
    if array is None or array.dtype.kind not in "SV":
        return array
    try:
        return np.char.decode(array, "utf-8")
    except (TypeError, UnicodeDecodeError):  # structures are bytes too
        raise TableError(
            f"the array {name} of {path.name} is neither numbers nor text in UTF-8; "
            "save it as text"
        ) from None


def _cells_of(arrays: dict[str, NDArray[Any]]) -> sp.csr_array:
    """Return the table in an NPZ file's arrays; raise if there is none."""
    if any(np.iscomplexobj(array) for array in arrays.values()):
        raise TypeError("complex numbers")
    if not arrays.keys() >= _CSR_PARTS:
        return stored_densely(np.asarray(arrays["X"], dtype=np.float64))
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    n_rows, n_columns = (int(size) for size in arrays["shape"])
    cells = sp.csr_array(parts, shape=(n_rows, n_columns), dtype=np.float64)
    # Kernels trust indices, so every index of a file must be checked.
    cells.check_format(full_check=True)
    cells.sum_duplicates()
    return cells


def _numbered(
    path: Path,
    cells: sp.csr_array,
    labels: NDArray[Any] | None,
    ids: NDArray[Any] | None,
    columns: Columns,
) -> Table:
    """Name features f0, f1, ... and number rows that have no IDs."""
    n_rows, n_features = cells.shape
    if n_features > _MOST_FEATURES:
        raise TableError(
            f"{path.name} has {n_features} features, more than {_MOST_FEATURES}; "
            "number features without gaps"
        )
    if columns.has_label and columns.label_needed and labels is None:
        raise TableError(f"{path.name} has no labels; save them as the array y")
    if ids is None and not columns.rows_by_order:
        raise TableError(
            f"{path.name} has no IDs to match its rows by; save it as NPZ with an "
            "array ids",
            ', or set rows = "by order" if the same line is the same case at all '
            "organisations",
        )
    if any(a is not None and np.shape(a) != (n_rows,) for a in (labels, ids)):
        raise TableError(f"{path.name} needs one label and ID per row; save it again")
    rows = range(n_rows) if ids is None else ids.tolist()
    texts = tuple(map(label_text, labels.tolist())) if labels is not None else None
    table = Table(
        tuple(map(id_text, rows)),
        tuple(f"f{number}" for number in range(n_features)),
        cells,
        texts if columns.has_label else None,
    )
    return _with_roles(path, table, columns)


def _with_roles(path: Path, table: Table, columns: Columns) -> Table:
    """Return a table of numbered columns with the columns that the study names."""
    _check_not_categories(path, table, columns)
    beside = (*columns.beside_labels(table.features), columns.holdout)
    needed = [name for name in beside if name is not None]
    left_out = filter(None, (*columns.with_roles, *columns.ignored_if_present))
    has_roles = bool(needed or columns.ignored)
    has_roles = has_roles or any(map(_NUMBERED.fullmatch, left_out))
    if columns.features is None and not has_roles:
        return table  # with millions of names it pays not to check each one
    check_columns(path.name, columns.ignored, table.features, "ignore")
    features = columns.chosen(table.features)
    check_columns(path.name, [*needed, *features], table.features)
    weights, offsets, held_out = (
        None if name is None else table.cells[:, [int(name[1:])]].toarray()[:, 0]
        for name in beside
    )
    if len(features) < len(table.features) or columns.features is not None:
        chosen = [int(name[1:]) for name in features]
        table = replace(table, features=features, cells=table.cells[:, chosen])
    if held_out is not None:
        held_out = held_out_column(path.name, str(columns.holdout), held_out)
    return replace(table, weights=weights, offsets=offsets, held_out=held_out)


def _check_not_categories(path: Path, table: Table, columns: Columns) -> None:
    """Refuse numbered columns that the study names as categories."""
    named = [name for name in columns.categorical if name in table.features]
    if named:
        raise TableError(
            f"categorical names {named[0]!r}, but columns of {path.name} are numbers; "
            "save it as CSV or Parquet"
        )

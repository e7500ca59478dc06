"""Readers of tables whose columns are numbered, f0, f1, ...: LIBSVM and NPZ."""

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
_BAD_ZIP = (zipfile.BadZipFile, zlib.error)
# What a scipy sparse matrix is made of in an NPZ file
_CSR_PARTS = {"data", "indices", "indptr", "shape"}
_NUMBERED = re.compile(r"f(0|[1-9][0-9]{0,8})")  # names of features


def read_libsvm(path: Path, columns: Columns) -> Table:
    """Return the table of a LIBSVM file."""
    # Here, as it takes seconds: every command would pay for a format few have.
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    try:
        cells, labels = load_svmlight_file(str(path), zero_based=False)
    except ValueError:  # its message would quote the line
        raise TableError(
            f"{path.name} is no LIBSVM file; write lines of a label and index:value "
            "pairs, indices from 1"
        ) from None
    cells = sp.csr_array(cells)
    if columns.absent_are_zero:
        n_rows, n_features = cells.shape
        shape = (n_rows, max(n_features, _width(columns.features)))
        parts = (cells.data, cells.indices, cells.indptr)
        cells = sp.csr_array(parts, shape=shape)
    return _numbered(path, cells, labels, None, columns)


def _width(features: Sequence[str] | None) -> int:
    """Return how many numbered features there must be to have these."""
    numbers = (_NUMBERED.fullmatch(name) for name in features or ())
    found = (int(number[1]) + 1 for number in numbers if number)
    return min(max(found, default=0), _MOST_FEATURES)


def read_npz(path: Path, columns: Columns) -> Table:
    """Return the table of an NPZ file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (AttributeError, EOFError, TypeError, ValueError, OSError, *_BAD_ZIP):
        raise TableError(
            f"{path.name} is no NPZ file of plain arrays; save it again"
        ) from None
    try:
        cells = _cells_of(arrays)
    except (KeyError, TypeError, ValueError):
        raise TableError(
            f"{path.name} has no table of numbers; save it with an array X, or with "
            "the data, indices, indptr and shape of a CSR matrix"
        ) from None
    return _numbered(path, cells, arrays.get("y"), arrays.get("ids"), columns)


def _cells_of(arrays: dict[str, NDArray[Any]]) -> sp.csr_array:
    """Return the table in an NPZ file's arrays; raises where they make none."""
    if any(np.iscomplexobj(array) for array in arrays.values()):
        raise TypeError("complex numbers")
    if not arrays.keys() >= _CSR_PARTS:
        return stored_densely(np.asarray(arrays["X"], dtype=np.float64))
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    n_rows, n_columns = (int(size) for size in arrays["shape"])
    cells = sp.csr_array(parts, shape=(n_rows, n_columns), dtype=np.float64)
    # Kernels trust indices, so a file's must be looked at one by one.
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
    """Name features f0, f1, ... and rows by number where they have no names."""
    n_rows, n_features = cells.shape
    if n_features > _MOST_FEATURES:
        raise TableError(
            f"{path.name} has a feature number {n_features}, beyond {_MOST_FEATURES}; "
            "number features without gaps"
        )
    if columns.has_label and columns.label_needed and labels is None:
        raise TableError(f"{path.name} has no labels; save them as the array y")
    if any(a is not None and np.shape(a) != (n_rows,) for a in (labels, ids)):
        raise TableError(f"{path.name} has not one label and ID a row; save it again")
    rows = range(n_rows) if ids is None else ids.tolist()
    texts = tuple(map(label_text, labels.tolist())) if labels is not None else None
    table = Table(
        tuple(map(id_text, rows)),
        tuple(f"f{number}" for number in range(n_features)),
        cells,
        texts if columns.has_label else None,
    )
    if columns.features is None:
        return table
    features = columns.chosen(table.features)
    check_columns(path.name, features, table.features)
    chosen = [int(name[1:]) for name in features]
    return replace(table, features=features, cells=cells[:, chosen])

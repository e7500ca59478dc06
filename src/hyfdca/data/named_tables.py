"""Readers of tables whose columns have names: CSV and Parquet."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from hyfdca.arrays import FloatArray
from hyfdca.data.tables import (
    Columns,
    Table,
    TableError,
    check_columns,
    id_text,
    label_text,
    normalised,
    stored_densely,
)


def read_csv(path: Path, columns: Columns) -> Table:
    """Return the table of a CSV file."""
    try:
        # First the names, because an ID read as a number would lose its zeros.
        names = pa.csv.open_csv(path).schema.names
        texts = [n for n in names if normalised(n) in (columns.id, columns.label)]
        options = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(texts, pa.string()), strings_can_be_null=True
        )
        table = pa.csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, pa.ArrowKeyError):  # its message would quote the row
        raise TableError(
            f"{path.name} is no CSV table; save it as UTF-8 with one line of column "
            "names and as many cells in every row"
        ) from None
    return _from_arrow(path, table, columns)


def read_parquet(path: Path, columns: Columns) -> Table:
    """Return the table of a Parquet file."""
    try:
        table = pa.parquet.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError):
        raise TableError(f"{path.name} is no Parquet file; save it again") from None
    return _from_arrow(path, table, columns)


def _from_arrow(path: Path, table: Any, columns: Columns) -> Table:
    names = [normalised(name) for name in table.column_names]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(
            f"{path.name} has {len(repeated)} column names more than once, such as "
            f"{repeated[0]!r}; rename them"
        )
    by_name = dict(zip(names, table.columns, strict=True))
    if columns.id is None:
        raise TableError(f"the study names no id_column for {path.name}; name it")
    label = columns.label if columns.has_label else None
    if not columns.label_needed and label not in by_name:
        label = None
    elif columns.has_label and label is None:
        raise TableError(f"the study names no label_column for {path.name}; name it")
    features = columns.chosen(names)
    check_columns(
        path.name, [columns.id, *([label] if label else []), *features], names
    )
    cells = np.empty((table.num_rows, len(features)))
    for number, name in enumerate(features):
        cells[:, number] = _numbers(path, name, by_name[name])
    return Table(
        tuple(id_text(value) for value in by_name[columns.id].to_pylist()),
        features,
        stored_densely(cells),
        tuple(map(label_text, by_name[label].to_pylist())) if label else None,
    )


def _numbers(path: Path, name: str, column: Any) -> FloatArray:
    """Return a column as floats, NaN where it is empty."""
    if pa.types.is_dictionary(column.type):
        column = column.combine_chunks().dictionary_decode()
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not is_text:
        try:
            column = column.cast(pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _refuse(path, name, len(column) - column.null_count)
        return np.asarray(column.fill_null(math.nan).to_numpy(), dtype=np.float64)
    numbers = [_number(cell) for cell in column.to_pylist()]
    n_bad = sum(number is None for number in numbers)
    return _refuse(path, name, n_bad) if n_bad else np.array(numbers, dtype=np.float64)


def _refuse(path: Path, name: str, n_cells: int) -> FloatArray:
    raise TableError(
        f"column {name!r} of {path.name} has {n_cells} cells that are no numbers; "
        "correct them or leave the column out of the features"
    )


def _number(cell: str | None) -> float | None:
    try:
        return float(cell) if cell is not None and cell.strip() else math.nan
    except ValueError:
        return None

"""Kinds of columns: numbers, yes or no, dates and categories, each as floats.

| kind     | cells of the file                      | cells of the table              |
|----------|----------------------------------------|---------------------------------|
| number   | numbers, or text that is all numbers   | the numbers                     |
| boolean  | true and false                         | 1 and 0                         |
| date     | dates and times                        | days since a date of the study  |
| category | text, or whatever the study names so   | the number of the level, from 1 |
| blank    | nothing                                | -                               |

A blank cell is NaN in every kind.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hyfdca.arrays import FloatArray
from hyfdca.data.tables import (
    Columns,
    Kind,
    Table,
    TableError,
    label_text,
    normalised,
    stored_densely,
)
from hyfdca.errors import counted

MOST_LEVELS = 10_000  # of one column; more are rather free text

_DAY = 86_400  # seconds
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime.date(1970, 1, 1)
_WHOLE = re.compile(r"[+-]?[0-9]+\.0")
_DATE = re.compile(
    r"\s*([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})"
    r"(\s|T|\Z)"
)


@dataclass(frozen=True, repr=False)
class Column:
    """A column as floats; without a repr, because cells must not reach a log.

    Parameters
    ----------
    levels : tuple of str
        Of a category: the level of code 1, 2, ...
    """

    kind: Kind
    cells: FloatArray
    levels: tuple[str, ...] = ()


_OR_SETTINGS = (
    ", set categorical = [{0}] in the study file if they are names of categories, or "
    "leave the column out with ignore = [{0}]"
)


def read_numbers(file: str, name: str, column: Any) -> FloatArray:
    """Return an Arrow column that must be of numbers, such as weights.

    Raises
    ------
    TableError
    """
    own = read_column(file, name, column, Columns(), remedy="")
    if own.kind == "date":
        raise _refusal(file, name, int(np.sum(~np.isnan(own.cells))), "")
    return own.cells


def read_column(
    file: str, name: str, column: Any, columns: Columns, remedy: str = _OR_SETTINGS
) -> Column:
    """Return an Arrow column as floats.

    Parameters
    ----------
    file : str
        For messages.
    remedy : str
        What else than correcting cells helps, with a place for the name.

    Raises
    ------
    TableError
        If its cells are neither numbers nor anything that becomes numbers.
    """
    column = column.combine_chunks()
    is_dictionary = pa.types.is_dictionary(column.type)
    if is_dictionary:
        column = column.dictionary_decode()
    is_category = is_dictionary and columns.text_is_category
    if is_category or name in columns.categorical:
        return _category(file, name, column)
    kind = column.type
    if pa.types.is_null(kind):
        return Column("blank", np.full(len(column), math.nan))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Column("date", _days(column, columns.date_origin))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text(file, name, column, columns, remedy)
    try:
        cells = _filled(column.cast(pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        n_cells = len(column) - column.null_count
        raise _refusal(file, name, n_cells, remedy) from None
    return Column("boolean" if pa.types.is_boolean(kind) else "number", cells)


def level_text(value: object) -> str:
    """Return the name of a level; "" means a blank cell.

    Text is taken as IDs are: "007" and "7" differ. But 7, 7.0 and "7.0" are all "7",
    and a date is the same with or without midnight.
    """
    if isinstance(value, int | float):
        return label_text(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time.min:
        value = value.date()
    text = "" if value is None else normalised(value)
    # pandas writes whole numbers so where some cells of the column are blank.
    return text.removesuffix(".0") if _WHOLE.fullmatch(text) else text


def _text(file: str, name: str, column: Any, columns: Columns, remedy: str) -> Column:
    """Return text as numbers if it is numbers, or as a category if none of it is.

    A column of both is rather one of numbers with mistakes.
    """
    numbers = [_number(cell) for cell in column.to_pylist()]
    n_text = sum(number is None for number in numbers)
    if not n_text:
        return Column("number", np.array(numbers, dtype=np.float64))
    n_blank = sum(number is not None and math.isnan(number) for number in numbers)
    if columns.text_is_category and n_text + n_blank == len(numbers):
        _check_no_dates(file, name, column)
        return _category(file, name, column)
    raise _refusal(file, name, n_text, remedy)


def _check_no_dates(file: str, name: str, column: Any) -> None:
    """Refuse text of which half or more looks like dates, but was not read as such."""
    texts = [text for text in column.to_pylist() if text and text.strip()]
    n_dates = sum(_DATE.match(text) is not None for text in texts)
    if 2 * n_dates >= len(texts):
        quoted = json.dumps(name, ensure_ascii=False)
        raise TableError(
            f"column {name!r} of {file} has {n_dates} cells that look like dates, but "
            "not all cells are dates as in 2024-12-31; write all of them so, or set "
            f"categorical = [{quoted}] or ignore = [{quoted}]"
        )


def _category(file: str, name: str, column: Any) -> Column:
    try:
        found = column.dictionary_encode()
    except pa.ArrowNotImplementedError:  # lists and structures
        raise TableError(
            f"column {name!r} of {file} is of the type {column.type}, which has no "
            "levels; save it as text"
        ) from None
    texts = [level_text(value) for value in found.dictionary.to_pylist()]
    levels = tuple(sorted(set(texts) - {""}))
    if len(levels) > MOST_LEVELS:
        raise TableError(
            f"column {name!r} of {file} has {len(levels):,} different texts, more than "
            f"a category may have ({MOST_LEVELS:,}); leave it out with ignore = "
            f"[{json.dumps(name, ensure_ascii=False)}]"
        )
    codes = {text: code for code, text in enumerate(levels, start=1)}
    # The last one is for cells without a value, whose index is null.
    of_value = np.array([codes.get(text, math.nan) for text in (*texts, "")])
    indices = found.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return Column("category", of_value[indices.astype(np.int64)], levels)


def _days(column: Any, origin: datetime.date) -> FloatArray:
    """Return dates and times as days; times without a zone are taken as they are."""
    kind, start = column.type, (origin - _EPOCH).days
    if pa.types.is_date32(kind):
        return _filled(column.cast(pa.int32()).cast(pa.float64())) - start
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    # Nanoseconds have more digits than a float, to which they are rounded.
    counted = column.cast(pa.int64()).cast(pa.float64(), safe=False)
    return _filled(counted) / (_DAY * _PER_SECOND[unit]) - start


def _filled(column: Any) -> FloatArray:
    filled = column.fill_null(math.nan).to_numpy(zero_copy_only=False)
    return np.asarray(filled, dtype=np.float64)


def _number(cell: str | None) -> float | None:
    try:
        return float(cell) if cell is not None and cell.strip() else math.nan
    except ValueError:
        return None


def _refusal(file: str, name: str, n_cells: int, remedy: str) -> TableError:
    quoted = json.dumps(name, ensure_ascii=False)
    cells = counted(n_cells, "cell that is not a number", "cells that are not numbers")
    return TableError(
        f"column {name!r} of {file} has {cells}; correct them{remedy.format(quoted)}"
    )


def table_of_columns(
    ids: tuple[str, ...], names: tuple[str, ...], columns: Sequence[Column]
) -> Table:
    """Return columns as a table without labels."""
    cells = np.empty((len(ids), len(columns)))
    for number, column in enumerate(columns):
        cells[:, number] = column.cells
    kinds = tuple(column.kind for column in columns)
    each = zip(names, columns, strict=True)
    return Table(
        ids,
        names,
        stored_densely(cells),
        None,
        kinds=kinds if set(kinds) - {"number"} else (),
        levels={name: own.levels for name, own in each if own.kind == "category"},
    )

"""Kinds of columns: numbers, yes or no, dates and categories, each as floats.

| kind     | cells of the file                      | cells of the table              |
|----------|----------------------------------------|---------------------------------|
| number   | numbers, or text that is all numbers   | the numbers                     |
| boolean  | true and false, or text that is all    | 1 and 0                         |
|          | yes and no                             |                                 |
| date     | dates and times, as clocks show them   | days since a date of the study  |
| category | text, or whatever the study names so   | the number of the level, from 1 |
| blank    | nothing                                | -                               |

A blank cell is NaN in every kind. Among numbers, and among yes and no, texts such as
"-", "NA" and "unknown" are blank too; a note says so. In a category they are levels.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyfdca.arrays import FloatArray
from hyfdca.data.csv_form import CsvForm
from hyfdca.data.missing_codes import missing_note
from hyfdca.data.tables import (
    LONGEST_NAME,
    Columns,
    Kind,
    Table,
    TableError,
    label_text,
    listed,
    normalised,
    stored_densely,
)
from hyfdca.data.words import (
    BLANK_WORDS,
    NULL_TEXTS,
    boolean_of,
    check_no_codes,
    check_no_dates,
    check_no_numbers,
    is_blank,
    is_yes_or_no,
    number_of,
    words_of,
)
from hyfdca.errors import counted

MOST_LEVELS = 10_000  # of one column; more are probably free text

_DAY = 86_400  # seconds
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime.date(1970, 1, 1)
_ZONE = r"([T ][0-9:.]+) ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"  # after a time
_WHOLE = re.compile(r"[+-]?[0-9]+\.0")


@dataclass(frozen=True, repr=False)
class Column:
    """A column as floats; without a repr, because cells must not reach a log.

    Parameters
    ----------
    levels : tuple of str
        Of a category: the level of code 1, 2, ...
    note : str
        What its owner should know about how it was read.
    """

    kind: Kind
    cells: FloatArray
    levels: tuple[str, ...] = ()
    note: str = ""


_OR_SETTINGS = (
    ", set categorical = [{0}] in the study file if they are names of categories, or "
    "leave the column out with ignore = [{0}]"
)


def read_numbers(file: str, name: str, column: Any, csv: CsvForm) -> FloatArray:
    """Return an Arrow column that must be of numbers, such as weights.

    Raises
    ------
    TableError
    """
    columns = Columns(csv=csv)
    own = read_column(file, name, column, columns)
    if own.kind == "date":
        raise _refusal(file, name, int(np.sum(~np.isnan(own.cells))), columns)
    return own.cells


def read_column(file: str, name: str, column: Any, columns: Columns) -> Column:
    """Return an Arrow column as floats.

    Parameters
    ----------
    file : str
        For messages.
    columns : Columns
        If text is a category there, the study has settings that may help.

    Raises
    ------
    TableError
        If its cells are neither numbers nor anything that becomes numbers.
    """
    found = _read(file, name, column, columns)
    if name in columns.categorical or not np.isnan(found.cells).all():
        return found
    # The type of a column without values says nothing: others may have another kind.
    return Column("blank", found.cells, note=found.note)


def _read(file: str, name: str, column: Any, columns: Columns) -> Column:
    """Return an Arrow column as floats, of the kind that its type implies."""
    column = column.combine_chunks()
    is_dictionary = pa.types.is_dictionary(column.type)
    if is_dictionary:
        column = column.dictionary_decode()
    is_category = is_dictionary and columns.text_is_category and _has_levels(column)
    if is_category or name in columns.categorical:
        return _category(file, name, column)
    kind = column.type
    if pa.types.is_null(kind):
        return Column("blank", np.full(len(column), math.nan))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Column("date", _days(file, name, column, columns.date_origin))
    if is_text(kind):
        return _text(file, name, column, columns)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.string())  # casts to floats directly are not exact
    # Long whole numbers are rounded to floats, as a CSV file's numbers are.
    is_rounded = pa.types.is_integer(kind)
    try:
        cells = _filled(column.cast(pa.float64(), safe=not is_rounded))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        n_cells = len(column) - column.null_count
        raise _refusal(file, name, n_cells, columns) from None
    is_boolean = pa.types.is_boolean(kind)
    return Column("boolean", cells) if is_boolean else _number(file, name, cells)


def _number(file: str, name: str, cells: FloatArray, note: str = "") -> Column:
    """Return numbers; say so if some seem to mean missing values."""
    notes = (note, missing_note(file, name, cells))
    return Column("number", cells, note=" ".join(filter(None, notes)))


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is one of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _has_levels(column: Any) -> bool:
    """Return whether cells are anything but yes and no."""
    if not is_text(column.type):
        return True
    return not is_yes_or_no(words_of(column.unique().to_pylist()) - BLANK_WORDS)


def level_text(value: object) -> str:
    """Return the name of a level; "" means a blank cell.

    Text is treated like IDs: "007" and "7" differ. But 7, 7.0 and "7.0" are all "7",
    and a date is the same with or without midnight.
    """
    if isinstance(value, int | float):
        return label_text(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time.min:
        value = value.date()
    text = "" if value is None else normalised(value)
    # pandas writes whole numbers this way if some cells of the column are blank.
    return text.removesuffix(".0") if _WHOLE.fullmatch(text) else text


def _text(file: str, name: str, column: Any, columns: Columns) -> Column:
    """Return text as numbers or as yes and no where possible, else as a category.

    A column with some numbers is probably one of numbers with mistakes, and numbers
    with leading zeros are probably codes.
    """
    texts: list[str | None] = column.to_pylist()
    numbers = [number_of(cell, columns.csv.decimal) for cell in texts]
    others = Counter(
        text for text, number in zip(texts, numbers, strict=True) if number is None
    )
    has_numbers = any(n is not None and not math.isnan(n) for n in numbers)
    words = words_of(others) - BLANK_WORDS
    stated = Counter({text: n for text, n in others.items() if not is_blank(text)})
    if not words:
        check_no_codes(file, name, texts, columns.text_is_category)
        kind: Kind = "number" if has_numbers else "blank"
        return _with_blanks(file, name, kind, numbers, others)
    if not has_numbers and is_yes_or_no(words):
        booleans = [boolean_of(cell) for cell in texts]
        return _with_blanks(file, name, "boolean", booleans, others)
    decimal, has_settings = columns.csv.decimal or ".", columns.text_is_category
    is_feature = has_settings or columns.features is not None
    if is_feature and not has_numbers:
        if (days := _iso_days(file, name, column, columns)) is not None:
            return Column("date", days)
        check_no_dates(file, name, texts, has_settings)
    if has_settings and not has_numbers:
        check_no_numbers(file, name, stated, decimal, has_settings)
        return _category(file, name, column)
    check_no_numbers(file, name, stated, decimal, has_settings)
    if is_feature and not has_settings and not has_numbers:
        cells = counted(stated.total(), "cell that is", "cells that are")
        raise TableError(
            f"column {name!r} of {file} has {cells} neither a number nor a word for "
            "yes or no, such as ja and nein; write them as in the tables of the study"
        )
    raise _refusal(file, name, stated.total(), columns)


def _iso_days(file: str, name: str, column: Any, columns: Columns) -> FloatArray | None:
    """Return text that is all dates such as 2024-12-31 as days, else None.

    A CSV file's dates are found when it is read, those in a Parquet file's text here.
    """
    blank = pc.equal(pc.utf8_trim_whitespace(column), "")
    stated = pc.if_else(blank, pa.scalar(None, column.type), column)
    try:
        times = clock_times(stated, pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    return _days(file, name, times, columns.date_origin)


def _with_blanks(
    file: str,
    name: str,
    kind: Kind,
    numbers: Sequence[float | None],
    others: Mapping[str | None, int],
) -> Column:
    """Return cells with texts for "blank" made missing; add a note if there are any."""
    blank = sorted(text for text in others if text and is_blank(text))
    values = np.array([math.nan if own is None else own for own in numbers])
    n_blank = sum(others[text] for text in blank)
    note = (
        f"{counted(n_blank, 'cell')} of column {name!r} of {file} taken as blank: "
        f"{listed(blank)}."
    )
    cells, note = values.astype(np.float64), note if blank else ""
    if kind == "number":
        return _number(file, name, cells, note)
    return Column(kind, cells, note=note)


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
    n_long = sum(len(text) > LONGEST_NAME for text in levels)
    if len(levels) > MOST_LEVELS:
        what = f"{len(levels):,} different texts, more than a category may have"
        raise _no_category(file, name, f"{what} ({MOST_LEVELS:,})")
    if n_long:
        what = counted(n_long, "text that is", "texts that are")
        raise _no_category(
            file, name, f"{what} longer than a level's name may be ({LONGEST_NAME:,})"
        )
    codes = {text: code for code, text in enumerate(levels, start=1)}
    # The last one is for cells without a value, whose index is null.
    of_value = np.array([codes.get(text, math.nan) for text in (*texts, "")])
    indices = found.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    cells = of_value[indices.astype(np.int64)]
    words = sorted(NULL_TEXTS.intersection(levels))
    n_words = int(np.isin(cells, [codes[word] for word in words]).sum())
    note = (
        f"{counted(n_words, 'cell')} of column {name!r} of {file} taken as a level: "
        f"{listed(words)}; make such cells blank if they mean missing values."
    )
    return Column("category", cells, levels, note if words else "")


def _no_category(file: str, name: str, found: str) -> TableError:
    quoted = json.dumps(name, ensure_ascii=False)
    return TableError(
        f"column {name!r} of {file} has {found}; give it fewer and shorter ones",
        f", or leave it out with ignore = [{quoted}]",
    )


def clock_times(column: Any, kind: Any) -> Any:
    """Return text as times, as written before zones.

    Raises
    ------
    pyarrow.ArrowInvalid
        If a cell is neither a date nor a time.
    """
    return pc.replace_substring_regex(column, _ZONE, r"\1").cast(kind)


def _days(file: str, name: str, column: Any, origin: datetime.date) -> FloatArray:
    """Return dates and times as days, as clocks show them in the column's zone.

    So a day begins at midnight there, as in others' tables whose dates have no zone.
    """
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        try:
            column = pc.local_timestamp(column)
        except pa.ArrowInvalid:
            raise TableError(
                f"column {name!r} of {file} has times in the zone {column.type.tz!r}, "
                "which is unknown here; save them without a zone"
            ) from None
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


def _refusal(file: str, name: str, n_cells: int, columns: Columns) -> TableError:
    remedy = _OR_SETTINGS if columns.text_is_category else ""
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
        notes=tuple(own.note for own in columns if own.note),
    )

"""The columns that CSV and Parquet files contain, by name, before they are checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from hyfdca.data.csv_form import (
    CsvForm,
    DelimiterError,
    find_form,
    form_note,
    form_words,
)
from hyfdca.data.kinds import clock_times, is_text
from hyfdca.data.tables import Columns, TableError, normalised
from hyfdca.data.words import LEADING_ZERO
from hyfdca.errors import counted

_COMMA = r"^(\s*[+-]?[0-9]+),([0-9]+(?:[eE][+-]?[0-9]+)?\s*)$"  # a decimal one
_THOUSANDS = r"^(\s*[+-]?[1-9][0-9]{0,2})\.([0-9]{3}(?:[.,][0-9]+)*\s*)$"
# Names that pandas gives to an index without one
PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")


@dataclass(frozen=True)
class NamedColumns:
    """What a file with named columns contains.

    Parameters
    ----------
    content : pyarrow.Table
    index : set of str
        Columns in which pandas wrote its index, if the index has no name.
    notes : tuple of str
        How the file was read, where that was detected.
    csv : CsvForm
        How the file is written, if it is a CSV file.
    """

    content: Any
    index: set[str]
    notes: tuple[str, ...] = ()
    csv: CsvForm = field(default_factory=CsvForm)


def open_csv(path: Path, columns: Columns) -> NamedColumns:
    """Return the columns of a CSV file, its ID and label as text."""
    try:
        return _parsed_csv(path, columns)
    except DelimiterError as error:
        raise TableError(
            f"the first line of {path.name} names the delimiter {str(error)!r}, which "
            "is not a printable ASCII character or a tab; save it with another"
        ) from None
    except UnicodeError:
        raise TableError(
            f"{path.name} is not in the encoding {columns.csv.encoding}; save it so",
            ', or set encoding in the study file to that of the file, such as "utf-8" '
            'or "cp1252", or leave the key out to have it found by looking',
            "encoding",
        ) from None


def _parsed_csv(path: Path, columns: Columns) -> NamedColumns:
    form = find_form(path, columns.csv)
    reading = pa.csv.ReadOptions(encoding=form.encoding, skip_rows=form.n_skipped)
    parsing = pa.csv.ParseOptions(delimiter=form.delimiter)
    try:
        # Read the names first: an ID read as a number would lose leading zeros.
        first = pa.csv.open_csv(path, reading, parsing)
        names = first.schema.names
        as_text = {columns.id, columns.label, *columns.categorical}
        texts = [n for n in names if normalised(n) in as_text]
        options = (reading, parsing)
        table = pa.csv.read_csv(path, *options, _converting(texts, form))
        codes, zoned = _codes(path, table, *options), _zoned(table)
        if codes or zoned:
            found = _converting([*texts, *codes, *zoned], form)
            table = _without_zones(pa.csv.read_csv(path, *options, found), zoned)
        is_filled = _has_cells(table)  # words such as NA fill no row
        table = _with_words(path, table, columns, *options)
        if form.decimal == ",":
            table = _with_points(table, columns.label)
    except (pa.ArrowInvalid, pa.ArrowKeyError):  # its message would quote the row
        raise TableError(
            f"{path.name} is not a CSV table with {form_words(form)}"
            f"{_uneven_row(path, reading, parsing)}; save it with one line of column "
            "names and one cell per column in every row",
            ', or set delimiter (one character), decimal ("." or ",") or encoding '
            '(such as "utf-8") in the study file',
            "delimiter",
        ) from None
    found = form_note(form, columns.csv)
    notes = [f"The file {path.name} is read {found}."] if found else []
    table, left_out = _without_empty(table, is_filled)
    if left_out:
        notes.append(f"Of {path.name}, {left_out} without any cell are left out.")
    return NamedColumns(table, _csv_index(names), tuple(notes), form)


def _uneven_row(path: Path, reading: Any, parsing: Any) -> str:
    """Return which row has too few or too many cells, in words; "" if none has."""
    found: list[Any] = []

    def note(row: Any) -> str:
        found.append(row)
        return "skip"

    in_order = pa.csv.ReadOptions(
        encoding=reading.encoding, skip_rows=reading.skip_rows, use_threads=False
    )
    noting = pa.csv.ParseOptions(delimiter=parsing.delimiter, invalid_row_handler=note)
    with suppress(pa.ArrowInvalid, pa.ArrowKeyError):  # as before
        pa.csv.read_csv(path, in_order, noting)
    if not found:
        return ""
    n_cells = counted(found[0].actual_columns, "cell")
    return (
        f": row {found[0].number}, where the line of names is row 1, has {n_cells} "
        f"instead of {found[0].expected_columns}"
    )


def _converting(texts: Sequence[str], form: CsvForm) -> Any:
    """Return how cells are converted, those of some columns to text."""
    return pa.csv.ConvertOptions(
        column_types=dict.fromkeys(texts, pa.string()),
        strings_can_be_null=True,
        decimal_point=form.decimal,
    )


def _with_words(
    path: Path, table: Any, columns: Columns, reading: Any, parsing: Any
) -> Any:
    """Return a table whose text has words such as NA too, which may be levels.

    Readers of CSV take them as blank cells. They are read again as text.
    """
    found = [
        name
        for name in _once(table)
        if is_text(table[name].type) and table[name].null_count
        # Nobody means them as an ID or a label.
        if normalised(name) not in (columns.id, columns.label)
    ]
    if not found:
        return table
    as_text = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(found, pa.string()),
        include_columns=found,
        null_values=[""],
        strings_can_be_null=True,
    )
    again = pa.csv.read_csv(path, reading, parsing, as_text)
    for name in found:
        place = table.column_names.index(name)
        table = table.set_column(place, name, again[name])
    return table


def _once(table: Any) -> list[str]:
    """Return names of columns; those that occur twice are refused later."""
    names = Counter(table.column_names)
    return [name for name, count in names.items() if count == 1]


def _codes(path: Path, table: Any, reading: Any, parsing: Any) -> list[str]:
    """Return columns that were read as numbers, though some have leading zeros.

    They are read again as text, which keeps the zeros.
    """
    rest = [name for name in _once(table) if _has_whole_numbers(table[name])]
    found: list[str] = []
    if not rest:
        return found
    as_text = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(rest, pa.string()), include_columns=rest
    )
    with pa.csv.open_csv(path, reading, parsing, as_text) as batches:
        for batch in batches:
            found += [n for n in rest if n not in found and _has_code(batch[n])]
    return found


def _has_whole_numbers(column: Any) -> bool:
    """Return whether some numbers have no fraction, like those with leading zeros."""
    if not pa.types.is_floating(column.type):
        return bool(pa.types.is_integer(column.type))
    is_whole = pc.equal(column, pc.floor(column))
    return bool(pc.any(is_whole).as_py())


def _has_code(column: Any) -> bool:
    """Return whether a cell has a leading zero."""
    # Two quick checks spare most columns the slow one.
    some = column.filter(pc.greater(pc.binary_length(column), 1))
    some = some.filter(pc.match_substring(some, "0"))
    return bool(pc.any(pc.match_substring_regex(some, f"^{LEADING_ZERO}$")).as_py())


def _zoned(table: Any) -> dict[str, Any]:
    """Return columns of times with a zone, which Arrow reads as UTC, and their types.

    The types are without the zone.
    """
    return {
        field_.name: pa.timestamp(field_.type.unit)
        for field_ in table.schema
        if pa.types.is_timestamp(field_.type) and field_.type.tz is not None
    }


def _without_zones(table: Any, zoned: Mapping[str, Any]) -> Any:
    """Return a table with columns of text as times, as written before zones."""
    for place, name in enumerate(table.column_names):
        if kind := zoned.get(name):
            table = table.set_column(place, name, clock_times(table[place], kind))
    return table


def _without_empty(table: Any, is_filled: Any) -> tuple[Any, str]:
    """Leave out what spreadsheets append: columns without a name, empty rows.

    Also returns how many were left out, in words.

    Parameters
    ----------
    is_filled : pyarrow array or None
        Which rows have any cell; None if all have.
    """
    named = [
        place
        for place, name in enumerate(table.column_names)
        if name.strip() or table[place].null_count < len(table)
    ]
    n_columns = table.num_columns - len(named)
    if n_columns:
        table = table.select(named)
    n_rows = 0
    if is_filled is not None:
        n_rows = len(table) - (pc.sum(is_filled).as_py() or 0)
        table = table.filter(is_filled)
    counts = ((n_columns, "column"), (n_rows, "row"))
    return table, " and ".join(counted(n, what) for n, what in counts if n)


def _has_cells(table: Any) -> Any:
    """Return which rows have any cell; None if all have."""
    is_filled = None
    for column in table.columns:
        own = pc.is_valid(column)
        is_filled = own if is_filled is None else pc.or_(is_filled, own)
        if pc.all(is_filled).as_py() is not False:
            return None
    return is_filled


def _with_points(table: Any, label: str | None) -> Any:
    """Return a table whose label, which is read as text, has decimal points."""
    for place, name in enumerate(table.column_names):
        if normalised(name) == label:
            # A point separates thousands here: such a label must not pass as a number.
            column = pc.replace_substring_regex(table[place], _THOUSANDS, r"\1'\2")
            column = pc.replace_substring_regex(column, _COMMA, r"\1.\2")
            table = table.set_column(place, name, column)
    return table


def open_parquet(path: Path, _: Columns) -> NamedColumns:
    """Return the columns of a Parquet file."""
    try:
        table = pa.parquet.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError):
        raise TableError(
            f"{path.name} is not a Parquet file, or is damaged; save it again"
        ) from None
    for place, field_ in enumerate(table.schema):
        if pa.types.is_string_view(field_.type):  # which few functions support
            text = table[place].cast(pa.large_string())
            table = table.set_column(place, field_.name, text)
    return NamedColumns(table, _parquet_index(table.schema))


def _csv_index(names: Sequence[str]) -> set[str]:
    """Return the column in which pandas wrote row numbers, if there is one."""
    return {name for name in names[:1] if PANDAS_INDEX.fullmatch(normalised(name))}


def _parquet_index(schema: Any) -> set[str]:
    """Return the columns in which pandas wrote an index without a name.

    An index with a name is a column like any other, and often has the IDs.
    """
    return {name for name in schema.names if name and PANDAS_INDEX.fullmatch(name)}

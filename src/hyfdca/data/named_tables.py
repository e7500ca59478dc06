"""Tables made of named columns: those of CSV and Parquet files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyfdca.arrays import BoolArray
from hyfdca.data.held_out import held_out_column
from hyfdca.data.kinds import read_column, read_numbers, table_of_columns
from hyfdca.data.named_columns import (
    PANDAS_INDEX,
    NamedColumns,
    open_csv,
    open_parquet,
)
from hyfdca.data.tables import (
    Columns,
    Table,
    TableError,
    bare_name,
    check_columns,
    first_twins,
    id_text,
    normalised,
    parsed_number,
)
from hyfdca.data.words import stated_label
from hyfdca.errors import counted


def read_csv(path: Path, columns: Columns) -> Table:
    """Return the table of a CSV file."""
    return _from_arrow(path, open_csv(path, columns), columns)


def read_parquet(path: Path, columns: Columns) -> Table:
    """Return the table of a Parquet file."""
    return _from_arrow(path, open_parquet(path, columns), columns)


def without_index(path: Path, named: NamedColumns, columns: Columns) -> NamedColumns:
    """Leave out columns that pandas wrote, unless the study names them."""
    wanted = {*columns.with_roles, *(columns.features or ())}
    written = [
        name
        for name in named.content.column_names
        if name in named.index and normalised(name) not in wanted
    ]
    if not written:
        return named
    shown = ", ".join(map(repr, written))
    note = f"Column {shown} of {path.name} is left out: pandas wrote its index there."
    content = named.content.drop_columns(written)
    return replace(named, content=content, notes=(*named.notes, note))


def _or_add_names(repeated: Sequence[str]) -> str:
    """Return further advice if what is repeated looks like cells, not like names."""
    is_cell = any(not name or parsed_number(name) is not None for name in repeated)
    return ", or add a line of column names if the file has none" * is_cell


def columns_by_name(path: Path, content: Any) -> dict[str, Any]:
    """Return the columns of a table by their normalised names.

    Raises
    ------
    TableError
        If a name occurs twice.
    """
    names = [normalised(name) for name in content.column_names]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(
            f"{path.name} has {counted(len(repeated), 'column name')} more than once, "
            f"such as {repeated[0]!r}; rename them{_or_add_names(repeated)}"
        )
    return dict(zip(names, content.columns, strict=True))


def _from_arrow(path: Path, named: NamedColumns, columns: Columns) -> Table:
    """Return a table of named columns."""
    _check_ignored(path, named, columns)
    kept = without_index(path, named, columns)
    by_name = columns_by_name(path, kept.content)
    names = list(by_name)
    if columns.id is None:
        raise TableError(
            f"the study names no id_column for {path.name}; set it to the column with "
            "the IDs of rows"
        )
    label = columns.label if columns.has_label else None
    if not columns.label_needed and label not in by_name:
        label = None
    elif columns.has_label and label is None:
        raise TableError(
            f"the study names no label_column for {path.name}; set it, or write label "
            "= false below the organisation's name if it has no labels"
        )
    features, beside = columns.chosen(names), columns.beside_labels(by_name)
    needed = [n for n in (label, *beside, columns.holdout) if n is not None]
    check_columns(path.name, [columns.id, *needed, *features], names)
    _check_names(path, features)
    _check_spelling(path, columns, names)
    file, found = path.name, replace(columns, csv=named.csv)
    read = [read_column(file, name, by_name[name], found) for name in features]
    weights, offsets = (
        None if name is None else read_numbers(file, name, by_name[name], named.csv)
        for name in beside
    )
    ids = tuple(map(id_text, _texts(path, columns.id, by_name[columns.id])))
    table = table_of_columns(ids, features, read)
    return replace(
        table,
        labels=tuple(map(stated_label, _texts(path, label, by_name[label])))
        if label
        else None,
        notes=(*kept.notes, *_misspelt(path, columns, names), *table.notes),
        weights=weights,
        offsets=offsets,
        held_out=_held_out(path, found, by_name),
    )


def _held_out(
    path: Path, columns: Columns, by_name: Mapping[str, Any]
) -> BoolArray | None:
    """Return which rows a column sets aside."""
    name = columns.holdout
    if name is None:
        return None
    numbers = read_numbers(path.name, name, by_name[name], columns.csv)
    return held_out_column(path.name, name, numbers)


def _check_ignored(path: Path, named: NamedColumns, columns: Columns) -> None:
    """Refuse columns to ignore that do not exist.

    A column in which pandas wrote its index may be called by any of pandas' names.
    """
    names = [normalised(name) for name in named.content.column_names]
    wanted = [
        name
        for name in columns.ignored
        # A column without a name may have been left out for having no cells.
        if name and not (named.index and PANDAS_INDEX.fullmatch(name))
    ]
    check_columns(path.name, wanted, names, "ignore")


def _misspelt(path: Path, columns: Columns, names: Sequence[str]) -> list[str]:
    """Return notes on features that the study may mean to leave out of all tables.

    Tables need not have the columns that ``ignore`` in [study] names, so a mistake in
    a name is no error there.
    """
    bare = {bare_name(name): name for name in columns.chosen(names)}
    found = []
    for name in columns.ignored_if_present:
        close = get_close_matches(bare_name(name), bare, n=1, cutoff=0.8)
        if close and name not in names:
            found.append(
                f"The column {bare[close[0]]!r} of {path.name} is a feature; ignore in "
                f"[study] names {name!r}."
            )
    return found


def _check_names(path: Path, features: Sequence[str]) -> None:
    """Refuse features without a name, and names that are almost the same."""
    if "" in features:
        raise TableError(
            f"a column of {path.name} has no name; give it one, or leave it out with "
            'ignore = [""]'
        )
    if twins := first_twins(features):
        first, second = twins
        raise TableError(
            f"columns {first!r} and {second!r} of {path.name} differ only in capitals "
            "or blanks; rename one of them, or leave one out with ignore = "
            f"[{json.dumps(second, ensure_ascii=False)}]"
        )


def _check_spelling(path: Path, columns: Columns, names: Sequence[str]) -> None:
    """Refuse another spelling of a feature that would be left out without a word."""
    wanted = () if columns.features_needed else columns.features or ()
    lacking = {bare_name(name): name for name in set(wanted) - set(names)}
    for name in names:
        feature = lacking.get(bare_name(name))
        if feature is not None and name not in columns.left_out:
            raise TableError(
                f"{path.name} has a column {name!r}, but the model's is {feature!r}; "
                "rename it so, or otherwise if it is another"
            )


def _texts(path: Path, name: str, column: Any) -> list[object]:
    """Return the cells of a column of IDs or labels; bytes become text."""
    kind = column.type
    try:
        if pa.types.is_nested(kind):
            raise pa.ArrowInvalid
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            column = column.cast(pa.string())
    except pa.ArrowInvalid:
        raise TableError(
            f"column {name!r} of {path.name} is of the type {kind}, which is neither "
            "text nor numbers; save it as text"
        ) from None
    values: list[object] = column.to_pylist()
    return values

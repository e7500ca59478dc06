"""A look at a table before the meaning of its columns is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyfdca.data.csv_form import CsvForm
from hyfdca.data.kinds import Column, is_text, read_column
from hyfdca.data.missing_codes import missing_note
from hyfdca.data.named_tables import columns_by_name, without_index
from hyfdca.data.readers import has_named_columns, open_columns, read_table
from hyfdca.data.tables import (
    Columns,
    Kind,
    Table,
    TableError,
    bare_name,
    id_text,
)
from hyfdca.data.words import is_blank, is_numeric, n_codes, number_of, stated_label

_FEW_LEVELS = 20  # a text column with more that differs in most rows is not a category


@dataclass(frozen=True)
class Glance:
    """A table at a glance.

    Parameters
    ----------
    columns : dict of str to pyarrow.ChunkedArray
        Without those in which pandas wrote its index; empty if columns have no names.
    numbered : Table or None
        The table itself, if its columns have no names.
    notes : tuple of str
        What was detected in the file.
    csv : CsvForm
        How it is written, if it is a CSV file.
    """

    path: Path
    columns: dict[str, Any] = field(repr=False)
    numbered: Table | None = None
    notes: tuple[str, ...] = ()
    csv: CsvForm = field(default_factory=CsvForm)
    _read: dict[str, list[object]] = field(default_factory=dict, repr=False)
    _parsed: dict[str, Column] = field(default_factory=dict, repr=False)
    _codes: dict[str, int] = field(default_factory=dict, repr=False)

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        if self.numbered is not None:
            return len(self.numbered.ids)
        return max((len(column) for column in self.columns.values()), default=0)

    @property
    def is_sparse(self) -> bool:
        """Whether zeros are not stored."""
        return self.numbered is not None and not self.numbered.is_dense

    @cached_property
    def has_ids(self) -> bool:
        """Whether a table without named columns has IDs."""
        return not _is_refused(self.path, Columns(has_label=False, rows_by_order=False))

    @cached_property
    def id_candidates(self) -> tuple[str, ...]:
        """Columns of texts or whole numbers that differ in every row."""
        return tuple(
            name
            for name, column in self.columns.items()
            if name and _is_discrete(column.type) and self._is_unique(column)
        )

    def n_blank_and_repeated(self, name: str) -> tuple[int, int]:
        """Return how many rows of a column are blank, and how many repeat a value."""
        column = self.columns[name]
        if not _is_discrete(column.type):
            return 0, 0
        n_known = len(column) - column.null_count
        return column.null_count, n_known - int(pc.count_distinct(column).as_py())

    def ids(self, name: str | None) -> frozenset[str]:
        """Return the IDs of the rows, given the column that has them."""
        if self.numbered is not None:
            return frozenset(self.numbered.ids)
        return frozenset(map(id_text, self._texts(name)))

    def labelled_ids(self, name: str | None, label: str | None) -> frozenset[str]:
        """Return the IDs of rows with a label, given the columns that have both."""
        if not self.has_label(label):
            return frozenset()
        if self.numbered is not None:
            return self.ids(None)
        each = zip(self._texts(name), self._texts(label), strict=True)
        return frozenset(id_text(own) for own, value in each if stated_label(value))

    def label_values(self, name: str | None) -> frozenset[str]:
        """Return all labels, given the column that has them."""
        if self.numbered is not None:
            return frozenset(self.numbered.labels or ())
        return frozenset(map(self._label_text, self._texts(name))) - {""}

    def _label_text(self, value: object) -> str:
        """Return a label as text; numbers are the same with a comma or a point."""
        if isinstance(value, str) and self.csv.decimal == ",":
            number = number_of(value, ",")
            return stated_label(value if number is None else number)
        return stated_label(value)

    def has_label(self, name: str | None) -> bool:
        """Return whether the table has labels in that column."""
        if self.numbered is not None:
            return self.numbered.labels is not None
        return name in self.columns

    def features(self, left_out: Iterable[str | None]) -> list[str]:
        """Return all columns but some."""
        if self.numbered is not None:
            return list(self.numbered.features)
        return [name for name in self.columns if name not in set(left_out)]

    def n_blank(self, features: Iterable[str]) -> int:
        """Return how many cells of these columns are blank."""
        if self.numbered is not None:
            return self.numbered.n_missing
        readable = (name for name in features if not self.mistake(name))
        return sum(int(np.isnan(self._read_column(n).cells).sum()) for n in readable)

    def objection(self, name: str, id_column: str | None) -> str:
        """Return why a column is not a feature; "" if it may be one."""
        column = self.columns[name]
        if not name:
            return "it has no name"
        if self.is_row_number(name):
            return "it numbers the rows"
        if twin := self._twin(name):
            return f"it differs from {twin!r} only in capitals or blanks"
        if is_text(column.type):
            return self._objection_to_text(name)
        # Readers decide what else may be a feature.
        alone = Columns(
            id=id_column, features=(name,), has_label=False, text_is_category=True
        )
        if not _is_number(column.type) and _is_refused(self.path, alone):
            return "its cells are neither numbers, nor dates, nor names of categories"
        return ""

    def _objection_to_text(self, name: str) -> str:
        column = self.columns[name]
        if not _differs_in_most_rows(column):
            return ""
        if self.n_codes(name):
            return "it has leading zeros and differs in most rows, as codes of rows do"
        is_remark = not _is_mostly_numeric(column)
        return "it is text that differs in most rows" if is_remark else ""

    def mistake(self, name: str) -> str:
        """Return why a column that may be a feature cannot be read; "" if it can."""
        try:
            self.kind_of(name)
        except TableError as error:
            return str(error)
        return ""

    def kind_of(self, name: str) -> Kind:
        """Return the kind of a column that may be a feature.

        Raises
        ------
        TableError
            If it cannot be read.
        """
        if self.numbered is not None:
            return "number"
        return self._read_column(name).kind

    def _read_column(self, name: str) -> Column:
        if name not in self._parsed:
            codes = (name,) if self.n_codes(name) else ()
            as_study = Columns(text_is_category=True, csv=self.csv, categorical=codes)
            column = self.columns[name]
            self._parsed[name] = read_column(self.path.name, name, column, as_study)
        return self._parsed[name]

    def n_codes(self, name: str) -> int:
        """Return how many cells have leading zeros, if all are numbers or blank."""
        if self.numbered is not None or not is_text(self.columns[name].type):
            return 0
        if name not in self._codes:
            texts = self.columns[name].to_pylist()
            is_code = all(number_of(t) is not None or is_blank(t) for t in texts)
            self._codes[name] = n_codes(texts) if is_code else 0
        return self._codes[name]

    def missing_note(self, name: str) -> str:
        """Return which numbers of a readable column seem to mean missing values."""
        own = self._read_column(name)
        is_number = own.kind == "number"
        return missing_note(self.path.name, name, own.cells) if is_number else ""

    def is_stored_as_numbers(self, name: str) -> bool:
        """Return whether the file, unlike one of text, cannot have leading zeros."""
        is_text_file = self.csv != CsvForm()
        return not is_text_file and _is_number(self.columns[name].type)

    def blank_ids(self, name: str, id_column: str | None) -> frozenset[str]:
        """Return the IDs of the rows in which a readable column is blank."""
        if self.numbered is not None:
            return frozenset()
        is_blank = np.isnan(self._read_column(name).cells)
        return frozenset(map(id_text, compress(self._texts(id_column), is_blank)))

    def _twin(self, name: str) -> str | None:
        """Return an earlier column with almost the same name."""
        before = takewhile(lambda other: other != name, self.columns)
        alike = (other for other in before if bare_name(other) == bare_name(name))
        return next(alike, None)

    def is_row_number(self, name: str) -> bool:
        """Return whether a column counts the rows, from 0 or 1."""
        column = self.columns[name]
        if not pa.types.is_integer(column.type) or column.null_count or not len(column):
            return False
        values = column.to_numpy()
        is_steady = bool(np.all(np.diff(values) == 1))
        return is_steady and int(values[0]) in (0, 1)

    def _is_unique(self, column: Any) -> bool:
        is_complete = column.null_count == 0 and len(column) > 0
        return is_complete and pc.count_distinct(column).as_py() == len(column)

    def _texts(self, name: str | None) -> list[object]:
        """Return a column as it is in the file: numbers in a CSV keep their zeros."""
        name = str(name)
        if name not in self._read:
            content = open_columns(self.path, Columns(id=name)).content
            self._read[name] = columns_by_name(self.path, content)[name].to_pylist()
        return self._read[name]


def glance_at(path: Path) -> Glance:
    """Look at a table.

    Raises
    ------
    TableError
        If it cannot be read.
    """
    if not has_named_columns(path):
        return Glance(path, {}, _numbered(path))
    named = without_index(path, open_columns(path, Columns()), Columns())
    columns = columns_by_name(path, named.content)
    return Glance(path, columns, notes=named.notes, csv=named.csv)


def _numbered(path: Path) -> Table:
    try:
        return read_table(path, Columns(rows_by_order=True))
    except TableError:  # it may have no labels
        return read_table(path, Columns(has_label=False, rows_by_order=True))


def _is_refused(path: Path, columns: Columns) -> bool:
    try:
        read_table(path, columns)
    except TableError:
        return True
    return False


def _differs_in_most_rows(column: Any) -> bool:
    n_different = pc.count_distinct(column).as_py()
    return bool(n_different > max(_FEW_LEVELS, len(column) / 2))


def _is_mostly_numeric(column: Any) -> bool:
    """Return whether most cells are, or were meant as, numbers or dates."""
    cells = [cell for cell in column.drop_null().to_pylist() if not is_blank(cell)]
    return 2 * sum(map(is_numeric, cells)) >= len(cells) > 0


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_discrete(kind: Any) -> bool:
    is_code = pa.types.is_integer(kind) or pa.types.is_binary(kind)
    is_whole = pa.types.is_decimal(kind) and kind.scale == 0
    return is_text(kind) or bool(is_code or is_whole)

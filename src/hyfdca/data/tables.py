"""One organisation's table, and how IDs, names and labels are compared."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Literal, get_args

import msgspec
import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.data.csv_form import CsvForm

Kind = Literal["number", "boolean", "date", "category", "blank"]  # of a column
KINDS: tuple[Kind, ...] = get_args(Kind)
DATE_ORIGIN = datetime.date(2000, 1, 1)
LONGEST_NAME = 1000  # characters of the name of a feature, a class or a level
LARGEST_CELL = 1e100  # squares of larger numbers soon overflow

_MOST_LISTED = 10
_WHOLE = re.compile(r"([+-]?\d{1,4000})(?:\.0*)?")  # Python reads no more digits
_BRACKETS = re.compile(r"\[[^\]]*\]|\([^)]*\)")


class TableError(ValueError):
    """A table that cannot be used; the message is one plain sentence.

    Parameters
    ----------
    plain : str
        What is wrong, and what to do about the file.
    in_study : str, optional
        What else to do in a study file, to follow it; predictions have none to change.
    key : str, optional
        The key of the study file that this is about.
    """

    def __init__(self, plain: str, in_study: str = "", key: str = "") -> None:
        self.plain, self.key = plain, key
        super().__init__(plain + in_study)


class MissingColumnsError(TableError):
    """A table that lacks columns; the caller may add their purpose.

    Parameters
    ----------
    key : str, optional
        The key of the study file that names the columns, if it should be mentioned.
    """

    def __init__(
        self,
        file: str,
        missing: Sequence[str],
        known: Sequence[str] = (),
        key: str = "",
    ) -> None:
        self.columns = tuple(missing)
        named_by = f", which {key} names" if key else ""
        self.what = f"{file} has no column {listed(missing)}{named_by}"
        self.hint = _header_hint(missing, known)
        found = f"{self.what}{self.hint}; correct the names in the"
        super().__init__(f"{found} study file or in the table", key=key)
        self.plain = f"{found} table"


@dataclass(frozen=True)
class Columns:
    """The role of each column of a table.

    Parameters
    ----------
    id : str or None
        Required for tables with named columns; others have ``ids`` or row numbers.
    label : str or None
        Never a feature, even if ``has_label`` is false and it is not read.
    features : tuple of str or None
        None means all other columns.
    features_needed : bool
        If false, features that the table lacks are left out, as are columns to ignore.
    label_needed : bool
        If false, a table or a row may lack a label; "" means no label.
    absent_are_zero : bool
        If true, features beyond the last of a LIBSVM file are zero, as in its lines.
        Otherwise they are missing columns, which reveals mistakes in names.
    rows_by_order : bool
        Whether rows of a table without IDs may be numbered instead, from 0.
    ignored : tuple of str
        Columns that are left out; a table that lacks one is refused, since the name
        may be a mistake and the column meant a feature.
    ignored_if_present : tuple of str
        Columns that are left out; a table need not have them.
    csv : CsvForm
        How a CSV file is written.
    weight, offset : str or None
        Read with the labels, never features.
    holdout : str or None
        The column of 0 and 1 that says which rows are set aside; never a feature.
    categorical : tuple of str
        Columns that are categories whatever their cells are; a table need not have
        them.
    text_is_category : bool
        Whether columns of text are categories too; otherwise they are refused.
    date_origin : date
        Dates become days since it.
    """

    id: str | None = None
    label: str | None = None
    features: tuple[str, ...] | None = None
    has_label: bool = True
    features_needed: bool = True
    label_needed: bool = True
    absent_are_zero: bool = False
    rows_by_order: bool = True
    ignored: tuple[str, ...] = ()
    ignored_if_present: tuple[str, ...] = ()
    csv: CsvForm = field(default_factory=CsvForm)
    weight: str | None = None
    offset: str | None = None
    holdout: str | None = None
    categorical: tuple[str, ...] = ()
    text_is_category: bool = False
    date_origin: datetime.date = DATE_ORIGIN

    @property
    def with_roles(self) -> set[str | None]:
        """Columns that are not features."""
        return {self.id, self.label, self.weight, self.offset, self.holdout}

    @cached_property
    def left_out(self) -> set[str | None]:
        """Columns that are no features, unless ``features`` names them."""
        return {*self.with_roles, *self.ignored, *self.ignored_if_present}

    def beside_labels(self, names: Container[str]) -> tuple[str | None, str | None]:
        """Return the columns of weights and offsets to read of such a table.

        Where labels are optional, so are these.
        """
        if not self.has_label:
            return None, None
        needed = self.label_needed
        weight, offset = (
            name if needed or (name is not None and name in names) else None
            for name in (self.weight, self.offset)
        )
        return weight, offset

    def chosen(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the features to read of a table with columns of these names."""
        if self.features is None:
            return tuple(name for name in names if name not in self.left_out)
        if self.features_needed:
            return self.features
        known = set(names) - self.left_out
        return tuple(name for name in self.features if name in known)


@dataclass(frozen=True)
class Table:
    """One organisation's table.

    Parameters
    ----------
    ids : tuple of str
        Normalised and distinct.
    features : tuple of str
        Names of the columns of ``cells``.
    cells : CSR array (rows, features)
        NaN means missing. A dense table stores its zeros too.
    labels : tuple of str or None
        As text, numbers in their shortest form; "" where a row has none.
    weights, offsets : arrays (rows,) or None
        Finite, weights not negative; arbitrary in rows without a label.
    notes : tuple of str
        What its owner should know about how it was read; not part of the data.
    kinds : tuple of str
        The kind of each column; empty if all are numbers.
    levels : mapping of str to tuple of str
        By column that is a category: its levels. The cells are their numbers, from 1.
    held_out : array (rows,) of bool or None
        Which rows the column sets aside.
    """

    ids: tuple[str, ...] = field(repr=False)
    features: tuple[str, ...]
    cells: sp.csr_array = field(repr=False)
    labels: tuple[str, ...] | None = field(repr=False)
    notes: tuple[str, ...] = ()
    weights: FloatArray | None = field(repr=False, default=None)
    offsets: FloatArray | None = field(repr=False, default=None)
    kinds: tuple[Kind, ...] = ()
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    held_out: BoolArray | None = field(repr=False, default=None)

    def kind_of(self, column: int) -> Kind:
        """Return the kind of a column."""
        return self.kinds[column] if self.kinds else "number"

    def of_rows(self, rows: IntArray) -> Table:
        """Return some of the rows, in the given order."""
        labels, weights, offsets = self.labels, self.weights, self.offsets
        held_out = self.held_out
        return replace(
            self,
            ids=tuple(self.ids[row] for row in rows.tolist()),
            cells=sp.csr_array(self.cells[rows]),
            labels=None if labels is None else tuple(labels[row] for row in rows),
            weights=None if weights is None else weights[rows],
            offsets=None if offsets is None else offsets[rows],
            held_out=None if held_out is None else held_out[rows],
        )

    def without_targets(self) -> Table:
        """Return the table without labels, weights and offsets."""
        return replace(self, labels=None, weights=None, offsets=None)

    @property
    def n_missing(self) -> int:
        """How many cells are missing."""
        return int(np.isnan(self.cells.data).sum())

    @property
    def first_missing(self) -> str | None:
        """The first column with a missing cell."""
        columns = self.cells.indices[np.isnan(self.cells.data)]
        return self.features[columns.min()] if len(columns) else None

    @property
    def digest(self) -> bytes:
        """Hash of the table, including the order of its rows and columns."""
        columns = (self.features, self.kinds, sorted(self.levels.items()))
        names = msgspec.msgpack.encode((self.ids, columns, self.labels))
        hasher = hashlib.sha256(names)
        for part in (self.cells.indptr, self.cells.indices, self.cells.data):
            hasher.update(np.ascontiguousarray(part).data)
        beside = {
            "weights": self.weights,
            "offsets": self.offsets,
            "held out": self.held_out,
        }
        for name, column in beside.items():
            if column is not None:
                hasher.update(name.encode() + column.tobytes())
        return hasher.digest()

    @property
    def is_dense(self) -> bool:
        """Whether all cells are stored, including zeros."""
        return bool(self.cells.nnz == len(self.ids) * len(self.features))


def normalised(value: object) -> str:
    """Return an ID or a name as text, NFC and trimmed; "007" and 7 differ."""
    return unicodedata.normalize("NFC", str(value)).strip()


def bare_name(name: str) -> str:
    """Return a name without capitals and blanks, which people confuse."""
    return "".join(name.split()).casefold()


def without_brackets(name: str) -> str:
    """Return a bare name without what is in brackets, such as a unit."""
    return bare_name(_BRACKETS.sub("", name)) or bare_name(name)


def first_twins(
    names: Iterable[str], bare: Callable[[str], str] = bare_name
) -> tuple[str, str] | None:
    """Return the first two different names that are the same once bare, if any."""
    met: dict[str, str] = {}
    for name in names:
        twin = met.setdefault(bare(name), name)
        if twin != name:
            return twin, name
    return None


def id_text(value: object) -> str:
    """Return an ID as text; "" means no ID."""
    return "" if value is None else normalised(value)


def label_text(value: object) -> str:
    """Return a label as text: 1, 1.0 and "1" are the same; "" means no label."""
    text = "" if value is None else normalised(value)
    if whole := _WHOLE.fullmatch(text):
        return str(int(whole[1]))  # a float would lose digits of long codes
    number = parsed_number(text)
    if number is None:
        return text
    if math.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() else repr(number)


def parsed_number(text: str) -> float | None:
    """Return the number that a text is, or None for other text, such as 1_10."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def listed(names: Sequence[str]) -> str:
    """Return names for use in a sentence: the first few, and how many more."""
    shown = ", ".join(map(repr, names[:_MOST_LISTED]))
    n_more = len(names) - _MOST_LISTED
    return f"{shown} and {n_more} more" if n_more > 0 else shown


def stored_densely(values: FloatArray) -> sp.csr_array:
    """Return a dense array as CSR that stores every cell, including zeros."""
    n_rows, n_columns = values.shape
    # Both must have one type; otherwise scipy widens them to the larger one.
    index = np.int32 if values.size <= np.iinfo(np.int32).max else np.int64
    indices = np.tile(np.arange(n_columns, dtype=index), n_rows)
    indptr = (np.arange(n_rows + 1) * n_columns).astype(index)
    return sp.csr_array((values.ravel(), indices, indptr), shape=values.shape)


def check_columns(
    file: str, wanted: Sequence[str], names: Sequence[str], key: str = ""
) -> None:
    """Check that a file has the required columns, or those that a key names.

    Raises
    ------
    MissingColumnsError
    """
    known = set(names)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise MissingColumnsError(file, missing, names, key)


def _header_hint(missing: Sequence[str], known: Sequence[str]) -> str:
    """Return advice: a similar name, or that the file seems to lack a line of names.

    Other names are not quoted: without a line of names, they would be cells.
    """
    bare = {bare_name(name): name for name in known}
    close = get_close_matches(bare_name(missing[0]), bare, n=1, cutoff=0.8)
    if close:
        return f" (did you mean {bare[close[0]]!r}?)"
    if any(parsed_number(name) is not None for name in known):
        return " (its first line seems to be no line of names)"
    return ""

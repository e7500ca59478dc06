"""Readers of one organisation's table, one per file format, with checks.

Every problem with a file raises a ``TableError`` of one sentence. It says what is
wrong, where, and what to do. It never quotes a cell: cells are somebody's data.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import scipy.sparse as sp
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.data.csv_form import find_form, form_note, form_words
from hyfdca.data.tables import (
    Columns,
    Table,
    TableError,
    bare_name,
    check_columns,
    id_text,
    label_text,
    normalised,
    stored_densely,
)
from hyfdca.data.target_columns import check_offsets, check_weights

T = TypeVar("T")

_LARGEST = 1e100  # squares of larger numbers soon overflow
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")


def read_table(path: Path, columns: Columns) -> Table:
    """Read and check a table; the ending of the file gives its format.

    Raises
    ------
    TableError
    """
    reader = _READERS.get(_ending(path))
    if reader is None:
        known = ", ".join(_READERS)
        raise TableError(f"cannot read {path.name}; use a file that ends in {known}")
    _check_file(path)
    table = _openable(path, lambda: reader(path, columns))
    _check_ids(path, table.ids, columns.id or "ids")
    _check_cells(path, table)
    check_weights(path.name, columns.weight or "", table)
    check_offsets(path.name, columns.offset or "", table, not columns.label_needed)
    return table


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise TableError(f"the file {path} does not exist; correct its path")
    if path.stat().st_size == 0:
        raise TableError(f"the file {path.name} is empty; give a file with a table")


def _openable(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except OSError:
        raise TableError(f"cannot open {path.name}; check its permissions") from None


def has_named_columns(path: Path) -> bool:
    """Return whether the columns of such a file have names."""
    return _READERS.get(_ending(path)) in (read_csv, read_parquet)


def _check_ids(path: Path, ids: Sequence[str], name: str) -> None:
    if not ids:
        raise TableError(f"the file {path.name} has no rows; add some")
    if "" in ids:
        raise TableError(
            f"{ids.count('')} rows of {path.name} have no ID in column {name!r}; give "
            "each row one, or correct id_column"
        )
    n_repeated = len(ids) - len(set(ids))
    if n_repeated:
        raise TableError(
            f"{n_repeated} rows of {path.name} repeat the ID of another row in column "
            f"{name!r}; keep one row per ID, or correct id_column"
        )


def _check_cells(path: Path, table: Table) -> None:
    if not table.features:
        raise TableError(
            f"{path.name} has no feature columns besides ID, label and what ignore "
            "leaves out; add some"
        )
    twice = [name for name, count in Counter(table.features).items() if count > 1]
    if twice:
        raise TableError(
            f"features for {path.name} are named twice, such as {twice[0]!r}; name "
            "each once in the key features"
        )
    too_large = np.abs(table.cells.data) > _LARGEST
    if too_large.any():
        columns = np.unique(table.cells.indices[too_large])
        raise TableError(
            f"{path.name} has {too_large.sum()} numbers that are infinite or beyond "
            f"{_LARGEST}, the first in column {table.features[columns[0]]!r}; correct "
            "them, or leave such columns out with ignore"
        )


def _ending(path: Path) -> str:
    suffixes: Iterable[str] = (s for s in path.suffixes if s not in (".gz", ".bz2"))
    return ([s.lower() for s in suffixes] or [""])[-1]


@dataclass(frozen=True)
class NamedColumns:
    """What a file with named columns contains.

    Parameters
    ----------
    content : pyarrow.Table
    index : set of str
        Columns in which pandas wrote its index.
    notes : tuple of str
        How the file was read, where that was found by looking.
    """

    content: Any
    index: set[str]
    notes: tuple[str, ...] = ()


def open_columns(path: Path, columns: Columns) -> NamedColumns:
    """Read a file whose columns have names; the ID and the label of a CSV as text.

    Raises
    ------
    TableError
    """
    _check_file(path)
    opener = _open_csv if _ending(path) == ".csv" else _open_parquet
    return _openable(path, lambda: opener(path, columns))


def read_csv(path: Path, columns: Columns) -> Table:
    """Return the table of a CSV file."""
    return _from_arrow(path, _open_csv(path, columns), columns)


def read_parquet(path: Path, columns: Columns) -> Table:
    """Return the table of a Parquet file."""
    return _from_arrow(path, _open_parquet(path, columns), columns)


def _open_csv(path: Path, columns: Columns) -> NamedColumns:
    try:
        return _parsed_csv(path, columns)
    except UnicodeError:
        raise TableError(
            f"{path.name} is not in the encoding {columns.csv.encoding}; set encoding "
            'in the study file to that of the file, such as "utf-8" or "cp1252", or '
            "leave the key out to have it found by looking"
        ) from None


def _parsed_csv(path: Path, columns: Columns) -> NamedColumns:
    form = find_form(path, columns.csv)
    reading = pa.csv.ReadOptions(encoding=form.encoding)
    parsing = pa.csv.ParseOptions(delimiter=form.delimiter)
    try:
        # Read the names first: an ID read as a number would lose leading zeros.
        first = pa.csv.open_csv(path, reading, parsing)
        names = first.schema.names
        texts = [n for n in names if normalised(n) in (columns.id, columns.label)]
        converting = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(texts, pa.string()),
            strings_can_be_null=True,
            decimal_point=form.decimal,
        )
        table = pa.csv.read_csv(path, reading, parsing, converting)
    except (pa.ArrowInvalid, pa.ArrowKeyError):  # its message would quote the row
        raise TableError(
            f"{path.name} is not a CSV table with {form_words(form)}; save it with one "
            "line of column names and one cell per column in every row, or set "
            'delimiter (one character), decimal ("." or ",") or encoding (such as '
            '"utf-8") in the study file'
        ) from None
    found = form_note(form, columns.csv)
    notes = (f"The file {path.name} is read {found}.",) if found else ()
    return NamedColumns(table, _csv_index(names), notes)


def _open_parquet(path: Path, _: Columns) -> NamedColumns:
    try:
        table = pa.parquet.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError):
        raise TableError(
            f"{path.name} is not a Parquet file, or is damaged; save it again"
        ) from None
    return NamedColumns(table, _parquet_index(table.schema))


def _csv_index(names: Sequence[str]) -> set[str]:
    """Return the column in which pandas wrote row numbers, if there is one."""
    return {name for name in names[:1] if _PANDAS_INDEX.fullmatch(normalised(name))}


def _parquet_index(schema: Any) -> set[str]:
    """Return the columns in which pandas wrote the index."""
    try:
        facts: Any = schema.pandas_metadata
    except ValueError:  # another program wrote something else there
        facts = None
    listed = facts.get("index_columns") if isinstance(facts, dict) else None
    # The index of a fresh frame is a range, which is not in a column.
    names = (
        {n for n in listed if isinstance(n, str)} if isinstance(listed, list) else set()
    )
    return names | {n for n in schema.names if n and _PANDAS_INDEX.fullmatch(n)}


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
    return NamedColumns(content, named.index, (*named.notes, note))


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
            f"{path.name} has {len(repeated)} column names more than once, such as "
            f"{repeated[0]!r}; rename them"
        )
    return dict(zip(names, content.columns, strict=True))


def _from_arrow(path: Path, named: NamedColumns, columns: Columns) -> Table:
    """Return a table of named columns."""
    kept = without_index(path, named, columns)
    table, by_name = kept.content, columns_by_name(path, kept.content)
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
    needed = [name for name in (label, *beside) if name is not None]
    check_columns(path.name, [columns.id, *needed, *features], names)
    _check_names(path, features)
    cells = np.empty((table.num_rows, len(features)))
    for number, name in enumerate(features):
        cells[:, number] = _numbers(path, name, by_name[name])
    weights, offsets = (
        None if name is None else _numbers(path, name, by_name[name], "")
        for name in beside
    )
    return Table(
        tuple(map(id_text, _texts(path, columns.id, by_name[columns.id]))),
        features,
        stored_densely(cells),
        tuple(map(label_text, _texts(path, label, by_name[label]))) if label else None,
        kept.notes,
        weights,
        offsets,
    )


def _check_names(path: Path, features: Sequence[str]) -> None:
    """Refuse features without a name, and names that are hardly two."""
    if "" in features:
        raise TableError(
            f"a column of {path.name} has no name; give it one, or leave it out with "
            'ignore = [""]'
        )
    alike: dict[str, str] = {}
    for name in features:
        other = alike.setdefault(bare_name(name), name)
        if other != name:
            raise TableError(
                f"columns {other!r} and {name!r} of {path.name} differ in capitals or "
                "blanks alone; rename one of them, or leave one out with ignore = "
                f"[{json.dumps(name, ensure_ascii=False)}]"
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


_OR_IGNORE = " or leave the column out with ignore = [{}]"


def _numbers(
    path: Path, name: str, column: Any, remedy: str = _OR_IGNORE
) -> FloatArray:
    """Return a column as floats, with NaN for empty cells.

    Parameters
    ----------
    remedy : str
        What else than correcting cells helps, with a place for the name.
    """
    if pa.types.is_dictionary(column.type):
        column = column.combine_chunks().dictionary_decode()
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not is_text:
        try:
            column = column.cast(pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _refuse(path, name, len(column) - column.null_count, remedy)
        return np.asarray(column.fill_null(math.nan).to_numpy(), dtype=np.float64)
    numbers = [_number(cell) for cell in column.to_pylist()]
    n_bad = sum(number is None for number in numbers)
    if n_bad:
        return _refuse(path, name, n_bad, remedy)
    return np.array(numbers, dtype=np.float64)


def _refuse(path: Path, name: str, n_cells: int, remedy: str) -> FloatArray:
    quoted = json.dumps(name, ensure_ascii=False)
    raise TableError(
        f"column {name!r} of {path.name} has {n_cells} cells that are not numbers; "
        f"correct them{remedy.format(quoted)}"
    )


def _number(cell: str | None) -> float | None:
    try:
        return float(cell) if cell is not None and cell.strip() else math.nan
    except ValueError:
        return None


_MOST_FEATURES = 20_000_000
# What reading a damaged NPZ file may raise; of archives that are encrypted, or packed
# in an unknown way, a RuntimeError.
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
    return _numbered(path, cells, arrays.get("y"), arrays.get("ids"), columns)


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
            'array ids, or set rows = "by order" if the same line is the same case at '
            "all organisations"
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
    beside = columns.beside_labels(table.features)
    needed = [name for name in beside if name is not None]
    left_out = filter(None, (*columns.with_roles, *columns.ignored))
    has_roles = bool(needed) or any(map(_NUMBERED.fullmatch, left_out))
    if columns.features is None and not has_roles:
        return table  # with millions of names it is worth not looking at each
    features = columns.chosen(table.features)
    check_columns(path.name, [*needed, *features], table.features)
    weights, offsets = (
        None if name is None else table.cells[:, [int(name[1:])]].toarray()[:, 0]
        for name in beside
    )
    if len(features) < len(table.features) or columns.features is not None:
        chosen = [int(name[1:]) for name in features]
        table = replace(table, features=features, cells=table.cells[:, chosen])
    return replace(table, weights=weights, offsets=offsets)


_READERS: dict[str, Callable[[Path, Columns], Table]] = {
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".libsvm": read_libsvm,
    ".svm": read_libsvm,
    ".npz": read_npz,
}

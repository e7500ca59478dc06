"""The form of a CSV file: encoding, delimiter and decimal point, given or detected."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

DELIMITER = r"^[\t -!#-~]\Z"  # printable ASCII but for quotation marks, or a tab
_CHUNK = 2**20
_SAMPLE_LINES = 200
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_DECIMAL = {",": re.compile(r"[+-]?\d+,\d+"), ".": re.compile(r"[+-]?\d*\.\d+")}
# Three digits after each: these may be separators of thousands instead.
_THOUSANDS = {
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+"),
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+"),
}
# Excel's first line; the delimiter itself may be a blank or a tab
_SEPARATOR_LINE = re.compile(r'\s*"?sep=(.)"?;*,*\s*', re.IGNORECASE)


class DelimiterError(ValueError):
    """A delimiter that cannot be read, as the message."""


@dataclass(frozen=True)
class CsvForm:
    """How a CSV file is written; None is to be detected from the file.

    Parameters
    ----------
    encoding : str or None
        A name that Python knows.
    delimiter : str or None
        One character between cells.
    decimal : {".", ","} or None
        The decimal point.
    n_skipped : int
        Lines before the line of column names.
    """

    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    n_skipped: int = 0


USUAL = CsvForm("utf-8", ",", ".")


def find_form(path: Path, given: CsvForm) -> CsvForm:
    """Return how a file is written: as given, and otherwise as detected.

    Raises
    ------
    UnicodeError
        If it is not in the encoding given.
    DelimiterError
        If its own first line names a delimiter that cannot be read.
    """
    encoding = given.encoding or _encoding(path)
    lines = _first_lines(path, encoding)
    said = _SEPARATOR_LINE.fullmatch(lines[0]) if lines else None
    n_skipped = int(said is not None)
    lines = lines[n_skipped:]
    if said and not is_delimiter(said[1]):
        raise DelimiterError(said[1])
    delimiter = given.delimiter or (said[1] if said else _delimiter(lines))
    decimal = given.decimal or _decimal(lines, delimiter)
    return CsvForm(encoding, delimiter, decimal, n_skipped)


def form_note(found: CsvForm, given: CsvForm) -> str:
    """Return what was detected, if it is unusual; "" otherwise."""
    parts = []
    if given.encoding is None and found.encoding != USUAL.encoding:
        parts.append(f"in the encoding {found.encoding}")
    if given.delimiter is None and found.delimiter != USUAL.delimiter:
        parts.append(f"with {_between(found)} between cells")
    if given.decimal is None and found.decimal != USUAL.decimal:
        parts.append("with decimal commas")
    return ", ".join(parts)


def form_words(form: CsvForm) -> str:
    """Return how a file was read, to follow "with"."""
    between = _between(form)
    point = "points" if form.decimal == "." else "commas"
    return f"{between} between cells and decimal {point} in {form.encoding}"


def _between(form: CsvForm) -> str:
    return _DELIMITERS.get(form.delimiter or "", repr(form.delimiter))


def _chunks(path: Path) -> Iterator[bytes]:
    with pa.input_stream(path, compression="detect") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _encoding(path: Path) -> str:
    """Return the encoding of a file: by its byte order mark, else UTF-8 or Western."""
    start = next(_chunks(path), b"")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for name in ("utf-8", "cp1252"):
        decoder = codecs.getincrementaldecoder(name)()
        try:
            for chunk in _chunks(path):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            continue
        return name
    return "latin-1"  # has a character for every byte


def _first_lines(path: Path, encoding: str) -> list[str]:
    # A character may be cut off at the end of the sample.
    decoder = codecs.getincrementaldecoder(encoding)()
    text = decoder.decode(next(_chunks(path), b"")).removeprefix("\ufeff")
    lines = text.splitlines()
    is_cut = len(lines) > 1 and not text.endswith(("\n", "\r"))
    return lines[: len(lines) - is_cut][:_SAMPLE_LINES]


def _cells(lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return []


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter that gives all lines the same, largest number of cells."""
    n_cells = {}
    for delimiter in _DELIMITERS:
        widths = {len(row) for row in _cells(lines, delimiter)}
        n_cells[delimiter] = widths.pop() if len(widths) == 1 else 0
    best = max(n_cells, key=n_cells.__getitem__)  # the first of equals, a comma
    return best if n_cells[best] > 1 else ","


def _decimal(lines: list[str], delimiter: str) -> str:
    """Return a comma if there are decimal commas, and no decimal points.

    Where commas separate cells, one within a cell separates thousands.
    """
    if delimiter == ",":
        return "."
    columns = list(zip(*_cells(lines[1:], delimiter), strict=False))
    has_commas, has_points = (
        any(_is_decimal(column, point) for column in columns) for point in ",."
    )
    return "," if has_commas and not has_points else "."


def _is_decimal(column: Sequence[str], point: str) -> bool:
    """Return whether a column clearly has numbers with that decimal point."""
    cells = [cell.strip() for cell in column]
    found = [cell for cell in cells if _DECIMAL[point].fullmatch(cell)]
    return not all(map(_THOUSANDS[point].fullmatch, found))


def is_delimiter(text: str) -> bool:
    """Return whether Arrow can take a text as what is between cells."""
    return re.fullmatch(DELIMITER, text) is not None


def is_encoding(name: str) -> bool:
    """Return whether there is an encoding of that name."""
    try:
        "".encode(name)
    except LookupError:  # unknown, or an encoding of bytes
        return False
    return True

"""Ways in which people and programs spoil a file, none of which changes what it means.

Where a spoiler changes what could be read, that shows: another organisation has the
same cell or label, or the file no longer has what the study names.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from hyfdca.maths.seeds import stream
from tests.study.tables.spoilt_table import ORGANISATIONS, POSITIVE, Spoilt, part_of


def cell(value: object) -> Callable[[Spoilt], None]:
    """Return what puts a value into a cell of a feature."""
    return lambda own: own.set_cell(own.column, value)


def encoded(encoding: str) -> Callable[[Spoilt], None]:
    return lambda own: own.edit(lambda text: text, encoding)


def separated(delimiter: str, decimal: str = ".") -> Callable[[Spoilt], None]:
    return lambda own: own.write_csv(sep=delimiter, decimal=decimal)


def each_line(how: Callable[[str], str]) -> Callable[[Spoilt], None]:
    def spoil(own: Spoilt) -> None:
        own.edit(lambda text: "".join(f"{how(line)}\n" for line in text.splitlines()))

    return spoil


def ids(how: Callable[[str], object]) -> Callable[[Spoilt], None]:
    return lambda own: own.change("id", how)


def labels(how: Callable[[str], object]) -> Callable[[Spoilt], None]:
    return lambda own: own.change("y", how)


def numbers(how: Callable[[float], object]) -> Callable[[Spoilt], None]:
    return lambda own: own.change(own.column, how)


def renamed(how: Callable[[str], str]) -> Callable[[Spoilt], None]:
    def spoil(own: Spoilt) -> None:
        own.frame = own.frame.rename(columns={own.column: how(own.column)})
        own.write_csv()

    return spoil


def more(values: Callable[[int], object]) -> Callable[[Spoilt], None]:
    """Return what adds a column that only this organisation has."""

    def spoil(own: Spoilt) -> None:
        column = [values(row) for row in range(len(own.frame))]
        own.frame.insert(1 + own.number % 3, f"extra of {own.name}", column)
        own.write_csv()

    return spoil


def parquet_column(
    make: Callable[[pd.Series], pa.Array], column: str = ""
) -> Callable[[Spoilt], None]:
    """Return what writes a Parquet file with a column of another type."""

    def spoil(own: Spoilt) -> None:
        name = column or own.column
        own.write_parquet(**{name: make(own.frame[name])})

    return spoil


def swapped_rows(own: Spoilt) -> None:
    own.frame = own.frame.sample(frac=1, random_state=own.number)
    own.write_csv()


def swapped_columns(own: Spoilt) -> None:
    own.frame = own.frame.sample(frac=1, axis=1, random_state=own.number)
    own.write_csv()


def repeated_id(own: Spoilt) -> None:
    own.set_cell("id", own.frame["id"][(own.row + 1) % len(own.frame)])


def repeated_column(own: Spoilt) -> None:
    own.frame.insert(1, "again", own.frame[own.column])
    own.edit(lambda text: text.replace("again", own.column, 1))


def cut_off(own: Spoilt) -> None:
    """Cut the file after the ID of a row, which then lacks cells."""
    lines = own.frame.to_csv(index=False).splitlines()
    kept = lines[: 1 + own.row]
    own.write_bytes("\n".join([*kept, lines[1 + own.row].split(",")[0]]).encode())


def cut_parquet(own: Spoilt) -> None:
    own.write_parquet()
    content = own.path.read_bytes()
    own.write_bytes(content[: own.number % len(content)])


def damaged_parquet(own: Spoilt) -> None:
    """Change the bytes that say where the columns are."""
    own.write_parquet()
    content = bytearray(own.path.read_bytes())
    place = len(content) - 9 - own.number % 100
    content[place] ^= 0xFF
    own.write_bytes(bytes(content))


def as_float32(own: Spoilt) -> None:
    for name in ORGANISATIONS[own.name][1]:
        own.frame[name] = own.frame[name].astype(np.float32)
    own.write_parquet()


def with_index(own: Spoilt) -> None:
    own.write_csv(index=True)


def shuffled_parquet(own: Spoilt) -> None:
    """Write the index of a shuffled frame, as pandas does."""
    own.path = own.path.with_suffix(".parquet")
    own.frame.sample(frac=1, random_state=own.number).to_parquet(own.path)


def quoted_newlines(own: Spoilt) -> None:
    own.frame[f"remarks of {own.name}"] = ["one\ntwo, three"] * len(own.frame)
    own.write_csv()


def folder_instead(own: Spoilt) -> None:
    own.path.mkdir()


def nothing(_: Spoilt) -> None:
    """Write no file."""


YES, NO = True, False
# How to spoil a table; whether it may be read as meant, and whether it may be refused.
SPOILERS: dict[str, tuple[Callable[[Spoilt], None], bool, bool]] = {
    # Files that are what they should be
    "as it is": (lambda own: own.write_csv(), YES, NO),
    "rows in another order": (swapped_rows, YES, NO),
    "columns in another order": (swapped_columns, YES, NO),
    "parquet": (lambda own: own.write_parquet(), YES, NO),
    "single precision": (as_float32, YES, NO),
    "scientific numbers": (numbers(lambda own: f"{own:.17E}"), YES, NO),
    "blanks around numbers": (numbers(lambda own: f" {own!r} "), YES, NO),
    "blanks around IDs": (ids(lambda own: f"  {own} "), YES, NO),
    "blanks around a name": (renamed(lambda own: f" {own} "), YES, NO),
    "quotes everywhere": (lambda own: own.write_csv(quoting=1), YES, NO),
    # Encodings
    "UTF-8 with a mark": (encoded("utf-8-sig"), YES, NO),
    "UTF-16": (encoded("utf-16"), YES, NO),
    "Latin-1": (encoded("latin-1"), YES, NO),
    "Windows": (encoded("cp1252"), YES, NO),
    "UTF-16 without a mark": (encoded("utf-16-le"), YES, YES),
    "UTF-32": (encoded("utf-32"), YES, YES),
    "Macintosh": (encoded("mac_roman"), NO, YES),
    "DOS": (encoded("cp437"), NO, YES),
    # Forms of CSV
    "semicolons": (separated(";"), YES, NO),
    "tabs": (separated("\t"), YES, NO),
    "bars": (separated("|"), YES, NO),
    "decimal commas": (separated(";", ","), YES, NO),
    "tabs and decimal commas": (separated("\t", ","), YES, NO),
    "colons": (separated(":"), NO, YES),
    "blanks between cells": (separated(" "), NO, YES),
    "Windows line ends": (lambda own: own.write_csv(lineterminator="\r\n"), YES, NO),
    "Macintosh line ends": (lambda own: own.write_csv(lineterminator="\r"), YES, YES),
    "empty lines": (each_line(lambda line: f"{line}\n"), YES, YES),
    "empty lines at the end": (lambda own: own.edit("{}\n\n\n".format), YES, NO),
    "a trailing comma": (each_line("{},".format), YES, NO),
    "a comment first": (lambda own: own.edit("# exported today\n{}".format), NO, YES),
    "quoted newlines": (quoted_newlines, NO, YES),
    "a lone quote": (lambda own: own.edit(lambda t: t.replace(",", ',"', 9)), NO, YES),
    "zero bytes": (lambda own: own.edit(lambda t: t.replace(".", "\0", 3)), NO, YES),
    "no header": (lambda own: own.write_csv(header=False), NO, YES),
    "header twice": (
        lambda own: own.edit(lambda t: t[: t.index("\n") + 1] + t),
        NO,
        YES,
    ),
    # Files that are something else
    "no file": (nothing, NO, YES),
    "a folder": (folder_instead, NO, YES),
    "an empty file": (lambda own: own.write_bytes(b""), NO, YES),
    "a line end": (lambda own: own.write_bytes(b"\n"), NO, YES),
    "a header only": (lambda own: own.edit(lambda t: t[: t.index("\n")]), NO, YES),
    "random bytes": (
        lambda own: own.write_bytes(stream(own.number, "junk").bytes(1 + own.number)),
        NO,
        YES,
    ),
    "a compressed file": (
        lambda own: own.write_bytes(gzip.compress(own.frame.to_csv().encode())),
        NO,
        YES,
    ),
    "a web page": (
        lambda own: own.write_bytes(b"<html>\n<p>Log in</p></html>"),
        NO,
        YES,
    ),
    "cut off": (cut_off, NO, YES),
    "Parquet cut off": (cut_parquet, NO, YES),
    "Parquet damaged": (damaged_parquet, YES, YES),
    # Columns
    "pandas index": (with_index, YES, NO),
    "pandas index in Parquet": (shuffled_parquet, YES, NO),
    "a column twice": (repeated_column, NO, YES),
    "a name in capitals": (renamed(str.upper), NO, YES),
    "a name with a blank": (renamed(" x{} ".format), NO, YES),
    "a column without a name": (renamed(lambda _: ""), NO, YES),
    "more numbers": (more(lambda row: row * 0.5), NO, YES),
    "more texts": (more(lambda row: f"text {row}"), NO, YES),
    "more constants": (more(lambda _: 1), NO, YES),
    "more blanks": (more(lambda _: None), NO, YES),
    # Cells
    "a blank cell": (cell(None), NO, YES),
    "a blank": (cell(" "), NO, YES),
    "NaN": (cell("NaN"), NO, YES),
    "NA": (cell("NA"), NO, YES),
    "a dash": (cell("-"), NO, YES),
    "infinity": (cell("inf"), NO, YES),
    "beyond floats": (cell("1e400"), NO, YES),
    "huge": (cell("1e200"), NO, YES),
    "a word": (cell("unknown"), NO, YES),
    "a unit": (cell("12 kg"), NO, YES),
    "a date": (cell("2021-03-04"), NO, YES),
    "true": (cell("true"), NO, YES),
    "thousands": (cell("1,234.5"), NO, YES),
    "a whole column of words": (numbers(lambda _: "low"), NO, YES),
    "a whole column of percents": (numbers("{}%".format), NO, YES),
    # IDs
    "an ID twice": (repeated_id, NO, YES),
    "a blank ID": (lambda own: own.set_cell("id", None), NO, YES),
    "lost zeros": (ids(lambda own: own.lstrip("0")), NO, YES),
    "IDs as floats": (ids(lambda own: f"{own}.0"), NO, YES),
    "IDs with blanks": (ids(lambda own: f"{own[:2]} {own[2:]}"), NO, YES),
    "other IDs": (ids("X{}X".format), NO, YES),
    # Labels
    "a blank label": (lambda own: own.set_cell("y", None), YES, YES),
    "another label": (lambda own: own.set_cell("y", "else"), YES, YES),
    "labels in capitals": (labels(str.upper), NO, YES),
    "labels as numbers": (labels(lambda own: int(own == POSITIVE)), NO, YES),
    # Types of Parquet
    "IDs as numbers": (
        parquet_column(lambda own: pa.array(own.astype(int)), "id"),
        NO,
        YES,
    ),
    "IDs as categories": (
        parquet_column(lambda own: pa.array(own).dictionary_encode(), "id"),
        YES,
        NO,
    ),
    "IDs as bytes": (
        parquet_column(lambda own: pa.array(map(str.encode, own)), "id"),
        YES,
        NO,
    ),
    "IDs as lists": (
        parquet_column(lambda own: pa.array([[text] for text in own]), "id"),
        NO,
        YES,
    ),
    "labels as bytes": (
        parquet_column(lambda own: pa.array(map(str.encode, own)), "y"),
        YES,
        NO,
    ),
    "labels in Latin-1 bytes": (
        parquet_column(lambda own: pa.array([t.encode("latin-1") for t in own]), "y"),
        NO,
        YES,
    ),
    "labels as structures": (
        parquet_column(lambda own: pa.array([{"label": text} for text in own]), "y"),
        NO,
        YES,
    ),
    "labels as categories": (
        parquet_column(lambda own: pa.array(own).dictionary_encode(), "y"),
        YES,
        NO,
    ),
    "labels as large text": (
        parquet_column(lambda own: pa.array(own, pa.large_string()), "y"),
        YES,
        NO,
    ),
    "decimals": (
        parquet_column(
            lambda own: pa.array(
                [Decimal(f"{value:.15f}") for value in own], pa.decimal128(30, 15)
            )
        ),
        YES,
        NO,
    ),
    "numbers as text": (parquet_column(lambda own: pa.array(map(repr, own))), YES, NO),
    "numbers as categories": (
        parquet_column(lambda own: pa.array(map(repr, own)).dictionary_encode()),
        NO,
        YES,
    ),
    "lists": (parquet_column(lambda own: pa.array([[v] for v in own])), NO, YES),
    "structures": (
        parquet_column(lambda own: pa.array([{"v": value} for value in own])),
        NO,
        YES,
    ),
    "times": (
        parquet_column(lambda own: pa.array(own.astype("int64"), pa.timestamp("s"))),
        NO,
        YES,
    ),
    "bytes": (parquet_column(lambda own: pa.array([b"x"] * len(own))), NO, YES),
    "nothing but nulls": (
        parquet_column(lambda own: pa.nulls(len(own))),
        NO,
        YES,
    ),
}

# Those that make numbers a column of another kind, which is legitimate in itself.
OTHER_KINDS = {
    "a whole column of words",
    "a whole column of percents",
    "numbers as categories",
    "times",
}


def is_still_meant(chosen: dict[str, tuple[str, int]]) -> bool:
    """Return whether nobody can take a column for one of another kind.

    It is refused that one holder has numbers and another has text. If all holders have
    the same text, that is what the study is about, and numbers are nobody's.

    Parameters
    ----------
    chosen : dict of str to (str, int)
        How each spoilt table is spoilt, and the number that it is spoilt with.
    """
    changed = [
        (how, Spoilt(Path(), name, part_of(name), number).column)
        for name, (how, number) in chosen.items()
        if how in OTHER_KINDS
    ]
    return len(set(changed)) == len(changed)

"""Words that people write into tables: for yes, no and nothing, and around numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from hyfdca.data.tables import TableError, label_text, normalised, parsed_number
from hyfdca.errors import counted

YES = frozenset({"yes", "true", "ja", "wahr", "oui", "vrai", "si", "sí", "sim", "y"})
NO = frozenset({"no", "false", "nein", "falsch", "non", "faux", "não", "nao", "n"})
# Single letters mean yes and no only together: one alone may be a code.
_LETTERS = frozenset({"y", "n"})

# What readers of CSV take as a blank cell; levels of a category may be called so.
NULL_TEXTS = frozenset(
    {
        *("NA", "N/A", "n/a", "NULL", "null", "NaN", "nan", "-NaN", "-nan"),
        *("#N/A", "#N/A N/A", "#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)

BLANK_WORDS = frozenset(
    {
        *map(str.casefold, NULL_TEXTS),
        *("-", "--", "---", "\u2013", "\u2014", "?", ".", "..", "...", "*"),
        *("n.a.", "n. a.", "nil", "none"),
        *("missing", "unknown", "not available", "not known", "k.a.", "k. a."),
        *("unbekannt", "inconnu", "desconocido"),
    }
)

NO_LABELS = BLANK_WORDS - {"none", "nil"}  # these may well be a class

_NUMBER = re.compile(
    r"[<>\u2264\u2265~]*\s*[+\u2212\u2013-]?\s*[$\u20ac\u00a3\u00a5]?\s*"
    r"(?:[0-9]+(?:[.,][0-9]+)*|[0-9]{1,3}(?:['\u2019\s][0-9]{3})+(?:[.,][0-9]+)?)"
    r"(?:[eE][+-]?[0-9]+)?"
    r"\s*(?:[%\u2030$\u20ac\u00a3\u00a5]|EUR|USD|GBP|CHF)?"
)
# A single letter right after a number may be part of a code, such as 3B.
_WITH_UNIT = re.compile(
    r"[+\u2212\u2013-]?[0-9]+(?:[.,][0-9]+)*"
    r"(?:\s+|(?=[\u00b0\u00b5\u03bc]|[^\W\d_]{2}))([^\W\d_\u00b0].{0,19}|\u00b0.?)"
)
_ISO_DATE = re.compile(r"\s*[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(?![0-9])")
LEADING_ZERO = r"\s*[+-]?0[0-9]+\s*"  # a code rather than a number
_CODE = re.compile(LEADING_ZERO)
_SWAPPED = str.maketrans({",": ".", ".": ","})
_DATE = re.compile(
    r"\s*([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4}"
    r"|[0-9]{1,2}[-/. ]{1,2}[A-Za-z]{3,9}[-/. ]{1,2}[0-9]{2,4})(\s|T|\Z)"
)
_MARKS = {
    "percent signs": re.compile(r"[%\u2030]"),
    "signs of a currency": re.compile(r"[$\u20ac\u00a3\u00a5]|EUR|USD|GBP|CHF"),
    "signs of a comparison": re.compile(r"[<>\u2264\u2265~]"),
    "minus signs that are not hyphens": re.compile(r"[\u2212\u2013]"),
    "apostrophes": re.compile(r"['\u2019]"),
}


def words_of(texts: Iterable[str | None]) -> set[str]:
    """Return texts without details such as capitals; blanks are left out."""
    return {normalised(text).casefold() for text in texts if text} - {""}


def is_blank(text: str | None) -> bool:
    """Return whether a text says that there is nothing, or is nothing."""
    return words_of([text]) <= BLANK_WORDS


def is_yes_or_no(words: set[str]) -> bool:
    """Return whether these are all words for yes and no."""
    is_code = len(words) == 1 and words <= _LETTERS
    return bool(words) and words <= YES | NO and not is_code


def looks_like_number(text: str) -> bool:
    """Return whether a text is a number with signs and separators around it."""
    return _NUMBER.fullmatch(text.strip()) is not None


def marks_of(text: str, decimal: str) -> Iterator[str]:
    """Yield what a text has that a plain number with that decimal point has not."""
    for sign, name in ((",", "commas"), (".", "points")):
        if text.count(sign) > (sign == decimal):
            yield name
    yield from (name for name, mark in _MARKS.items() if mark.search(text))


def boolean_of(cell: str | None) -> float | None:
    """Return 1 for yes, 0 for no and None for any other text."""
    word = "" if cell is None else normalised(cell).casefold()
    return float(word in YES) if word in YES or word in NO else None


def stated_label(value: object) -> str:
    """Return a label as text; "" also for what readers of CSV take as a blank cell."""
    label = label_text(value)
    return "" if label in NULL_TEXTS else label


def number_of(cell: str | None, decimal: str | None = None) -> float | None:
    """Return the number that a text is, NaN for a blank and None for other text.

    Where the comma is the decimal point, a point is not: it may separate thousands.
    """
    if cell is None or not cell.strip():
        return math.nan
    if decimal == ",":
        cell = cell.translate(_SWAPPED)
    return parsed_number(cell)


def is_numeric(cell: object) -> bool:
    """Return whether a cell is a number or a date, or was meant to be one."""
    if not isinstance(cell, str):
        return isinstance(cell, int | float)
    number = number_of(cell)
    is_odd = number is None and (looks_like_number(cell) or looks_like_date(cell))
    return is_odd or not (number is None or math.isnan(number))


def looks_like_date(text: str) -> bool:
    """Return whether a text begins as a date does, in whatever order."""
    return _DATE.match(text) is not None


def are_dates(texts: Collection[str]) -> bool:
    """Return whether all of some texts look like dates; false without any."""
    return len(texts) > 0 and all(map(looks_like_date, texts))


def n_codes(texts: Iterable[str | None]) -> int:
    """Return how many texts are digits after a zero, as in a code such as 01067."""
    return sum(text is not None and _CODE.fullmatch(text) is not None for text in texts)


def check_no_codes(
    file: str, name: str, texts: Iterable[str | None], has_settings: bool
) -> None:
    """Refuse numbers some of which have leading zeros: these are probably codes."""
    if not (n_found := n_codes(texts)):
        return
    cells = counted(n_found, "cell")
    quoted = json.dumps(name, ensure_ascii=False)
    codes = (
        f"set categorical = [{quoted}] in the study file if these are codes, such as "
        "those of places, or "
        if has_settings
        else ""
    )
    rest = f", or leave the column out with ignore = [{quoted}]" if codes else ""
    raise TableError(
        f"column {name!r} of {file} has {cells} with leading zeros, which numbers do "
        f"not have; {codes}write them without these zeros if they are numbers{rest}"
    )


def check_no_dates(
    file: str, name: str, texts: Iterable[str | None], has_settings: bool
) -> None:
    """Refuse text of which half or more looks like dates, but was not read as such."""
    stated = [text for text in texts if text and not is_blank(text)]
    n_dates = sum(map(looks_like_date, stated))
    if 2 * n_dates >= len(stated):
        quoted = json.dumps(name, ensure_ascii=False)
        settings = f", or set categorical = [{quoted}] or ignore = [{quoted}]"
        n_others = sum(_ISO_DATE.match(text) is None for text in stated)
        some = f" ({n_others} {'is' if n_others == 1 else 'are'} not)"
        raise TableError(
            f"column {name!r} of {file} has {n_dates} cells that look like dates, but "
            "not all cells are dates as in 2024-12-31"
            f"{some if 0 < n_others < len(stated) else ''}; write all of them like that"
            f"{settings if has_settings else ''}"
        )


def check_no_numbers(
    file: str,
    name: str,
    texts: Mapping[str | None, int],
    decimal: str,
    has_settings: bool,
) -> None:
    """Refuse text at least half of which looks like numbers that cannot be read.

    Texts that are all numbers with the same unit are refused too.

    Parameters
    ----------
    has_settings : bool
        Whether settings of a study may help.
    """
    marks = {"a unit"} if _have_one_unit(texts) else set[str]()
    found = {
        text: n
        for text, n in texts.items()
        if text and (marks or _is_only_number(text))
    }
    n_numbers = sum(found.values())
    if not n_numbers or 2 * n_numbers < sum(texts.values()):
        return
    for text in found:
        marks.update(marks_of(text, decimal))
    cells = counted(
        n_numbers, "cell that looks like a number", "cells that look like numbers"
    )
    raise TableError(
        f"column {name!r} of {file} has {cells}, but with "
        f"{' and '.join(sorted(marks)) or 'blanks'}; write them as in "
        f"1234{decimal}5{_settings(name, marks) if has_settings else ''}"
    )


def _have_one_unit(texts: Iterable[str | None]) -> bool:
    """Return whether texts are different numbers, all with the same unit."""
    found = [_WITH_UNIT.fullmatch(text.strip()) for text in texts if text]
    units = {match and match[1].strip() for match in found}
    return len(found) > 1 and len(units) == 1 and None not in units


def _is_only_number(text: str) -> bool:
    return looks_like_number(text) and not looks_like_date(text)


def _settings(name: str, marks: set[str]) -> str:
    """Return further advice about numbers that are written in another way."""
    quoted = json.dumps(name, ensure_ascii=False)
    point = ', set decimal = "," if that is the decimal point' * ("commas" in marks)
    return (
        f"{point}, or set categorical = [{quoted}] if they are names of categories, or "
        f"leave the column out with ignore = [{quoted}]"
    )

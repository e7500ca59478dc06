"""Simpler forms of IDs, in which IDs that were written differently are the same.

Spreadsheets drop leading zeros, data frames turn 17 into 17.0, people change capitals
and separators. IDs are never matched in these forms: the alignment only counts how many
more would match, to say why tables do not meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

IdForm = Literal[
    "any",
    "leading zeros",
    "zeros after a decimal point",
    "capitals",
    "blanks or punctuation",
]

_LEADING_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")  # of every number in an ID
_DECIMAL_ZEROS = re.compile(r"\.0+\Z")


def _without_leading_zeros(text: str) -> str:
    return _LEADING_ZEROS.sub("", text)


def _without_decimal_zeros(text: str) -> str:
    return _DECIMAL_ZEROS.sub("", text)


def _letters_and_digits(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _without_all(text: str) -> str:
    """Return an ID in its simplest form.

    Decimal zeros are only recognised before punctuation is removed, and numbers are
    only complete afterwards.
    """
    plain = _letters_and_digits(_without_decimal_zeros(text))
    return _without_leading_zeros(plain).casefold()


# What each form ignores, and how; the first ignores all that the others do.
ID_FORMS: dict[IdForm, Callable[[str], str]] = {
    "any": _without_all,
    "leading zeros": _without_leading_zeros,
    "zeros after a decimal point": _without_decimal_zeros,
    "capitals": str.casefold,
    "blanks or punctuation": _letters_and_digits,
}

"""Simpler forms of IDs, in which IDs that were written differently are the same.

Spreadsheets drop leading zeros, data frames turn 17 into 17.0, people change capitals
and separators. IDs are never matched in these forms: the alignment only counts how many
more would match, to say why tables do not meet. Of large tables a sample suffices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import compress
from typing import Literal

import numpy as np

from hyfdca.arrays import BoolArray

IdForm = Literal[
    "as it is",
    "any",
    "leading zeros",
    "zeros after a decimal point",
    "capitals",
    "blanks or punctuation",
]

_LEADING_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")  # of every number in an ID
_DECIMAL_ZEROS = re.compile(r"\.0+\Z")
_PUNCTUATION = re.compile(r"[\W_]+")


def _without_leading_zeros(text: str) -> str:
    return _LEADING_ZEROS.sub("", text)


def _without_decimal_zeros(text: str) -> str:
    return _DECIMAL_ZEROS.sub("", text)


def _letters_and_digits(text: str) -> str:
    return _PUNCTUATION.sub("", text)


def _without_all(text: str) -> str:
    """Return an ID in its simplest form.

    Decimal zeros are only recognised before punctuation is removed, and numbers are
    only complete afterwards.
    """
    plain = _letters_and_digits(_without_decimal_zeros(text))
    return _without_leading_zeros(plain).casefold()


# What each form ignores, and how; "any" ignores all that the others do.
ID_FORMS: dict[IdForm, Callable[[str], str]] = {
    "as it is": str,
    "any": _without_all,
    "leading zeros": _without_leading_zeros,
    "zeros after a decimal point": _without_decimal_zeros,
    "capitals": str.casefold,
    "blanks or punctuation": _letters_and_digits,
}


_CHUNK = 1 << 16  # IDs that are looked at together


def sampled(ids: Sequence[str], every: int) -> Iterator[str]:
    """Return about one ID in ``every``; an ID and all its forms are in it, or none.

    The choice depends only on what no form changes: on digits other than zero and on
    letters, whatever their case. It is the same at all organisations.
    """
    if every == 1:
        yield from ids
        return
    for start in range(0, len(ids), _CHUNK):
        chunk = ids[start : start + _CHUNK]
        yield from compress(chunk, _is_chosen(chunk, every))


def _is_chosen(ids: Sequence[str], every: int) -> BoolArray:
    # All in one string: an array of texts would pad each to the longest of them.
    text = "".join(ids).encode("utf-32-le", errors="surrogatepass")
    codes = np.frombuffer(text, np.dtype("<u4"))
    weights = _WEIGHTS[np.minimum(codes, len(_WEIGHTS) - 1)]
    totals = np.concatenate([[np.uint64(0)], np.cumsum(weights, dtype=np.uint64)])
    ends = np.cumsum([0, *map(len, ids)])
    sums = np.diff(totals[ends])
    return np.asarray((sums >> np.uint64(48)) % np.uint64(every) == 0)


def _weight(code: int) -> int:
    """Return a random number for each letter and digit, and 0 for what forms ignore."""
    character = chr(code).casefold()
    if code >= 128 or character == "0" or not character.isalnum():
        return 0
    digest = blake2b(character.encode(), digest_size=8, person=b"hyfdca sample")
    return int.from_bytes(digest.digest(), "little")


_WEIGHTS = np.array([_weight(code) for code in range(129)], dtype=np.uint64)

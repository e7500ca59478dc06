"""Simpler forms of IDs, in which differently written IDs become the same.

Spreadsheets drop leading zeros, data frames turn 17 into 17.0, people change capitals
and separators. IDs are never matched in these forms: the alignment only counts how many
more would match, to explain why tables do not match. A sample of large tables suffices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Literal

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


_PERSON = b"hyfdca id sample"
# What no form changes, once capitals are gone.
_KEPT = b"123456789abcdefghijklmnopqrstuvwxyz"
_IGNORED = bytes(set(range(128)) - set(_KEPT))


def sampled(ids: Sequence[str], every: int, key: bytes) -> Iterator[str]:
    """Return about one ID in ``every``; all forms of an ID are in the sample, or none.

    The choice depends only on what no form changes: on digits other than zero and on
    letters, whatever their case. It is the same at all organisations, and needs their
    key: whoever could repeat it would know an ID by the samples that it is in.
    """
    # Copying the keyed state saves one block of hashing per ID.
    copy = blake2b(key=key, digest_size=8, person=_PERSON).copy
    for text in ids:
        core = text.casefold().encode("ascii", errors="ignore")
        core = core.translate(None, _IGNORED)
        state = copy()
        state.update(core)
        if not core or int.from_bytes(state.digest(), "little") % every == 0:
            yield text

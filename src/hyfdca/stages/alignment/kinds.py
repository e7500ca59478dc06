"""The kinds of columns, which organisations that share a column must agree on."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from hyfdca.arrays import ByteArray
from hyfdca.data.tables import KINDS, Kind
from hyfdca.holdings.axis import Axis
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.stages.alignment.checks import AlignmentError

BLANK = KINDS.index("blank")
CATEGORY = KINDS.index("category")

_WORDS: dict[Kind, str] = {
    "number": "numbers",
    "boolean": "true and false",
    "date": "dates",
    "category": "text",
    "blank": "blanks",
}
# Kinds with the same entry fit together: true and false are 1 and 0.
_LIKE = np.array([KINDS.index("number" if k == "boolean" else k) for k in KINDS])


def pack_kinds(kinds: Sequence[Kind]) -> memoryview | None:
    """Return kinds as bytes, one each; None if all are numbers."""
    return memoryview(bytes(map(KINDS.index, kinds))) if kinds else None


def unpack_kinds(payload: memoryview | None, size: int) -> ByteArray:
    """Return the kinds of ``size`` columns, as places in ``KINDS``."""
    if payload is None:
        return np.zeros(size, np.uint8)
    kinds = np.frombuffer(payload, np.uint8)
    if len(kinds) != size or kinds.max(initial=0) >= len(KINDS):
        raise RemoteProtocolError("the kinds of its columns are invalid")
    return kinds


def agreed_kinds(
    names: Sequence[str],
    features: Sequence[str],
    columns: Axis,
    kinds: Sequence[ByteArray],
) -> ByteArray:
    """Return the kind of every column; refuse those on which clients disagree.

    Parameters
    ----------
    names : sequence of str
        The clients.
    features : sequence of str
        The columns, in the order of their axis.
    kinds : sequence of arrays (columns held,)
        By client, in the order of the axis.
    """
    agreed = np.full(columns.n_items, BLANK, np.uint8)
    first = np.full(columns.n_items, -1)  # whose kind it is
    for client, (items, own) in enumerate(zip(columns.items, kinds, strict=True)):
        known = agreed[items]
        is_same = (_LIKE[known] == _LIKE[own]) | (known == BLANK) | (own == BLANK)
        if not is_same.all():
            place = int(np.argmin(is_same))
            other = names[first[items[place]]], KINDS[known[place]]
            mine = names[client], KINDS[own[place]]
            raise _disagreement(features[items[place]], other, mine)
        is_new = (known == BLANK) & (own != BLANK)
        first[items[is_new]] = client
        agreed[items[is_new]] = own[is_new]
    return agreed


def check_categorical(categorical: Sequence[str], features: Sequence[str]) -> None:
    """Refuse a category of the study that is not a column of anybody."""
    known = set(features) if categorical else set()
    unknown = [name for name in categorical if name not in known]
    if unknown:
        raise AlignmentError(
            f"The study's categorical names {unknown[0]!r}, which is a feature of no "
            "organisation; correct it in the study file."
        )


def _disagreement(
    column: str, one: tuple[str, Kind], other: tuple[str, Kind]
) -> AlignmentError:
    listed = f"[{json.dumps(column, ensure_ascii=False)}]"
    return AlignmentError(
        f"Column {column!r} has {_WORDS[one[1]]} at {one[0]!r} but {_WORDS[other[1]]} "
        f"at {other[0]!r}; set categorical = {listed} in the study file if it is a "
        f"category, or leave it out with ignore = {listed}, or correct it."
    )

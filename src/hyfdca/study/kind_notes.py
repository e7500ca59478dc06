"""Sentences about columns that are not numbers."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from hyfdca.data.tables import Kind, listed
from hyfdca.errors import counted
from hyfdca.model.categories import OTHER, shown_level
from hyfdca.model.file import CategoryEntry
from hyfdca.stages.levels.features import Levels


def kind_word(kind: Kind, origin: datetime.date) -> str:
    """Describe a kind of column, and how it is used."""
    words: dict[Kind, str] = {
        "number": "number",
        "boolean": "true or false, as 1 or 0",
        "date": f"date, as days since {origin}",
        "category": "category, one feature per level",
        "blank": "blank",
    }
    return words[kind]


def kind_notes(
    levels: Levels, origin: datetime.date, names: Sequence[str]
) -> tuple[str, ...]:
    """Return a sentence about each kind of column, and each category.

    Parameters
    ----------
    names : sequence of str
        The organisations, by rank.
    """
    notes = []
    if booleans := levels.columns.named("boolean"):
        notes.append(f"True and false become 1 and 0: {listed(booleans)}.")
    if dates := levels.columns.named("date"):
        notes.append(f"Dates become days since {origin}: {listed(dates)}.")
    if blanks := levels.columns.named("blank"):
        notes.append(f"No cell has a value, so the weight is 0: {listed(blanks)}.")
    widths = levels.widths[levels.columns.is_category].tolist()
    each = zip(levels.entries.items(), widths, strict=True)
    notes += [_category(name, entry, width) for (name, entry), width in each]
    notes += [
        f"The levels {code!r} and {bare!r} of {name!r} differ only in leading zeros; "
        "if they are one, an organisation may have saved codes as numbers: write them "
        "alike, as text."
        for name, entry in levels.entries.items()
        for code, bare in _without_zeros(entry)
    ]
    for name, (one, other) in levels.strangers.items():
        notes.append(
            f"{names[one]} and {names[other]} have no level of {name!r} in common; if "
            "they mean the same, write them alike."
        )
    return tuple(notes)


def _without_zeros(entry: CategoryEntry) -> list[tuple[str, str]]:
    """Return the first level that also occurs without its leading zeros, if any."""
    known = {*(entry.levels or ()), entry.reference or ""}
    codes = sorted(code for code in known if code.isdecimal() and code[0] == "0")
    pairs = ((code, str(int(code))) for code in codes)
    return [pair for pair in pairs if pair[1] != pair[0] and pair[1] in known][:1]


def _category(column: str, entry: CategoryEntry, width: int) -> str:
    what = f"The category {column!r} has {counted(width, 'feature')}"
    if entry.levels is None:
        return f"{what}; the names of its levels are not released."
    if not width:
        return f"{what}: it has a single level that is not rare, or none."
    names = [*map(shown_level, entry.levels), *[OTHER] * entry.has_other]
    reference = shown_level(entry.reference or "")
    return f"{what}: {listed(names)}, compared with {listed([reference])}."

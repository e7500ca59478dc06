"""The features of a model's categories, by name, and how a table becomes features."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.data.expansion import NOWHERE, Expansion
from hyfdca.model.file import CategoryEntry

OTHER, MISSING = "other", "missing"


def level_features(column: str, entry: CategoryEntry, width: int) -> list[str]:
    """Return the names of a column's features: ``ward=ICU``, or ``ward=#1`` if hidden.

    Parameters
    ----------
    width : int
        The number of features.
    """
    if entry.levels is None:
        return [f"{column}=#{number}" for number in range(1, width + 1)]
    shown = [shown_level(level) for level in entry.levels]
    return [f"{column}={name}" for name in [*shown, *[OTHER] * entry.has_other]]


def shown_level(level: str) -> str:
    """Return a level as it appears in the name of its feature.

    Quotation marks distinguish a level called "other" from the feature for all others.
    """
    is_taken = level in (OTHER, MISSING) or level.startswith('"')
    return json.dumps(level, ensure_ascii=False) if is_taken else level or MISSING


def width_of(entry: CategoryEntry) -> int:
    """Return how many features a column with released levels has."""
    return len(entry.levels or ()) + entry.has_other


def columns_of(
    features: Sequence[str], categories: Mapping[str, CategoryEntry]
) -> tuple[str, ...]:
    """Return the columns from which the features are made, in their order."""
    if not categories:
        return tuple(features)
    column_of = {
        feature: column
        for column, entry in categories.items()
        for feature in level_features(column, entry, width_of(entry))
    }
    return tuple(dict.fromkeys(column_of.get(name, name) for name in features))


def features_of(
    columns: Sequence[str], categories: Mapping[str, CategoryEntry]
) -> Iterator[str]:
    """Return the features that are made from columns, in their order."""
    for column in columns:
        entry = categories.get(column)
        if entry is None:
            yield column
        else:
            yield from level_features(column, entry, width_of(entry))


def places_of(entry: CategoryEntry, levels: Sequence[str]) -> IntArray:
    """Return the place of each code of a table's column; code 0 is a blank cell.

    A level that the model does not name is in the feature for others, or nowhere.
    """
    named = entry.levels or ()
    place = {level: number for number, level in enumerate(named)}
    if entry.reference is not None:
        place[entry.reference] = NOWHERE
    others = len(named) if entry.has_other else NOWHERE
    return np.array([place.get(level, others) for level in ("", *levels)], np.int64)


def is_unknown(entry: CategoryEntry, levels: Sequence[str]) -> BoolArray:
    """Return whether the model does not name the level of each code, from 0."""
    known = {entry.reference, *(entry.levels or ())}
    return np.array([level not in known for level in ("", *levels)])


def model_expansion(
    columns: Sequence[str],
    categories: Mapping[str, CategoryEntry],
    levels: Mapping[str, Sequence[str]],
) -> Expansion:
    """Return how some columns of a table become features of a model.

    Parameters
    ----------
    levels : mapping of str to sequence of str
        The levels of the table, by column that is a category.
    """
    widths = [width_of(categories[c]) if c in categories else 1 for c in columns]
    places = {
        number: places_of(categories[column], levels[column])
        for number, column in enumerate(columns)
        if column in categories
    }
    return Expansion(np.array(widths, np.int64), places)

"""Checks a client's own table, before others have seen anything of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from hyfdca.data.labels import ClassNames, class_names, encode_numbers, is_fraction
from hyfdca.data.tables import LONGEST_NAME, Table, bare_name, parsed_number
from hyfdca.data.target_columns import known_labels
from hyfdca.data.words import NO_LABELS, are_dates, looks_like_number
from hyfdca.stages.alignment import messages as m

_LARGEST_LABEL = 1e50  # sums and squares of these stay finite


def classes_of(table: Table, settings: m.AlignmentSettings) -> ClassNames:
    """Return the classes of a client's labels."""
    if settings.task == "regression" or table.labels is None:
        return ClassNames(())
    return class_names(known_labels(table), settings.positive)


def other_classes_of(
    table: Table, settings: m.AlignmentSettings
) -> Sequence[str] | None:
    """Return a client's classes but the positive one; None if they are not compared.

    Labels with many values cannot be 0 and 1 for another client's no and yes.
    """
    is_known = settings.task == "classification" and table.labels is not None
    if settings.positive is None or not is_known:
        return None
    others = sorted(set(known_labels(table)) - {settings.positive})
    return others if len(others) <= m.MOST_COMPARED_CLASSES else None


def own_refusal(table: Table, settings: m.AlignmentSettings) -> m.Refused | None:
    """Return what is wrong with a client's own table, regardless of other clients."""
    return refusal_of(table, classes_of(table, settings), settings)


def refusal_of(
    table: Table, classes: ClassNames, settings: m.AlignmentSettings
) -> m.Refused | None:
    """Return what is wrong with a client's own names and labels, if anything."""
    levels = chain.from_iterable(table.levels.values())
    names = (*table.features, *classes.names, *levels)
    n_long = sum(not 0 < len(name) <= LONGEST_NAME for name in names)
    if n_long:
        return m.Refused("long names", n_long)
    if len(classes.names) > settings.n_classes_allowed:
        return _too_many(table, classes)
    if settings.max_classes is None and (n_odd := _n_blank_words(table, settings)):
        return m.Refused("blank words", n_odd)
    is_open = settings.max_classes is None and settings.positive is None
    if is_open and any(map(is_fraction, classes.names)):
        n_rows = sum(map(is_fraction, known_labels(table)))
        return m.Refused("fractions", n_rows)
    if settings.task == "regression":
        numbers, _ = encode_numbers(known_labels(table))
        n_bad = int(np.sum(~(np.abs(numbers) <= _LARGEST_LABEL)))
        return _no_numbers(table, n_bad) if n_bad else None
    n_twins = _n_twins(table, settings)
    return m.Refused("spelling", n_twins) if n_twins else None


def _too_many(table: Table, classes: ClassNames) -> m.Refused:
    if are_dates(classes.names):
        return m.Refused("dates", len(known_labels(table)))
    return m.Refused("classes", len(classes.names))


def _no_numbers(table: Table, n_bad: int) -> m.Refused:
    labels = known_labels(table)
    if are_dates(labels):
        return m.Refused("dates", n_bad)
    odd = [text for text in labels if parsed_number(text) is None]
    is_written = bool(odd) and all(map(looks_like_number, odd))
    return m.Refused("signs" if is_written else "no numbers", n_bad)


def _n_twins(table: Table, settings: m.AlignmentSettings) -> int:
    """Return how many labels equal the positive one except for capitals or blanks."""
    positive = settings.positive
    if positive is None:
        return 0
    bare, counts = bare_name(positive), Counter(known_labels(table))
    twins = (x for x in counts if x != positive and bare_name(x) == bare)
    return sum(counts[label] for label in twins)


def _n_blank_words(table: Table, settings: m.AlignmentSettings) -> int:
    """Return how many labels mean "no label", beside two classes or more."""
    if settings.task == "regression":
        return 0
    counts = Counter(known_labels(table))
    odd = {label for label in counts if label.casefold() in NO_LABELS}
    return sum(counts[label] for label in odd) if len(counts) > len(odd) + 1 else 0

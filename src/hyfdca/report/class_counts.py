"""How many held-out rows each class has, derived from released numbers.

A result does not list these counts. Observed shares by bin and the rates of correct
classification give them, and must agree: with weights of rows they usually do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyfdca.report.result_files import Evaluation, Scores

_NEAR = 0.05  # to a whole number of rows; sealed sums are rounded
_SAME = 1e-4  # of shares


def class_counts(found: Evaluation, classes: Sequence[str]) -> dict[str, int] | None:
    """Return the rows of each class; None where the numbers do not determine them.

    Weights of rows must be 1.
    """
    n_rows = found.n_rows
    if not n_rows or found.accuracy is None:
        return None
    if found.classes:
        counts = {name: _by_bins(own, n_rows) for name, own in found.classes.items()}
        known = {name: own for name, own in counts.items() if own is not None}
        is_all = len(known) == len(counts) and sum(known.values()) == n_rows
        return known if is_all else None
    n_second = _of_two(found, n_rows) if len(classes) == 2 else None
    if n_second is None:
        return None
    return {classes[0]: n_rows - n_second, classes[1]: n_second}


def _of_two(found: Evaluation, n_rows: int) -> int | None:
    """Return the rows of the second class, if all three shares agree with it."""
    accuracy, of_second, of_first = (
        found.accuracy,
        found.sensitivity,
        found.specificity,
    )
    if accuracy is None or of_second is None or of_first is None:
        return None
    n_second = _by_bins(found, n_rows)
    if n_second is None and abs(of_second - of_first) > _SAME:
        n_second = _whole(n_rows * (accuracy - of_first) / (of_second - of_first))
    if n_second is None or not 0 <= n_second <= n_rows:
        return None
    n_first = n_rows - n_second
    right = [_whole(of_second * n_second), _whole(of_first * n_first)]
    expected = (of_second * n_second + of_first * n_first) / n_rows
    is_sound = None not in right and abs(expected - accuracy) < _SAME
    return n_second if is_sound else None


def _by_bins(found: Scores, n_rows: int) -> int | None:
    """Return the rows of a class, if every bin reveals its number of rows."""
    bins = found.calibration.bins if found.calibration is not None else ()
    if sum(own.n_rows for own in bins) != n_rows:
        return None  # some bins may be withheld
    counts = [_whole(own.observed * own.n_rows) for own in bins]
    known = [own for own in counts if own is not None]
    return sum(known) if len(known) == len(counts) else None


def _whole(value: float) -> int | None:
    return round(value) if abs(value - round(value)) < _NEAR else None

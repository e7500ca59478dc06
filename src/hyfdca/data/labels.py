"""Labels as text and as numbers: a task's classes and a client's own labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.data.tables import parsed_number

Task = Literal["classification", "regression"]

# All labels but the positive one, if there are several; the second if that is "rest".
REST, NOT_REST = "rest", "not rest"


@dataclass(frozen=True)
class ClassNames:
    """The classes of some labels, as far as others need to know them.

    Parameters
    ----------
    names : tuple of str
        All classes; with a positive label, that one and at most one other.
    has_rest : bool
        Whether there are several classes besides the positive one; they stay unnamed.
    """

    names: tuple[str, ...]
    has_rest: bool = False


def class_names(labels: Iterable[str], positive: str | None) -> ClassNames:
    """Return the classes of one client's labels."""
    found = set(labels)
    if positive is None or len(found - {positive}) < 2:
        return ClassNames(tuple(sorted(found)))
    return ClassNames(tuple(found & {positive}), has_rest=True)


def common_classes(own: Iterable[ClassNames], positive: str | None) -> tuple[str, ...]:
    """Return the classes of all clients in order; numbers sort numerically.

    A positive label comes last, after the other class or the rest. There are fewer
    than two classes if there are no others, or if nobody has the positive label.
    """
    own = list(own)
    found = sorted({name for each in own for name in each.names}, key=_as_sortable)
    if positive is None:
        return tuple(found)
    others = [name for name in found if name != positive]
    if len(others) > 1 or any(each.has_rest for each in own):
        others = [NOT_REST if positive == REST else REST]
    return (*others, *(name for name in found if name == positive))


def n_outputs(classes: Sequence[str]) -> int:
    """Return the number of weight columns: one per class if over two, else one."""
    return len(classes) if len(classes) > 2 else 1


def class_numbers(
    labels: Sequence[str], classes: Sequence[str], positive: str | None
) -> IntArray:
    """Return the place of each label among the classes; -1 if it is not a class.

    With a positive label, the second class, all other labels are the first.
    """
    if positive is not None:
        return np.fromiter((x == positive for x in labels), np.int64, len(labels))
    place = {name: number for number, name in enumerate(classes)}
    return np.fromiter((place.get(x, -1) for x in labels), np.int64, len(labels))


def signs_of(numbers: IntArray, n_classes: int) -> FloatArray:
    """Return 1 for a label's own class and -1 for others, (n, 1) or (n, classes)."""
    targets = range(n_classes) if n_classes > 2 else range(1, n_classes)
    return np.column_stack([np.where(numbers == c, 1.0, -1.0) for c in targets])


def encode_numbers(labels: Sequence[str]) -> tuple[FloatArray, int]:
    """Return labels as numbers, (n, 1), and how many are not finite numbers."""
    values = np.array([_number(label) for label in labels], dtype=np.float64)
    return values.reshape(-1, 1), int(np.sum(~np.isfinite(values)))


def is_fraction(label: str) -> bool:
    """Return whether a label is a number but not a whole one."""
    number = _number(label)
    return bool(np.isfinite(number)) and not number.is_integer()


def as_classes(
    labels: Sequence[str], classes: Sequence[str], positive: str | None
) -> NDArray[Any]:
    """Return labels in the names of a model's classes; unknown ones stay as they are.

    With a positive label, all other labels are the first class.
    """
    named = np.array(labels, dtype=object)
    if positive is not None:
        named[named != positive] = classes[0]
    return named


def r_squared(
    values: FloatArray, predicted: FloatArray, weights: FloatArray | None = None
) -> float | None:
    """Return 1 minus the squared error relative to that of the values' mean.

    None if all values are equal.
    """
    counts = 1.0 if weights is None else weights
    with np.errstate(over="ignore", invalid="ignore"):  # for huge numbers
        mean = np.average(values, weights=weights)
        spread = float(np.sum(counts * (values - mean) ** 2))
        left = float(np.sum(counts * (values - predicted) ** 2))
    return 1.0 - left / spread if 0.0 < spread < np.inf else None


def _number(text: str) -> float:
    number = parsed_number(text)
    return np.nan if number is None else number


def _as_sortable(text: str) -> tuple[int, float, str]:
    number = _number(text)
    return (1, 0.0, text) if np.isnan(number) else (0, number, text)


_FLAT = 700.0  # beyond this the exponential overflows and the probability is 0 or 1


def chosen_classes(margins: FloatArray) -> IntArray:
    """Return the number of each sample's class.

    Parameters
    ----------
    margins : array (n_samples, n_outputs)
        One output for two classes: positive margins are class 1, a margin of exactly
        zero is class 0. Otherwise one per class; the largest wins.
    """
    if margins.shape[1] == 1:
        return (margins[:, 0] > 0).astype(np.int64)
    return np.asarray(margins.argmax(axis=1), dtype=np.int64)


def class_probabilities(margins: FloatArray) -> FloatArray:
    """Return the logistic loss's probability of each class, (n_samples, n_classes)."""
    positive = 1.0 / (1.0 + np.exp(-np.clip(margins, -_FLAT, _FLAT)))
    if positive.shape[1] == 1:
        return np.hstack([1.0 - positive, positive])
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))

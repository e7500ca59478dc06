"""How good predictions are, by the labels of the file that they were made for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.data.labels import as_classes, encode_numbers, r_squared
from hyfdca.data.tables import Table, bare_name, listed
from hyfdca.errors import StudyError, counted
from hyfdca.model.model import Model


@dataclass(frozen=True)
class PredictionScore:
    """The quality of predictions, over the rows that have a label.

    Parameters
    ----------
    accuracy : float or None
        Share of rows classified correctly; None for regression, and if labels are
        written in another way than those of the model, or none is one of its classes.
    r2 : float or None
        1 minus the squared error relative to that of the labels' mean; None for classes
        and if all labels are equal.
    absolute_error : float or None
        Mean absolute error; None for classes.
    n_unknown : int
        Rows whose label is not one of the model's classes; they count as wrong.
    note : str
        Why there is no accuracy; may be empty.
    """

    n_labelled: int
    accuracy: float | None = None
    r2: float | None = None
    absolute_error: float | None = None
    n_unknown: int = 0
    note: str = ""


def score_of(
    model: Model, labels: Sequence[str], predicted: NDArray[Any]
) -> PredictionScore | None:
    """Compare predictions with labels; None if no row has one.

    Parameters
    ----------
    labels : sequence of str
        "" for rows without a label.

    Raises
    ------
    StudyError
        If the model predicts numbers and a label is not a number.
    """
    known = np.array(labels, dtype=object)
    has_label = known != ""
    if not has_label.any():
        return None
    known, predicted = known[has_label], predicted[has_label]
    if model.task == "regression":
        return _number_score(known.tolist(), predicted)
    return _class_score(model, known.tolist(), predicted)


def _class_score(
    model: Model, given: list[str], predicted: NDArray[Any]
) -> PredictionScore:
    classes, positive = model.classes, model.file.positive_label
    labels = as_classes(given, classes, positive)
    known = set(classes)
    n_unknown = sum(label not in known for label in labels)
    if _is_written_otherwise(set(given), classes, positive):
        has = f"classes are {listed(classes)}"
        if positive is not None:
            has = f"positive label is {positive!r}"
        found = listed(sorted(set(given) - {positive, *classes}))
        note = (
            f"No accuracy is shown: the model's {has}, but the labels are {found}; "
            "write them as in training."
        )
        return PredictionScore(len(given), n_unknown=n_unknown, note=note)
    accuracy = float(np.mean(labels == predicted))
    return PredictionScore(len(labels), accuracy=accuracy, n_unknown=n_unknown)


def _is_written_otherwise(
    labels: set[str], classes: Sequence[str], positive: str | None
) -> bool:
    """Return whether a label may be another text for a class of the model.

    With a positive label, all others mean the other class. So 1 and 0 would all do.
    """
    known = set(classes) if positive is None else {positive}
    twins = {bare_name(name) for name in known}
    if any(bare_name(label) in twins for label in labels - known):
        return True
    return known.isdisjoint(labels) and not labels <= set(classes)


def check_labels(model: Model, table: Table, remedy: str) -> None:
    """Refuse labels that predictions of a table's rows cannot be compared with.

    Parameters
    ----------
    remedy : str
        What to do instead of correcting them.

    Raises
    ------
    StudyError
    """
    labels = [label for label in table.labels or () if label]
    if model.task == "regression" and labels:
        _refuse_words(encode_numbers(labels)[1], remedy)


def _number_score(labels: list[str], predicted: FloatArray) -> PredictionScore:
    values, n_bad = encode_numbers(labels)
    _refuse_words(n_bad, "name another column with --label-column")
    with np.errstate(over="ignore", invalid="ignore"):  # for huge labels
        absolute_error = float(np.mean(np.abs(values[:, 0] - predicted)))
    r2 = r_squared(values[:, 0], predicted)
    return PredictionScore(len(labels), r2=r2, absolute_error=absolute_error)


def _refuse_words(n_bad: int, remedy: str) -> None:
    if n_bad:
        raise StudyError(
            f"{counted(n_bad, 'row has', 'rows have')} a label that is not a number, "
            "but the model predicts numbers; correct them (1234.50, not $1,234.50), or "
            f"{remedy}."
        )

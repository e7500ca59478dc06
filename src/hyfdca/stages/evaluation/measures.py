"""What a label holder adds up over its own rows, and the results of all sums.

Rows have weights, 1 unless the study has a column of them. A class's *score* is the
logarithm of its odds, where the model has probabilities, and otherwise its margin: both
order rows as predictions do. Two classes have one score, that of the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.data.labels import chosen_classes, class_probabilities
from hyfdca.maths.losses import Loss, make_loss


@dataclass(frozen=True, repr=False)
class ScoredRows:
    """The rows whose labels a client holds, with their margins.

    Parameters
    ----------
    margins : array (rows, n_outputs)
        Offsets included.
    labels : array (rows,)
        Numbers of classes, or targets of a regression.
    weights : array (rows,)
    n_classes : int
        0 for a regression.
    """

    margins: FloatArray
    labels: FloatArray
    weights: FloatArray
    n_classes: int
    loss: Loss

    @property
    def has_probabilities(self) -> bool:
        """Whether margins yield probabilities."""
        return self.loss.name == "logistic"

    @cached_property
    def classes(self) -> IntArray:
        """The number of each row's class."""
        return self.labels.astype(np.int64)

    @cached_property
    def probabilities(self) -> FloatArray:
        """The probability of each class, (rows, classes)."""
        return class_probabilities(self.margins)

    @cached_property
    def scores(self) -> FloatArray:
        """The scores of classes, (rows, n_outputs)."""
        if not self.has_probabilities or self.margins.shape[1] == 1:
            return self.margins
        logs = -np.logaddexp(0.0, -self.margins)  # of each class against the rest
        others = [
            np.logaddexp.reduce(np.delete(logs, k, axis=1), axis=1)
            for k in range(self.n_classes)
        ]
        return np.asarray(logs - np.column_stack(others))

    @property
    def is_positive(self) -> BoolArray:
        """Whether each row belongs to each score's class, (rows, n_outputs)."""
        is_single = self.margins.shape[1] == 1
        numbers = np.array([1]) if is_single else np.arange(self.n_classes)
        return np.asarray(np.equal(self.classes[:, None], numbers))

    def sums(self, centre: float) -> list[FloatArray]:
        """Return this client's part of all measures, as vectors of similar numbers."""
        n_rows = np.array([float(len(self.labels))])
        if not self.n_classes:
            return [n_rows, *self._number_sums(centre)]
        return [n_rows, *self._class_sums()]

    def _class_sums(self) -> list[FloatArray]:
        predicted, classes = chosen_classes(self.margins), self.classes
        is_right = predicted == classes
        by_class = [
            self._by_class(classes, self.weights),
            self._by_class(classes, self.weights * is_right),
            self._by_class(predicted, self.weights),
        ]
        sums = [np.concatenate(by_class)]
        if not self.has_probabilities:
            return sums
        distance = self.probabilities - np.eye(self.n_classes)[classes]
        squares = np.sum(distance**2, axis=1) / (2 if self.n_classes == 2 else 1)
        losses = _log_losses(self.scores, classes)
        return [*sums, *(np.array([self.weights @ own]) for own in (losses, squares))]

    def _by_class(self, classes: IntArray, values: FloatArray) -> FloatArray:
        sums = np.bincount(classes, values, minlength=self.n_classes)
        return sums.astype(np.float64)

    def _number_sums(self, centre: float) -> list[FloatArray]:
        labels, weights = self.labels - centre, self.weights
        errors = self.labels - self.margins[:, 0]
        each = [np.ones_like(labels), labels, labels**2, errors**2, np.abs(errors)]
        if self.loss.name == "pinball":
            quantile = make_loss("pinball", self.loss.parameter)
            each.append(quantile.value(self.margins[:, 0], self.labels))
        return [np.array([weights @ own]) for own in each]


def widths_of(n_classes: int, loss: Loss) -> list[int]:
    """Return how many numbers each vector of measures has."""
    if not n_classes:
        return [1] * (7 if loss.name == "pinball" else 6)
    return [1, 3 * n_classes, *([1, 1] if loss.name == "logistic" else [])]


def _log_losses(scores: FloatArray, classes: IntArray) -> FloatArray:
    """Return -log p of each row's class, from the logarithms of odds."""
    if scores.shape[1] == 1:
        own = np.where(classes == 1, scores[:, 0], -scores[:, 0])
    else:
        own = scores[np.arange(len(classes)), classes]
    return np.asarray(np.logaddexp(0.0, -own))


def class_measures(totals: list[FloatArray], n_classes: int) -> dict[str, Any]:
    """Return the measures of a classifier from all clients' sums."""
    weights, right, _ = totals[1].reshape(3, n_classes)
    total = weights.sum()
    measures: dict[str, Any] = {
        "n_rows": round(totals[0][0]),
        "accuracy": _share(right.sum(), total),
        "log_loss": None,
        "brier": None,
    }
    if len(totals) > 2:
        measures["log_loss"] = float(totals[2][0] / total)
        measures["brier"] = float(totals[3][0] / total)
    return measures


def rates(totals: list[FloatArray], n_classes: int) -> list[dict[str, float]]:
    """Return sensitivity and specificity of each class against the others."""
    weights, right, predicted = totals[1].reshape(3, n_classes)
    total, is_wrong = weights.sum(), predicted - right
    return [
        {
            "sensitivity": _share(right[k], weights[k]),
            "specificity": 1.0 - _share(is_wrong[k], total - weights[k]),
        }
        for k in range(n_classes)
    ]


def number_measures(totals: list[FloatArray]) -> dict[str, Any]:
    """Return the measures of a regression from all clients' sums."""
    numbers = (float(own[0]) for own in totals)
    n_rows, total, linear, squares, errors, sizes, *rest = numbers
    spread = squares - linear**2 / total
    return {
        "n_rows": round(n_rows),
        "r2": 1.0 - errors / spread if spread > 0.0 else None,
        "mae": sizes / total,
        "rmse": float(np.sqrt(errors / total)),
        "quantile_loss": rest[0] / total if rest else None,
    }


def _share(part: float, whole: float) -> float:
    return float(min(max(part / whole, 0.0), 1.0))

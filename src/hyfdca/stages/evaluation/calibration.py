"""Calibration: bins of probabilities, and the slope and intercept of the scores.

Slope b and intercept a are those of a logistic regression of the labels on the scores
s, without a penalty: 1 and 0 for a calibrated model. They are found by Newton's method
on two numbers per output, each step from sums over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.stages.evaluation.bins import DOWN, UP, Histogram
from hyfdca.stages.evaluation.measures import ScoredRows

N_TENTHS = 10
TENTH_SCORES = np.log(np.arange(1, 10) / np.arange(9, 0, -1))  # where p is 0.1 to 0.9

_CONVERGED = 1e-16  # a Newton decrement per row


def tenths_of(scores: FloatArray) -> IntArray:
    """Return the bin of each score among ten of equal width in probability."""
    return np.searchsorted(TENTH_SCORES, scores, side="left")


def joined_tenths(histogram: Histogram, least: int) -> IntArray:
    """Return the ends, in tenths, of bins that are known to hold enough rows.

    The counts prove that at least U(b) - D(a) rows lie between two edges: U counts rows
    whose run is below b, D those whose run begins below a.
    """
    places = np.searchsorted(histogram.edges, TENTH_SCORES, side="left") + 1
    places = np.concatenate([[0], places, [len(histogram.edges) + 1]])
    surely, perhaps = (histogram.rows_below(way)[places] for way in (UP, DOWN))
    ends, start = [], 0
    for end in range(1, N_TENTHS + 1):
        if surely[end] - perhaps[start] >= least:
            ends.append(end)
            start = end
    if not ends:
        return np.array([N_TENTHS])
    return np.array([*ends[:-1], N_TENTHS])


def bin_sums(rows: ScoredRows, ends: list[IntArray]) -> list[FloatArray]:
    """Return a client's counts by bin of all outputs, then weights, p and labels."""
    counts, sums = [], []
    for output, own in enumerate(ends):
        bins = np.searchsorted(own, tenths_of(rows.scores[:, output]), side="right")
        predicted = _probabilities(rows.scores[:, output])
        observed = rows.is_positive[:, output]
        counts.append(np.bincount(bins, minlength=len(own)))
        sums += [
            np.bincount(bins, rows.weights * values, len(own))
            for values in (1.0, predicted, observed)
        ]
    return [np.concatenate(own).astype(np.float64) for own in (counts, sums)]


def as_bins(
    ends: list[IntArray], counts: FloatArray, sums: FloatArray
) -> list[list[dict[str, Any]]]:
    """Return the result for each bin from all clients' sums, by output."""
    sizes = np.array([len(own) for own in ends])
    by_count = np.split(counts, np.cumsum(sizes)[:-1])
    by_sum = np.split(sums, np.cumsum(3 * sizes)[:-1])
    return [_bins(*own) for own in zip(ends, by_count, by_sum, strict=True)]


def _bins(ends: IntArray, counts: FloatArray, sums: FloatArray) -> list[dict[str, Any]]:
    starts = [0, *ends[:-1].tolist()]
    each = zip(starts, ends.tolist(), counts, *sums.reshape(3, -1), strict=True)
    return [
        {
            "low": low / N_TENTHS,
            "high": high / N_TENTHS,
            "n_rows": round(count),
            "predicted": float(predicted / weight),
            "observed": float(observed / weight),
        }
        for low, high, count, weight, predicted, observed in each
    ]


def _probabilities(scores: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-np.logaddexp(0.0, -scores)))


# Slope and intercept


def derivatives(rows: ScoredRows, points: FloatArray) -> list[FloatArray]:
    """Return the loss of a + b s, its gradient and its Hessian, each by output."""
    intercepts, slopes = points.T
    s = rows.scores
    margins, weights = intercepts + slopes * s, rows.weights[:, None]
    y = rows.is_positive
    p = _probabilities(margins)
    losses = np.logaddexp(0.0, np.where(y, -margins, margins))
    pull, curve = weights * (p - y), weights * p * (1.0 - p)
    each = (weights * losses, pull, pull * s, curve, curve * s, curve * s * s)
    return [own.sum(axis=0) for own in each]


def derivative_bounds(points: FloatArray, bound: float, weight: float) -> list[float]:
    """Return bounds on the sums over all rows, for scores up to a bound."""
    largest = float((np.abs(points) @ [1.0, bound]).max()) + 1.0
    reach = max(bound, 1.0)
    factors = (largest, 1.0, reach, 1.0, reach, reach**2)
    return [weight * factor for factor in factors]


@dataclass
class Recalibration:
    """Newton's method for one output; halves steps that do not lower the loss."""

    point: FloatArray = field(default_factory=lambda: np.zeros(2))
    is_over: bool = False
    found: FloatArray | None = None
    _best: FloatArray | None = None
    _loss: float = np.inf

    @property
    def line(self) -> tuple[float | None, float | None]:
        """Intercept and slope; None if they do not exist."""
        if self.found is None:
            return None, None
        return float(self.found[0]), float(self.found[1])

    def take(self, sums: FloatArray, weight: float) -> None:
        """Take the loss, gradient and Hessian at the point; choose the next one."""
        if self.is_over:
            return
        loss, *rest = sums
        if self._best is not None and loss > self._loss * (1 + 1e-12):
            self.point = (self.point + self._best) / 2.0
            return
        gradient = np.array(rest[:2])
        hessian = np.array([[rest[2], rest[3]], [rest[3], rest[4]]])
        if np.linalg.cond(hessian) > 1e13:  # all scores are equal, or classes are apart
            self.is_over = True
            return
        step = np.linalg.solve(hessian, gradient)
        self._best, self._loss = self.point, loss
        self.point = self.point - step
        if gradient @ step <= _CONVERGED * weight:
            self.is_over, self.found = True, self.point

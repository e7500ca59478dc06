"""AUC, Kolmogorov-Smirnov and ROC from bins of scores, each with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.stages.evaluation.bins import (
    DOWN,
    NEGATIVE,
    POSITIVE,
    UP,
    Histogram,
    as_histograms,
    shown_bins,
)
from hyfdca.stages.evaluation.measures import ScoredRows

FINER = 5  # parts of a bin that is divided
_MOST_DIVIDED = 200
_ROC_STEPS = 100
_ROUNDING = 1e-12  # of sums of many pairs
_ROUNDING_OF_RATES = 1e-9  # weights of rows are sealed on a grid


@dataclass(frozen=True)
class RocPoint:
    """The exact point of the ROC curve at the threshold of predictions."""

    sensitivity: float
    specificity: float

    @property
    def distance(self) -> float:
        """The distance between the classes' distributions there."""
        return abs(self.sensitivity + self.specificity - 1.0)

    @property
    def auc(self) -> tuple[float, float]:
        """The least and the largest AUC of a curve through the point.

        Pairs with rows on either side of the threshold are surely won, or surely lost.
        """
        true, false = self.sensitivity, 1.0 - self.specificity
        return true * (1.0 - false), 1.0 - (1.0 - true) * false


def curves(
    histogram: Histogram, within: FloatArray, point: RocPoint | None = None
) -> dict[str, Any]:
    """Return the intervals that the bins and a known point allow.

    Parameters
    ----------
    within : array (4,)
        The sums of ``pairs_within``, about pairs whose labels one client holds.
    point : RocPoint, optional
        A point that the ROC curve goes through.
    """
    low, auc, high = auc_interval(histogram, within)
    ks_low, ks_high = ks_interval(histogram)
    if point is not None:
        least, most = point.auc
        low = max(low, least - _ROUNDING_OF_RATES)
        high = max(min(high, most + _ROUNDING_OF_RATES), low)
        ks_low = min(max(ks_low, point.distance - _ROUNDING_OF_RATES), ks_high)
    return {
        "auc": min(max(auc, low), high),
        "auc_low": low,
        "auc_high": high,
        "ks_low": ks_low,
        "ks_high": ks_high,
        "roc": roc(histogram, point),
    }


def auc_interval(
    histogram: Histogram, within: FloatArray
) -> tuple[float, float, float]:
    """Return the least, a likely and the largest AUC.

    AUC is the share of pairs in which the positive row scores higher. Bins give the
    least and the most won pairs of all. For pairs within a client, the number that the
    client knows takes their place.
    """
    all_pairs = histogram.weights[:, DOWN].sum(axis=1).prod()
    known, *own = within
    every = won_pairs(histogram.weights)
    across = [found - mine for found, mine in zip(every, own, strict=True)]
    likely = _likely(across, known, own)
    low, auc, high = (
        float((known + won) / all_pairs) for won in (across[0], likely, across[2])
    )
    low, high = _within(low - _ROUNDING), _within(high + _ROUNDING)
    return low, min(max(auc, low), high), high


def _likely(across: list[float], known: float, own: list[float]) -> float:
    """Return the likely weight of won pairs across clients.

    Runs of a rare class span many bins, and what one assumes about rows within them
    moves AUC. Pairs within clients tell: their number is known, and so is its place
    between the least and the most that bins give. It is taken to be that of pairs
    across clients too.
    """
    least, _, most = own
    if most - least <= _ROUNDING * most:  # they say nothing
        return across[1]
    place = min(max((known - least) / (most - least), 0.0), 1.0)
    return across[0] + place * (across[2] - across[0])


def pairs_within(rows: ScoredRows, edges: list[FloatArray], least: int) -> FloatArray:
    """Return the weight of won pairs within a client, (outputs, 4).

    First the true weight, with ties counting half, then the weights that bins give.
    """
    _, shown = shown_bins(rows, edges, least)
    histograms = as_histograms(edges, shown, shown)
    return np.array(
        [
            [_exactly_won(rows, output), *won_pairs(own.weights)]
            for output, own in enumerate(histograms)
        ]
    )


def _exactly_won(rows: ScoredRows, output: int) -> float:
    scores, is_positive = rows.scores[:, output], rows.is_positive[:, output]
    order = np.argsort(scores[~is_positive])
    others = scores[~is_positive][order]
    below = np.concatenate([[0.0], np.cumsum(rows.weights[~is_positive][order])])
    own = scores[is_positive]
    each = [below[np.searchsorted(others, own, side)] for side in ("left", "right")]
    return float(rows.weights[is_positive] @ np.mean(each, axis=0))


def won_pairs(weights: FloatArray) -> tuple[float, float, float]:
    """Return the least, a possible and the largest weight of won pairs.

    Nothing is known about two rows in one bin: such pairs are lost, half won, or won.
    The one between them is that of runs with one half at either of their ends.
    """
    (negative_down, negative_up), (positive_down, positive_up) = weights
    negative, positive = weights.mean(axis=1)
    return (
        _sum_below(positive_down, negative_up),
        _sum_below(positive, negative) + 0.5 * float(positive @ negative),
        _sum_below(positive_up, negative_down) + float(positive_up @ negative_down),
    )


def _sum_below(positive: FloatArray, negative: FloatArray) -> float:
    """Return the weight of pairs whose negative row is in a lower bin."""
    below = np.concatenate([[0.0], np.cumsum(negative)[:-1]])
    return float(positive @ below)


def ks_interval(histogram: Histogram) -> tuple[float, float]:
    """Return bounds on the largest distance between the classes' distributions."""
    at_edges, in_bins = _distances(histogram)
    return _within(at_edges.max() - _ROUNDING), _within(in_bins.max() + _ROUNDING)


def _distances(histogram: Histogram) -> tuple[FloatArray, FloatArray]:
    """Return the least distance at each edge, and the largest within each bin."""
    least, most = _distributions(histogram)
    kinds = (NEGATIVE, POSITIVE)
    at_edges = [least[k] - most[1 - k] for k in kinds]
    # Within a bin, one class may come before the other.
    in_bins = [most[k][1:] - least[1 - k][:-1] for k in kinds]
    return np.max(at_edges, axis=0), np.max(in_bins, axis=0)


def finer_edges(histogram: Histogram) -> FloatArray:
    """Return edges that divide bins in which the largest distance may be.

    Bins of equal shares make AUC's interval narrow, but that of the distance is as
    wide as the one bin in which it is.
    """
    at_edges, in_bins = _distances(histogram)
    bins = np.flatnonzero(in_bins >= at_edges.max())
    edges = histogram.edges
    bins = bins[(bins > 0) & (bins < len(edges))][:_MOST_DIVIDED]
    steps = np.arange(1, FINER) / FINER
    below, widths = edges[bins - 1], edges[bins] - edges[bins - 1]
    return np.union1d(edges, below[:, None] + widths[:, None] * steps)


def roc(histogram: Histogram, point: RocPoint | None = None) -> list[dict[str, float]]:
    """Return bounds on the largest true positive rate at false positive rates."""
    least, most = _distributions(histogram)
    # Above an edge is positive; the last edge is that of the first bin.
    false_least, false_most = 1.0 - most[NEGATIVE], 1.0 - least[NEGATIVE]
    true_least, true_most = 1.0 - most[POSITIVE], 1.0 - least[POSITIVE]
    points = []
    for step in range(_ROC_STEPS + 1):
        rate = step / _ROC_STEPS
        surely = true_least[false_most <= rate + _ROUNDING]
        # A threshold within bin b is at least as strict as its lower edge.
        perhaps = true_most[:-1][false_least[1:] <= rate + _ROUNDING]
        low, high = surely.max(initial=0.0), perhaps.max(initial=0.0)
        points.append(_between(rate, low, high, point))
    return points


def _between(
    rate: float, low: float, high: float, point: RocPoint | None
) -> dict[str, float]:
    """Return a point of the curve's bounds; the curve rises from and to its point."""
    if point is not None:
        beyond = rate - (1.0 - point.specificity)
        if beyond > _ROUNDING_OF_RATES:
            low = max(low, point.sensitivity - _ROUNDING_OF_RATES)
        if beyond < -_ROUNDING_OF_RATES:
            high = min(high, point.sensitivity + _ROUNDING_OF_RATES)
    return {
        "false_positive_rate": rate,
        "true_positive_rate_low": _within(low),
        "true_positive_rate_high": _within(max(low, high)),
    }


def _distributions(histogram: Histogram) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return, by class, the least and the most rows that can be below each edge."""
    kinds = (NEGATIVE, POSITIVE)
    least = [histogram.below(kind, UP) for kind in kinds]
    most = [histogram.below(kind, DOWN) for kind in kinds]
    return least, most


def _within(value: float) -> float:
    return float(min(max(value, 0.0), 1.0))

"""AUC, Kolmogorov-Smirnov and ROC from bins of scores, each with its interval."""

from __future__ import annotations

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


def curves(histogram: Histogram, within: FloatArray) -> dict[str, Any]:
    """Return the intervals that the bins allow.

    Parameters
    ----------
    within : array (4,)
        What ``pairs_within`` says of pairs whose labels one client holds, summed.
    """
    low, auc, high = auc_interval(histogram, within)
    ks_low, ks_high = ks_interval(histogram)
    return {
        "auc": auc,
        "auc_low": low,
        "auc_high": high,
        "ks_low": ks_low,
        "ks_high": ks_high,
        "roc": roc(histogram),
    }


def auc_interval(
    histogram: Histogram, within: FloatArray
) -> tuple[float, float, float]:
    """Return the least, a likely and the largest AUC.

    AUC is the share of pairs in which the positive row scores higher. Bins say of all
    pairs how many are won at least and at most. Of pairs within a client, that is
    replaced by the number which the client knows.
    """
    all_pairs = histogram.weights[:, DOWN].sum(axis=1).prod()
    known, *from_bins = within
    low, likely, high = (
        float((found - own + known) / all_pairs)
        for found, own in zip(won_pairs(histogram.weights), from_bins, strict=True)
    )
    low, high = _within(low - _ROUNDING), _within(high + _ROUNDING)
    return low, min(max(likely, low), high), high


def pairs_within(rows: ScoredRows, edges: list[FloatArray], least: int) -> FloatArray:
    """Return the weight of won pairs within a client, (outputs, 4).

    First as it is, a tie counting half, then as its bins would have it.
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
    """Return the least, a likely and the largest weight of won pairs.

    Of two rows in one bin nothing is known: such pairs are lost, half won, or won. The
    likely number is that of runs with one half at either of their ends.
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


def roc(histogram: Histogram) -> list[dict[str, float]]:
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
        points.append(
            {
                "false_positive_rate": rate,
                "true_positive_rate_low": _within(surely.max(initial=0.0)),
                "true_positive_rate_high": _within(perhaps.max(initial=0.0)),
            }
        )
    return points


def _distributions(histogram: Histogram) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return by class the least and the most that can be below each edge."""
    kinds = (NEGATIVE, POSITIVE)
    least = [histogram.below(kind, UP) for kind in kinds]
    most = [histogram.below(kind, DOWN) for kind in kinds]
    return least, most


def _within(value: float) -> float:
    return float(min(max(value, 0.0), 1.0))

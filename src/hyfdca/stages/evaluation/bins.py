"""Counts scores in bins: the rows of each class that each label holder shows.

Theory of operation. A holder puts its own rows of a class in the order of their scores
and cuts them into *runs* of at least ``least`` rows. It shows each run twice, once with
all its rows in the lowest bin of the run ("down") and once in the highest ("up"). So in
every bin it shows no row, or at least ``least`` rows. The truth lies in between, which
bounds AUC, the Kolmogorov-Smirnov distance and the ROC curve from both sides. A class
of which a holder has fewer rows goes to the lowest and to the highest bin of all, where
it says nothing.

Bin b holds the scores s with edges[b - 1] < s <= edges[b].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.stages.evaluation.measures import ScoredRows

_MOST_EDGES = 2000
_STEEPNESS = 8.0  # of the first edges

DOWN, UP = 0, 1
NEGATIVE, POSITIVE = 0, 1


@dataclass(frozen=True)
class Histogram:
    """Rows by bin, as shown down and up, of the classes "negative" and "positive".

    Parameters
    ----------
    edges : array (n_bins - 1,)
    counts : array (2 classes, 2 ways, n_bins)
        Counts of rows.
    weights : array (2 classes, 2 ways, n_bins)
        Weights of the same rows; equal to the counts unless rows have weights.
    """

    edges: FloatArray
    counts: FloatArray
    weights: FloatArray

    def below(self, kind: int, way: int) -> FloatArray:
        """Return the share of a class below each edge, and the ends: 0 and 1."""
        own = self.weights[kind, way]
        return np.asarray(np.concatenate([[0.0], np.cumsum(own)]) / own.sum())

    def rows_below(self, way: int) -> FloatArray:
        """Return how many rows of both classes are below each edge, and the ends."""
        own = self.counts[:, way].sum(axis=0)
        return np.concatenate([[0.0], np.cumsum(own)])


def shown_bins(
    rows: ScoredRows, edges: list[FloatArray], least: int
) -> tuple[FloatArray, FloatArray]:
    """Return counts and weights of a client's rows, (all bins of all outputs,)."""
    counts, weights = [], []
    for output, own in enumerate(edges):
        bins = np.searchsorted(own, rows.scores[:, output], side="left")
        is_positive = rows.is_positive[:, output]
        for members in (~is_positive, is_positive):
            count, weight = _shown_class(
                rows.scores[members, output],
                bins[members],
                rows.weights[members],
                (len(own) + 1, least),
            )
            counts.append(count)
            weights.append(weight)
    return np.concatenate(counts), np.concatenate(weights)


def _shown_class(
    scores: FloatArray, bins: IntArray, weights: FloatArray, sizes: tuple[int, int]
) -> tuple[FloatArray, FloatArray]:
    """Return one class down and up, (2 n_bins,): counts and weights."""
    n_bins, least = sizes
    order = np.lexsort((bins, scores))
    bins, weights = bins[order], weights[order]
    runs = np.minimum(np.arange(len(bins)) // least, max(len(bins) // least - 1, 0))
    if len(bins) < least:
        lowest, highest = np.zeros_like(bins), np.full_like(bins, n_bins - 1)
    else:
        first = np.searchsorted(runs, runs, side="left")
        last = np.searchsorted(runs, runs, side="right") - 1
        lowest, highest = bins[first], bins[last]
    shown = [(np.bincount(w, minlength=n_bins), w) for w in (lowest, highest)]
    return (
        np.concatenate([count for count, _ in shown]).astype(np.float64),
        np.concatenate([np.bincount(w, weights, n_bins) for _, w in shown]),
    )


def as_histograms(
    edges: list[FloatArray], counts: FloatArray, weights: FloatArray
) -> list[Histogram]:
    """Return the sums of all clients' bins, by output."""
    sizes = [4 * (len(own) + 1) for own in edges]
    ends = np.cumsum(sizes)[:-1]
    each = zip(edges, np.split(counts, ends), np.split(weights, ends), strict=True)
    return [
        Histogram(own, count.reshape(2, 2, -1), weight.reshape(2, 2, -1))
        for own, count, weight in each
    ]


# Where bins end


def first_edges(bound: float, n_bins: int) -> FloatArray:
    """Return edges that are dense around 0, for scores with only a known bound.

    They are 1,500 times closer there than at the bound.
    """
    steps = np.linspace(-1.0, 1.0, n_bins + 1)[1:-1]
    return np.asarray(bound * np.sinh(_STEEPNESS * steps) / np.sinh(_STEEPNESS))


def is_even(histogram: Histogram, n_bins: int) -> bool:
    """Return whether no bin holds much more than its share of either class."""
    return bool(_masses(histogram).max() <= 2.0 / n_bins)


def even_edges(histogram: Histogram, bound: float, n_bins: int) -> FloatArray:
    """Return edges between which both classes together have about equal shares.

    Classes count alike, however many rows they have: p_b + n_b is then 2 / n_bins in
    every bin b, and the width of AUC's interval, sum p_b n_b, is at most 1 / n_bins.
    """
    nodes = np.concatenate([[-bound], np.clip(histogram.edges, -bound, bound), [bound]])
    below = np.concatenate([[0.0], np.cumsum(_masses(histogram))])
    wanted = np.arange(1, n_bins) / n_bins
    return np.unique(np.interp(wanted, below, np.maximum.accumulate(nodes)))


def _masses(histogram: Histogram) -> FloatArray:
    """Return the mean share of the classes in each bin."""
    shares = histogram.weights / histogram.weights.sum(axis=2, keepdims=True)
    masses: FloatArray = shares.mean(axis=(0, 1))
    return masses


def are_edges(edges: FloatArray) -> bool:
    """Return whether these are edges of bins: finite, ascending, not too many."""
    is_fine = np.isfinite(edges).all() and np.all(np.diff(edges) > 0.0)
    return bool(is_fine and 0 < len(edges) <= _MOST_EDGES)

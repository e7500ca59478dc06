"""Bins of scores: what each holder shows, and intervals that always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from hyfdca.maths.losses import make_loss
from hyfdca.maths.seeds import stream
from hyfdca.stages.evaluation.bins import (
    Histogram,
    as_histograms,
    even_edges,
    first_edges,
    is_even,
    shown_bins,
)
from hyfdca.stages.evaluation.calibration import TENTH_SCORES, joined_tenths, tenths_of
from hyfdca.stages.evaluation.curves import (
    RocPoint,
    auc_interval,
    curves,
    finer_edges,
    ks_interval,
    pairs_within,
    roc,
)
from hyfdca.stages.evaluation.measures import ScoredRows
from tests.support.thoroughness import examples


def rows_of(scores, labels, weights=None):
    """Return the rows of one label holder."""
    weights = np.ones(len(scores)) if weights is None else weights
    labels = np.asarray(labels, dtype=np.float64)
    margins = np.asarray(scores, dtype=np.float64)[:, None]
    return ScoredRows(margins, labels, weights, 2, make_loss("logistic"))


def counted(holders, edges, least):
    """Return the sums of all holders: their bins, and pairs within each."""
    shown = [shown_bins(own, [edges], least) for own in holders]
    counts, weights = (np.sum(part, axis=0) for part in zip(*shown, strict=True))
    within = np.sum([pairs_within(own, [edges], least)[0] for own in holders], axis=0)
    return as_histograms([edges], counts, weights)[0], within


def evenly_counted(holders, bound, n_bins, least):
    """Return the same in bins that hold about equal shares."""
    edges = first_edges(bound, n_bins)
    for _ in range(5):
        found = counted(holders, edges, least)
        if is_even(found[0], n_bins):
            break
        edges = even_edges(found[0], bound, n_bins)
    return counted(holders, finer_edges(found[0]), least)


@st.composite
def holders_of_rows(draw):
    """Draw label holders with few or many rows, with ties and with weights."""
    random = stream(draw(st.integers(0, 2**32)), "scores")
    n_holders, digits = draw(st.integers(1, 4)), draw(st.sampled_from([0, 1, 9]))
    holders = []
    for _ in range(n_holders):
        n_rows = draw(st.integers(0, 60))
        labels = random.random(n_rows) < draw(st.floats(0.1, 0.9))
        shift = draw(st.sampled_from([0.0, 1.0, 8.0]))
        scores = (random.normal(size=n_rows) + shift * labels).round(digits)
        weights = random.uniform(0.1, 3.0, n_rows) if draw(st.booleans()) else None
        holders.append(rows_of(scores, labels, weights))
    return [*holders, rows_of([-1.0, 1.0], [0, 1])]  # both classes are somewhere


@settings(max_examples=examples(60), deadline=None)
@given(holders_of_rows(), st.integers(1, 6), st.integers(2, 40))
def test_the_truth_lies_in_the_intervals(holders, least, n_bins):
    """AUC, the distance and the ROC curve lie in their intervals for all holdings."""
    histogram, within = evenly_counted(holders, 16.0, n_bins, least)
    labels, scores, weights = (
        np.concatenate([getattr(own, name) for own in holders])
        for name in ("labels", "scores", "weights")
    )
    scores = scores[:, 0]
    low, likely, high = auc_interval(histogram, within)
    auc = roc_auc_score(labels, scores, sample_weight=weights)
    assert low <= auc <= high
    assert low <= likely <= high
    false, true, _ = roc_curve(
        labels, scores, sample_weight=weights, drop_intermediate=False
    )
    distance = np.abs(true - false).max()
    low, high = ks_interval(histogram)
    assert low <= distance + 1e-12
    assert distance <= high + 1e-12
    point = point_at_zero(labels, scores, weights)
    known = curves(histogram, within, point)
    assert known["auc_low"] <= auc <= known["auc_high"]
    assert known["auc_low"] <= known["auc"] <= known["auc_high"]
    assert known["ks_low"] <= distance + 1e-12
    assert known["ks_low"] >= point.distance - 1e-8
    for one in (*roc(histogram), *known["roc"]):
        best = true[false <= one["false_positive_rate"] + 1e-12].max()
        assert one["true_positive_rate_low"] <= best + 1e-9
        assert best <= one["true_positive_rate_high"] + 1e-9


def point_at_zero(labels, scores, weights):
    """Return sensitivity and specificity of the predictions."""
    is_right = np.equal(scores > 0, labels == 1)
    rates = [
        float(np.average(is_right[labels == kind], weights=weights[labels == kind]))
        for kind in (1, 0)
    ]
    return RocPoint(*rates)


def test_a_known_point_narrows_the_intervals():
    """Two holders of few rows show nothing, but the model's predictions are known."""
    random = stream(6, "point")
    labels = np.tile([0.0, 1.0], 8)
    scores = random.normal(size=16) + 3 * labels - 1.5
    holders = [rows_of(scores[:8], labels[:8]), rows_of(scores[8:], labels[8:])]
    histogram, within = evenly_counted(holders, 16.0, 10, 5)
    without = curves(histogram, within)
    assert (without["ks_low"], without["ks_high"]) == (0.0, 1.0)
    point = point_at_zero(labels, scores, np.ones(16))
    assert point.distance > 0.5
    found = curves(histogram, within, point)
    assert found["ks_low"] == pytest.approx(point.distance, abs=1e-8)
    assert found["auc_low"] > without["auc_low"] + 0.1
    by_rate = {one["false_positive_rate"]: one for one in found["roc"]}
    low = by_rate[0.5]["true_positive_rate_low"]
    assert low == pytest.approx(point.sensitivity, abs=1e-8)


def test_the_likely_auc_of_a_rare_class_is_not_biased():
    """A run of a rare class spans many bins; pairs within holders tell where it is.

    With halves of runs at either end, it is 0.037 too low on average.
    """
    errors = []
    for salt in range(10):
        random = stream(salt, "rare")
        labels = (random.random(1500) < 0.02).astype(float)
        scores = random.normal(size=1500) + 1.2 * labels
        parts = np.array_split(np.arange(1500), 3)
        holders = [rows_of(scores[own], labels[own]) for own in parts]
        low, likely, high = auc_interval(*evenly_counted(holders, 8.0, 300, 5))
        assert high - low > 0.1
        errors.append(likely - roc_auc_score(labels, scores))
    assert abs(np.mean(errors)) < 0.005


@settings(max_examples=examples(60), deadline=None)
@given(holders_of_rows(), st.integers(1, 6), st.integers(2, 40))
def test_a_holder_shows_no_row_or_several_in_a_bin(holders, least, n_bins):
    """Fewer rows of a class than that are where no score is, and their number is true.

    Down is never above the truth, and up never below it.
    """
    edges = first_edges(16.0, n_bins)
    for own in holders:
        counts, _ = shown_bins(own, [edges], least)
        bins = np.searchsorted(edges, own.scores[:, 0], side="left")
        for kind, shown in enumerate(counts.reshape(2, 2, -1)):
            true = np.bincount(bins[own.classes == kind], minlength=n_bins)
            assert np.all(shown.sum(axis=1) == true.sum())
            down, up = np.cumsum(shown, axis=1)
            assert np.all(up <= np.cumsum(true))
            assert np.all(np.cumsum(true) <= down)
            if true.sum() < least:
                assert np.count_nonzero(shown[0]) == (true.sum() > 0)
                assert shown[0, 0] == shown[1, -1] == true.sum()
            else:
                assert np.all((shown == 0) | (shown >= least))


@settings(max_examples=examples(60), deadline=None)
@given(holders_of_rows(), st.integers(1, 6), st.integers(2, 40))
def test_bins_of_probabilities_are_known_to_hold_enough_rows(holders, least, n_bins):
    """That is known before counting; all together have fewer only without any rows."""
    edges = np.union1d(first_edges(16.0, n_bins), TENTH_SCORES)
    histogram, _ = counted(holders, edges, least)
    ends = joined_tenths(histogram, least)
    tenths = np.concatenate([tenths_of(own.scores[:, 0]) for own in holders])
    sizes = np.bincount(
        np.searchsorted(ends, tenths, side="right"), minlength=len(ends)
    )
    assert ends[-1] == 10
    assert len(sizes) == len(ends)
    assert len(ends) == 1 or sizes.min() >= least


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("shift", "share"), [(0.0, 0.5), (1.0, 0.1), (3.0, 0.5)])
def test_a_thousand_bins_give_intervals_of_a_thousandth(shift, share):
    """They do with enough rows, even if one class is rare or scores are far from 0."""
    random = stream(4, "many")
    labels = random.random(400_000) < share
    scores = 0.01 * (random.normal(size=len(labels)) + shift * labels) + 3.0
    parts = np.array_split(np.arange(len(labels)), 3)
    holders = [rows_of(scores[own], labels[own]) for own in parts]
    histogram, within = evenly_counted(holders, 8.0, 1000, 5)
    low, _, high = auc_interval(histogram, within)
    assert low <= roc_auc_score(labels, scores) <= high
    assert high - low <= 1e-3
    low, high = ks_interval(histogram)
    assert high - low <= 1e-3


def test_a_single_label_holder_knows_auc_exactly():
    """Pairs within one client need no bins."""
    random = stream(5, "one")
    labels = random.random(50) < 0.4
    scores = (random.normal(size=50) + labels).round(1)
    histogram, within = evenly_counted([rows_of(scores, labels)], 8.0, 10, 5)
    low, likely, high = auc_interval(histogram, within)
    assert likely == pytest.approx(roc_auc_score(labels, scores), abs=1e-14)
    assert high - low <= 1e-11


def test_a_bin_is_even_if_no_class_has_much_of_it():
    """A rare class counts as much as a frequent one."""
    weights = np.array([[[90.0, 10.0]] * 2, [[1.0, 9.0]] * 2])
    histogram = Histogram(np.array([0.0]), weights, weights)
    assert is_even(histogram, 3)
    assert not is_even(histogram, 5)

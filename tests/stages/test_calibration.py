"""Slope and intercept of scores: those of an unpenalised logistic regression."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hyfdca.maths.seeds import stream
from hyfdca.stages.evaluation.calibration import (
    Recalibration,
    derivative_bounds,
    derivatives,
)
from hyfdca.stages.evaluation.messages import MOST_STEPS
from tests.stages.test_score_bins import rows_of


def line_of(rows):
    """Return what a server finds in as many steps as a client answers."""
    own, weight = Recalibration(), float(rows.weights.sum())
    for _ in range(MOST_STEPS):
        if own.is_over:
            break
        point = own.point[None]
        sums = np.array(derivatives(rows, point))[:, 0]
        bounds = derivative_bounds(point, float(np.abs(rows.scores).max()), weight)
        assert np.all(np.abs(sums) <= bounds)
        own.take(sums, weight)
    return own.line


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e4])
@pytest.mark.parametrize("n_rows", [40, 2000])
def test_the_line_is_that_of_an_unpenalised_regression(scale, n_rows):
    """Scores may be far too large or too small, and rows may have weights."""
    random = stream(6, "line")
    scores = 2.0 * random.normal(size=n_rows) + 1.0
    labels = random.random(n_rows) < 1.0 / (1.0 + np.exp(0.5 - 0.7 * scores))
    weights = random.uniform(0.2, 4.0, n_rows)
    intercept, slope = line_of(rows_of(scale * scores, labels, weights))
    wanted = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000)
    wanted.fit(scores[:, None], labels, sample_weight=weights)
    assert slope * scale == pytest.approx(wanted.coef_[0, 0], rel=1e-5)
    assert intercept == pytest.approx(wanted.intercept_[0], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("scores", [np.arange(40.0) - 19.5, np.full(40, 0.3)])
def test_there_is_no_line_if_classes_are_apart_or_scores_equal(scores):
    """It would be infinitely steep, or any."""
    assert line_of(rows_of(scores, np.arange(40) >= 20)) == (None, None)


def test_a_step_that_does_not_lower_the_loss_is_halved():
    """The start is a point where Newton's step goes much too far."""
    random = stream(7, "far")
    scores = random.normal(size=300)
    rows = rows_of(scores, random.random(300) < 1.0 / (1.0 + np.exp(-scores)))
    own, losses = Recalibration(point=np.array([0.0, 12.0])), []
    for _ in range(60):
        sums = np.array(derivatives(rows, own.point[None]))[:, 0]
        losses.append(sums[0])
        own.take(sums, 300.0)
    assert own.line == pytest.approx(line_of(rows), rel=1e-6)
    assert any(later > sooner for sooner, later in pairwise(losses))

"""TDCD and FedBCD: they reach the pooled optimum, and coincide where they should."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.federation.sealing.client_sealing import read_sum
from hyfdca.holdings.participation import cyclic
from tests.algorithms.rivals import (
    L2,
    N_SAMPLES,
    constant_rate,
    dense,
    excess,
    rival,
    weights_at,
)
from tests.support.small_runs import run_round, set_up

pytestmark = pytest.mark.slow

STEADY = constant_rate(1.0)


@pytest.mark.parametrize("shape", ["2x2", "3x3", "3x1", "1x3", "overlapping"])
def test_tdcd_with_one_step_is_gradient_descent(shape):
    """On any partition a round with one local step is an exact gradient step."""
    run = set_up(rival("tdcd", shape, local_steps=1, **STEADY))
    X, y = dense()
    weights = np.zeros((X.shape[1], 1))
    for _ in range(5):
        run_round(run)
        slopes = -y / (1 + np.exp(y * (X @ weights)))
        weights = weights - (L2 * weights + X.T @ slopes / len(y))
    for held, ours in zip(run.layout.features.items, weights_at(run), strict=True):
        assert ours == pytest.approx(weights[held], abs=1e-11)


@pytest.mark.parametrize("shape", ["2x2", "3x3"])
def test_tdcd_reaches_the_pooled_optimum(shape):
    """One local step: 1e-10 above P* after 400 rounds."""
    run = rival("tdcd", shape, local_steps=1, max_rounds=400, **STEADY)
    assert excess(run) < 1e-10
    assert run.measurement.gap < 1e-8


def test_tdcd_with_more_local_steps_needs_a_decreasing_rate():
    """Five local steps: the plateau of a constant rate falls with the rate."""
    given = {"local_steps": 5, "max_rounds": 600}
    long = excess(rival("tdcd", "2x2", **given, **constant_rate(1.0)))
    short = excess(rival("tdcd", "2x2", **given, **constant_rate(0.1)))
    falling = excess(rival("tdcd", "2x2", **given, rate=2.0, rate_offset=1.0))
    assert short < long / 10
    assert falling < long / 10
    assert long < 1e-2


@pytest.mark.parametrize("order", ["parallel", "sequential"])
@pytest.mark.parametrize("shape", ["1x3", "1x4"])
def test_fedbcd_reaches_the_pooled_optimum(shape, order):
    """Five local steps on all samples: 1e-11 above P* after 120 rounds."""
    run = rival("fedbcd", shape, order=order, max_rounds=120, **STEADY)
    assert excess(run) < 1e-11
    assert run.measurement.gap < 1e-8


@pytest.mark.parametrize("name", ["fedbcd", "tdcd"])
@pytest.mark.parametrize("stays_away", [True, False])
def test_absent_clients_leave_margins_of_all_rows_behind(name, stays_away):
    """Otherwise later batches would lack margins of rows not drawn before."""
    turns = cyclic([[0, 1, 2], [0, 1]]) if stays_away else None
    run = set_up(rival(name, "1x3", batch=10, participation=turns, **STEADY))
    run_round(run)
    margins = run.server._margins
    sums = read_sum(margins.take_all(), (N_SAMPLES, 1))
    run_round(run)
    changed = read_sum(margins.take_all(), (N_SAMPLES, 1)) != sums
    n_changed = np.count_nonzero(changed)
    assert n_changed > 0.8 * N_SAMPLES if stays_away else n_changed == 10


def test_fedbcd_in_parallel_is_tdcd_on_split_columns():
    """With one client per silo there is nothing to average."""
    given = {"max_rounds": 20, "batch": 20, **STEADY}
    one = rival("fedbcd", "1x3", **given).finish()
    other = rival("tdcd", "1x3", **given).finish()
    assert one == pytest.approx(other, abs=1e-10)


def test_fedbcd_batches_reach_the_optimum_with_a_decreasing_rate():
    """A third of the samples per round: within 1e-3 of P*, where it began at 0.2."""
    run = rival("fedbcd", "1x3", batch=N_SAMPLES // 3, max_rounds=500, rate=2.0)
    assert excess(run) < 1e-3


def test_frozen_slopes_of_one_step_are_fresh_slopes():
    """With one local step the two kinds of slopes coincide."""
    given = {"local_steps": 1, "max_rounds": 10, **STEADY}
    fresh = rival("fedbcd", "1x3", **given).finish()
    frozen = rival("fedbcd", "1x3", slopes="frozen", **given).finish()
    assert frozen == pytest.approx(fresh, abs=1e-12)
    # A client without labels is sent the slopes.
    without = rival("fedbcd", "1x3", labelled=[True, False, False], **given).finish()
    assert without == pytest.approx(fresh, abs=1e-12)


def test_fedbcd_with_labels_at_one_client_reaches_the_optimum():
    """The usual vertical study: one organisation has the labels."""
    given = {"labelled": [False, True, False], "local_steps": 2, "max_rounds": 400}
    assert excess(rival("fedbcd", "1x3", **given, **constant_rate(0.5))) < 1e-9


def test_round_trips():
    """All samples: one round trip; a batch: two; in turn: one per client."""
    for given, trips in [
        ({}, 1.0),
        ({"batch": 10}, 2.0),
        ({"order": "sequential"}, 3.0),
    ]:
        run = rival("fedbcd", "1x3", max_rounds=2, **given)
        run.finish()
        assert [record["round_trips"] for record in run.history] == [trips] * 2

"""FedAvg: its steps, its mean over active holders, and its proven bias."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.federation.local.work import local_rows_key
from hyfdca.holdings.participation import cyclic
from hyfdca.maths.draws import repeated_rows
from hyfdca.maths.seeds import stream
from tests.algorithms.rivals import (
    L2,
    block_gradient,
    column_groups,
    constant_rate,
    dense,
    excess,
    objective,
    optimum,
    rival,
    weights_at,
)
from tests.support.small_runs import run_round, set_up

FULL = {**constant_rate(1.0), "batch": "all", "local_steps": 1, "max_rounds": 500}


@pytest.mark.parametrize("shape", ["2x2", "3x3", "1x4"])
def test_the_limit_is_the_block_concatenated_solution(shape):
    """Each column group is trained alone: a bias, and not a bug."""
    run = rival("fedavg", shape, **FULL)
    weights = run.finish()
    assert np.abs(block_gradient(weights, column_groups(run))).max() < 1e-10
    # That is not the optimum, and the certificate knows.
    above = objective().primal(weights) - optimum().primal
    assert above > 1e-3
    assert run.measurement.gap >= above


def test_without_split_rows_the_limit_is_the_optimum():
    """Where clients have whole rows there is no bias."""
    run = rival("fedavg", "3x1", **FULL)
    assert excess(run) < 1e-12
    assert run.measurement.gap < 1e-9


@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber"])
def test_a_round_takes_its_steps_one_by_one(loss):
    """One client's round is textbook SGD with the same draws."""
    run = set_up(rival("fedavg", "1x1", loss, rate=2.0, rate_offset=3.0))
    run_round(run)
    X, y = dense(loss)
    weights, rate = np.zeros(X.shape[1]), 2.0 / (3.0 + 1.0)
    order = repeated_rows(local_rows_key(0, 1), 0, len(y), len(y))
    for i in order:
        slope = run.settings.loss.derivative(X[i] @ weights, y[i, 0])
        weights = (1 - rate * L2) * weights - rate * slope * X[i]
    [ours] = weights_at(run)
    assert ours[:, 0] == pytest.approx(weights, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("name", ["fedavg", "hyfem"])
def test_a_batch_of_all_rows_is_all_of_them(name):
    """No client draws more rows than it has; smaller batches are drawn as ever."""

    def after_two_rounds(batch):
        run = set_up(rival(name, "3x1", **{**FULL, "batch": batch, "local_steps": 3}))
        run_round(run)
        run_round(run)
        return np.concatenate(weights_at(run))

    rows = rival(name, "3x1", **FULL).layout.samples.items
    most = max(map(len, rows))
    full = after_two_rounds("all")
    assert np.array_equal(after_two_rounds(most), full)
    assert np.array_equal(after_two_rounds(1000 * most), full)
    assert not np.array_equal(after_two_rounds(min(map(len, rows)) - 1), full)


def test_a_smaller_batch_is_drawn_with_replacement():
    """One client's step is the mean gradient of the rows that its stream draws."""
    run = set_up(rival("fedavg", "1x1", **{**FULL, "batch": 7}))
    run_round(run)
    X, y = dense("logistic")
    rows = stream(0, "batches", 1, 0).integers(len(y), size=7)
    slopes = run.settings.loss.derivative(np.zeros(7), y[rows, 0])
    # ``FULL`` has the constant rate 1; the start is 0.
    assert weights_at(run)[0][:, 0] == pytest.approx(-slopes @ X[rows] / 7, rel=1e-9)


def test_features_without_an_active_holder_keep_their_weights():
    """The mean is over those who take part; other features stay as they were."""
    run = rival("fedavg", "2x2", participation=cyclic([[0, 1, 2, 3], [0]]))
    set_up(run)
    run_round(run)
    before = weights_at(run)
    run_round(run, [0])
    after = weights_at(run)
    held = run.layout.features.items
    for k in range(4):
        is_same = np.array_equal(held[k], held[0])
        assert np.array_equal(after[k], before[k]) == (not is_same)
        if is_same:
            assert np.array_equal(after[k], after[0])


def test_one_round_trip_per_round():
    """A round is weights down and weights up."""
    run = rival("fedavg", "2x2", max_rounds=3)
    run.finish()
    assert [record["round_trips"] for record in run.history] == [1.0] * 3


def test_clients_without_labels_train_nothing():
    """Features that only they hold keep weight 0, and the mean leaves them out."""
    run = rival("fedavg", "1x2", labelled=[True, False], **FULL)
    weights = run.finish()
    alone = run.layout.features.items[1]
    assert not weights[alone].any()
    other = run.layout.features.items[0]
    assert np.abs(block_gradient(weights, [other])[other]).max() < 1e-10

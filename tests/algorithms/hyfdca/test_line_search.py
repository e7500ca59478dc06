"""The exact line search on the dual."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.algorithms.hyfdca.line_search import TRIAL_STEPS, best_step
from hyfdca.holdings import partition as parts
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from tests.support.small_runs import (
    classification,
    duals_of,
    make_training,
    measure,
    pooled,
    run_round,
    set_up,
)


@given(st.floats(-2.0, 4.0), st.floats(1e-3, 1e3))
def test_step_is_exact_where_the_dual_is_quadratic(vertex, curvature):
    """The maximiser of a concave parabola over [0, 1] is found exactly."""
    values = -0.5 * curvature * (TRIAL_STEPS - vertex) ** 2
    expected = min(max(vertex, 0.0), 1.0)
    assert best_step(values) == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.floats(0.0, 10.0), min_size=17, max_size=17), st.floats(-5.0, 5.0))
def test_step_never_lowers_a_concave_function(falls, slope):
    """Whatever concave function the values are of, it is not lower at the step."""
    slopes = slope - np.cumsum(falls)
    values = np.concatenate([[0.0], np.cumsum(slopes * np.diff(TRIAL_STEPS))])
    step = best_step(values)
    assert 0.0 <= step <= 1.0
    # Between trials the function is at least the chord.
    assert np.interp(step, TRIAL_STEPS, values) >= values[0] - 1e-12


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_dual_never_falls(loss, profile):
    """D rises in every round, for every loss and in both profiles."""
    X, y = classification(60, 8, noise=0.5)
    training = make_training(
        X,
        y,
        parts.grid(60, 8, (2, 2), seed=0),
        loss=loss,
        l2=0.01,
        step="line_search",
        profile=profile,
    )
    set_up(training)
    objective = pooled(X, y, loss, l2=0.01)
    duals = [0.0]
    for _ in range(25):
        run_round(training)
        duals.append(objective.dual(duals_of(training)))
    # 1e-12 for the grid of the totals from which steps are chosen.
    assert np.all(np.diff(duals) >= -1e-12)
    assert duals[-1] > 0.0


def test_holders_agree_on_every_dual():
    """Holders compute changes by themselves and still have identical duals."""
    X, y = classification(60, 9, noise=0.5)
    partition = parts.grid(60, 9, (2, 3), seed=0)
    training = set_up(
        make_training(X, y, partition, step="line_search", local_fraction=0.4)
    )
    for _ in range(30):
        run_round(training)
    duals = duals_of(training)
    for client, half in enumerate(training.clients):
        own = duals[partition.holdings[client].samples]
        assert np.array_equal(half.dual.duals, own)


def test_some_samples_a_round_reach_the_same_optimum():
    """Drawing part of the samples, alike for all holders, still converges."""
    X, y = classification(60, 8, noise=0.5)
    training = make_training(
        X,
        y,
        parts.grid(60, 8, (2, 2), seed=0),
        step="line_search",
        local_fraction=0.5,
        l2=0.2,
        max_rounds=800,
        tolerance=1e-4,
    )
    training.finish()
    assert training.stop_reason == "tolerance"


def test_outputs_have_steps_of_their_own():
    """A second output changes nothing for the first."""
    X, y = classification(60, 8, noise=0.5)
    _, other = classification(60, 8, seed=5, noise=2.0)
    partition = parts.grid(60, 8, (2, 2), seed=0)
    alone = set_up(make_training(X, y, partition, step="line_search", profile="open"))
    both = set_up(
        make_training(
            X, np.hstack([y, other]), partition, step="line_search", profile="open"
        )
    )
    for _ in range(20):
        run_round(alone)
        run_round(both)
    first = duals_of(both)[:, :1]
    assert np.abs(first - duals_of(alone)).max() <= 1e-9


def test_weighted_samples_are_searched_with_their_weights():
    """The certificate of a weighted run brackets the weighted optimum."""
    X, y = classification(50, 7, noise=0.5)
    weights = np.where(y > 0, 4.0, 0.5)
    partition = parts.grid(50, 7, (2, 2), seed=0)
    blocks = split_blocks(X, y, partition, layout_of(partition), sample_weights=weights)
    training = make_training(
        X,
        y,
        partition,
        loss="logistic",
        blocks=blocks,
        step="line_search",
        max_rounds=500,
        tolerance=1e-5,
    )
    training.finish()
    objective = Objective(sp.csr_array(X), y, make_loss("logistic"), 0.05, weights)
    optimum = reference_optimum(objective, 1e-9).primal
    assert training.stop_reason == "tolerance"
    assert training.measurement.dual <= optimum <= training.measurement.primal + 1e-9
    assert measure(training) == training.measurement


def test_round_trips_of_the_search_are_counted_apart():
    """A round is HyFDCA's three trips; the search takes one more, or two sealed."""
    X, y = classification(60, 8)
    for profile, labelled, search in (
        ("open", None, 1.0),
        ("sealed", None, 2.0),
        ("sealed", [True, False, True, False], 3.0),
    ):
        training = set_up(
            make_training(
                X,
                y,
                parts.grid(60, 8, (2, 2), seed=0),
                step="line_search",
                profile=profile,
                labelled=labelled,
            )
        )
        run_round(training)
        traffic = run_round(training)
        assert (traffic.round_trips, traffic.search_round_trips) == (3.0, search)

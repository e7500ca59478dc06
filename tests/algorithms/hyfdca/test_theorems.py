"""Theorems 1 to 4 of the paper, with the corrected constants, on seeded problems.

The strength λ = 2 makes the bounds bite: with unit rows and L = 1 the constant
G = 2 L² R² / λ is 1, near the suboptimality at the start, so that a method that does
not move breaks them.
"""

import math

import numpy as np
import pytest

from hyfdca.holdings import partition as parts
from hyfdca.holdings.participation import bernoulli, complete, cyclic
from hyfdca.maths.objective import reference_optimum
from tests.support.small_runs import (
    classification,
    make_training,
    pooled,
    run_round,
    server_duals,
    set_up,
)
from tests.support.thoroughness import IS_THOROUGH

N, M, L2 = 30, 12, 2.0
G = 2.0 / L2


def mean_suboptimality(partition, participation, n_rounds, n_runs, l2=L2, **hyfdca):
    """Return the mean over runs of D* - D after each round, from round 0."""
    X, y = classification(N, M)
    objective = pooled(X, y, l2=l2)
    best = reference_optimum(objective, 1e-12).primal
    gaps = np.zeros((n_runs, n_rounds + 1))
    for run in range(n_runs):
        who = participation(run)
        training = make_training(
            X,
            y,
            partition,
            l2=l2,
            participation=who,
            variant="theory",
            seed=run,
            **hyfdca,
        )
        set_up(training)
        gaps[run, 0] = best
        for t in range(1, n_rounds + 1):
            run_round(training, who.of_round(t))
            gaps[run, t] = best - objective.dual(server_duals(training))
    return gaps.mean(axis=0)


def bound_of_theorem_2(first_gap, rate, n_rounds):
    """Return 2G / (1 + rate/2 (t - t0)) with the corrected t0 (E11)."""
    start = max(0, math.ceil(math.log(first_gap / G) / rate))
    t = np.arange(n_rounds + 1)
    return np.where(t >= start, 2 * G / (1 + rate / 2 * (t - start)), np.inf)


def assert_bites(bound, gaps):
    """Check that standing still would break the bound, so that the test can fail."""
    assert bound[-1] < gaps[0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("cap", ["printed", "largest"])
@pytest.mark.slow
@pytest.mark.parametrize("local_steps", [10, 3])
def test_hybrid_complete_participation_stays_under_theorems_1_and_2(cap, local_steps):
    """The mean gap obeys the recursion and the bound, with c_k as printed or E12's."""
    partition = parts.grid(N, M, (3, 3), seed=0)
    n_rounds = 200 if local_steps == 10 else 500
    gaps = mean_suboptimality(
        partition,
        lambda _: complete(9),
        n_rounds,
        n_runs=4,
        local_steps=local_steps,
        cap=cap,
    )
    rate = local_steps / (N if cap == "printed" else N / 3)
    bound = bound_of_theorem_2(gaps[0], rate, n_rounds)
    assert_bites(bound, gaps)
    assert np.all(gaps <= bound)
    # Theorem 1 for the best s in [0, 1]; 1e-12 for the rounding of D.
    s = np.clip(gaps[:-1] / (2 * G), 0, 1)
    assert np.all(gaps[1:] <= (1 - s * rate) * gaps[:-1] + s**2 * rate * G + 1e-12)


@pytest.mark.slow
def test_horizontal_random_subsets_stay_under_theorem_3():
    """With P of K clients on average the rate is P H / N."""
    n_clients, share, local_steps, n_rounds = 5, 0.6, 4, 200
    gaps = mean_suboptimality(
        parts.horizontal(N, M, n_clients, seed=0),
        lambda run: bernoulli(n_clients, share, seed=run),
        n_rounds,
        n_runs=12 if IS_THOROUGH else 6,
        local_steps=local_steps,
        cap="one",
    )
    bound = bound_of_theorem_2(gaps[0], share * n_clients * local_steps / N, n_rounds)
    assert_bites(bound, gaps)
    assert np.all(gaps <= bound)


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "local_steps", [N, pytest.param(N // 2, marks=pytest.mark.slow)]
)
def test_vertical_cyclic_sets_stay_under_theorem_4(local_steps):
    """With C sets in turn, γ_t = 1/t and active holders counted, the bound holds."""
    n_sets, n_rounds = 2, 3000 if IS_THOROUGH else 1000
    rate = local_steps / N
    gaps = mean_suboptimality(
        parts.vertical(N, M, 4, seed=0),
        lambda _: cyclic([[0, 2], [1, 3]]),
        n_rounds,
        n_runs=1 if local_steps == N else 2,
        local_steps=local_steps,
        cap="one",
        aggregation="decreasing",
        l2=4.0,
    )
    t = np.arange(n_sets, n_rounds + 1)
    first = n_sets**rate * gaps[n_sets - 1]
    growth = 2 * rate * (n_sets + 1) / 4.0
    growth *= (n_sets - 1) ** 4 + 2 * (n_sets - 1) ** 2 + 1
    bound = (first + growth * (np.log(t - n_sets + 1) + 1)) / t**rate
    if local_steps == N:
        assert_bites(bound, gaps)
    assert np.all(gaps[n_sets:] <= bound)


@pytest.mark.thorough
@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("local_steps", [N, N // 2])
def test_vertical_rate_has_the_exponent_of_theorem_4(local_steps):
    """With γ_t = 1/t and three sets in turn the gap falls like t^(-H/N)."""
    n_rounds, n_runs = 3000, 1 if local_steps == N else 3
    gaps = mean_suboptimality(
        parts.vertical(N, M, 3, seed=0),
        lambda _: cyclic([[0], [1], [2]]),
        n_rounds,
        n_runs=n_runs,
        local_steps=local_steps,
        cap="one",
        aggregation="decreasing",
        l2=0.05,
    )
    t = np.unique(np.geomspace(100, n_rounds, 40).astype(int))
    slope = np.polyfit(np.log(t), np.log(gaps[t]), 1)[0]
    assert slope == pytest.approx(-local_steps / N, rel=0.12)


@pytest.mark.thorough
@pytest.mark.slow
def test_dividing_by_all_holders_slows_theorem_4_down():
    """As printed, |B_n| makes the exponent H/(N C) instead of H/N (E9)."""
    gaps = mean_suboptimality(
        parts.vertical(N, M, 3, seed=0),
        lambda _: cyclic([[0], [1], [2]]),
        2000,
        n_runs=1,
        local_steps=N,
        cap="one",
        aggregation="decreasing",
        divide_by="all",
        l2=0.05,
    )
    t = np.unique(np.geomspace(100, 2000, 40).astype(int))
    slope = np.polyfit(np.log(t), np.log(gaps[t]), 1)[0]
    assert slope == pytest.approx(-1 / 3, rel=0.12)

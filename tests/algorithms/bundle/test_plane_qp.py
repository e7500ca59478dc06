"""The programme of planes against closed forms, SLSQP and its own optimality gap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from hyfdca.algorithms.bundle.plane_qp import (
    Balances,
    PlaneProgramme,
    solve_plane_qp,
)
from hyfdca.maths.seeds import stream
from tests.support.thoroughness import examples


def solved(offsets, buckets, tolerance, *, factor=None, gram=None, start=None):
    """Return the weights of the best mixture, by slopes or by their Gram matrix."""
    slopes = factor if gram is None else gram
    programme = PlaneProgramme(offsets, buckets, slopes, gram is not None)
    return solve_plane_qp(programme, tolerance, start).weights


def value_of(weights, offsets, factor):
    return offsets @ weights - 0.5 * np.sum((weights @ factor) ** 2)


def gap_of(weights, offsets, buckets, factor):
    """Return the first-order gain of one plane per bucket: an upper bound."""
    gradient = offsets - factor @ (weights @ factor)
    highest = np.full(buckets.max() + 1, -np.inf)
    np.maximum.at(highest, buckets, gradient)
    return weights @ (highest[buckets] - gradient)


def assert_feasible(weights, buckets):
    assert np.all(np.isfinite(weights))
    assert np.all(weights >= 0.0)
    assert np.bincount(buckets, weights) == pytest.approx(1.0, abs=1e-12)


def both_forms(offsets, buckets, tolerance, factor):
    return (
        solved(offsets, buckets, tolerance, factor=factor),
        solved(offsets, buckets, tolerance, gram=factor @ factor.T),
    )


def random_programme(rng, n_planes, n_buckets, n_dimensions):
    """Return offsets, buckets and slopes; every bucket has a plane, in any order."""
    extra = rng.integers(0, n_buckets, n_planes - n_buckets)
    buckets = rng.permutation(np.append(np.arange(n_buckets), extra))
    return rng.normal(size=n_planes), buckets, rng.normal(size=(n_planes, n_dimensions))


def many_planes(rng, n_buckets, n_planes, n_dimensions):
    """Return planes that touch one quadratic per bucket, as in a bundle method."""
    buckets = np.tile(np.arange(n_buckets), n_planes)
    centres = rng.normal(size=(n_buckets, n_dimensions))
    points = 0.3 * rng.normal(size=(len(buckets), n_dimensions))
    slopes = points - centres[buckets]
    offsets = 0.5 * np.sum(slopes**2, axis=1) - np.sum(slopes * points, axis=1)
    return offsets, buckets, slopes


@pytest.mark.parametrize(
    ("offsets", "slopes"), [((1.0, 0.5), (2.0, -1.0)), ((9.0, 0.0), (1.0, 0.0))]
)
def test_two_planes(offsets, slopes):
    """Two planes: the quadratic's peak, or the nearer end."""
    offsets, factor = np.array(offsets), np.array(slopes)[:, None]
    difference = slopes[0] - slopes[1]
    peak = (offsets[0] - offsets[1] - difference * slopes[1]) / difference**2
    share = min(max(peak, 0.0), 1.0)
    for weights in both_forms(offsets, np.zeros(2, int), 1e-13, factor):
        assert weights == pytest.approx([share, 1.0 - share], abs=1e-5)


def test_orthogonal_planes():
    """Orthogonal planes without offsets weigh the inverse of their square norms."""
    norms = np.array([1.0, 2.0, 4.0, 0.5])
    expected = norms**-2 / np.sum(norms**-2)
    for weights in both_forms(np.zeros(4), np.zeros(4, int), 1e-13, np.diag(norms)):
        assert weights == pytest.approx(expected, abs=1e-6)


def test_separable_buckets(seed):
    """Buckets with slopes orthogonal to each other's are solved each for itself."""
    rng = stream(seed, "separable")
    offsets, factor = rng.normal(size=(3, 5)), rng.normal(size=(3, 5, 2))
    together = np.zeros((15, 6))
    for bucket in range(3):
        rows = slice(5 * bucket, 5 * bucket + 5)
        together[rows, 2 * bucket : 2 * bucket + 2] = factor[bucket]
    buckets = np.repeat(np.arange(3), 5)
    joint = solved(offsets.ravel(), buckets, 1e-10, factor=together)
    alone = [
        solved(offsets[b], np.zeros(5, int), 1e-10, factor=factor[b]) for b in range(3)
    ]
    assert value_of(joint, offsets.ravel(), together) == pytest.approx(
        sum(value_of(alone[b], offsets[b], factor[b]) for b in range(3)), abs=1e-9
    )


@pytest.mark.parametrize("shape", [(12, 1, 4), (12, 3, 20), (20, 5, 2)])
def test_independent_solver(shape, seed):
    """No feasible point that SLSQP finds is better."""
    offsets, buckets, factor = random_programme(stream(seed, "slsqp"), *shape)
    members = (buckets == np.arange(shape[1])[:, None]).astype(float)
    oracle = minimize(
        lambda b: -value_of(b, offsets, factor),
        (1.0 / members.sum(axis=1))[buckets],
        jac=lambda b: factor @ (b @ factor) - offsets,
        bounds=[(0.0, 1.0)] * len(offsets),
        constraints=LinearConstraint(members, 1.0, 1.0),
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    for weights in both_forms(offsets, buckets, 1e-7, factor):
        value = value_of(weights, offsets, factor)
        # SLSQP may stop early: it bounds the optimum from below, the gap from above.
        assert value >= -oracle.fun - 1e-7
        assert gap_of(weights, offsets, buckets, factor) <= 1e-7


@settings(max_examples=examples(60), deadline=None)
@given(
    number=st.integers(0, 10**6),
    n_buckets=st.integers(1, 6),
    n_more=st.integers(0, 40),
    n_dimensions=st.integers(1, 30),
    n_copies=st.integers(0, 5),
    n_zeros=st.integers(0, 3),
)
def test_any_programme(number, n_buckets, n_more, n_dimensions, n_copies, n_zeros):
    """Weights are feasible and good enough, with copies and planes of zeros too."""
    rng = stream(number, "programme")
    offsets, buckets, factor = random_programme(
        rng, n_buckets + n_more, n_buckets, n_dimensions
    )
    for source, copy in rng.integers(0, len(offsets), (n_copies, 2)):
        offsets[copy], factor[copy] = offsets[source], factor[source]
    zeros = rng.integers(0, len(offsets), n_zeros)
    offsets[zeros], factor[zeros] = 0.0, 0.0
    solutions = both_forms(offsets, buckets, 1e-6, factor)
    for weights in solutions:
        assert_feasible(weights, buckets)
        assert gap_of(weights, offsets, buckets, factor) <= 1e-6
    values = [value_of(weights, offsets, factor) for weights in solutions]
    assert values[0] == pytest.approx(values[1], abs=2e-6)


@pytest.mark.parametrize("slope_scale", [1e-10, 1e-4, 1.0, 1e8])
@pytest.mark.parametrize("offset_scale", [1e-10, 1.0, 1e8])
def test_scales(slope_scale, offset_scale, seed):
    """A ten-millionth of the largest term is reached, whatever the scale."""
    offsets, buckets, factor = random_programme(stream(seed, "scales"), 40, 4, 6)
    offsets, factor = offset_scale * offsets, slope_scale * factor
    tolerance = 1e-7 * max(offset_scale, slope_scale**2)
    for weights in both_forms(offsets, buckets, tolerance, factor):
        assert_feasible(weights, buckets)
        assert gap_of(weights, offsets, buckets, factor) <= tolerance


def test_planes_of_mixed_scales(seed):
    """Planes from 1e-10 to 1e8 in one programme are solved as far as they go."""
    rng = stream(seed, "mixed")
    offsets, buckets, factor = random_programme(rng, 60, 5, 10)
    scales = 10.0 ** rng.uniform(-10.0, 8.0, 60)
    offsets, factor = offsets * scales, factor * scales[:, None]
    # Gradients are as exact as the products of the largest slopes.
    tolerance = 1e-14 * np.sum(factor**2, axis=1).max()
    for weights in both_forms(offsets, buckets, 1e-6, factor):
        assert_feasible(weights, buckets)
        assert gap_of(weights, offsets, buckets, factor) <= tolerance


@pytest.mark.parametrize("tolerance", [1e-6, 0.0, -1.0])
def test_noisy_gram(tolerance, seed):
    """An indefinite Gram matrix, or a gap out of reach, gives the best weights."""
    rng = stream(seed, "noise")
    offsets, buckets, factor = random_programme(rng, 80, 4, 3)
    factor = 1e3 * np.vstack([factor[:40], factor[:40]])
    gram = factor @ factor.T
    noise = rng.normal(size=gram.shape)
    noise *= 1e-15 * np.linalg.norm(gram, 2) / np.linalg.norm(noise, 2)
    weights = solved(offsets, buckets, tolerance, gram=gram + noise + noise.T)
    assert_feasible(weights, buckets)
    # Rounding of gradients of size 1e7.
    assert gap_of(weights, offsets, buckets, factor) <= max(tolerance, 1e-6)


def test_lone_planes():
    """A bucket of one plane gives it all the weight."""
    weights = solved(np.arange(3.0), np.arange(3), 0.0, factor=np.ones((3, 2)))
    assert weights.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("form", ["factor", "gram"])
@pytest.mark.parametrize("guess", ["solution", "zeros", "anything"])
def test_start_saves_time_alone(form, guess, seed):
    """Wherever it starts, a large programme is solved to its tolerance."""
    rng = stream(seed, "start")
    offsets, buckets, factor = many_planes(rng, 8, 75, 300)
    slopes = {form: factor if form == "factor" else factor @ factor.T}
    plain = solved(offsets, buckets, 1e-8, **slopes)
    start = {"solution": plain, "zeros": 0.0 * plain, "anything": rng.random(600)}
    weights = solved(offsets, buckets, 1e-8, **slopes, start=start[guess])
    for result in (plain, weights):
        assert_feasible(result, buckets)
        assert gap_of(result, offsets, buckets, factor) <= 1e-8
    assert value_of(weights, offsets, factor) == pytest.approx(
        value_of(plain, offsets, factor), abs=2e-8
    )


def test_large_programme_out_of_reach(seed):
    """Where few planes at a time do not reach the tolerance, all are taken."""
    offsets, buckets, factor = many_planes(stream(seed, "reach"), 8, 75, 300)
    weights = solved(offsets, buckets, 0.0, factor=factor)
    assert_feasible(weights, buckets)
    rounding = 1e-9 * np.abs(offsets).max()
    assert gap_of(weights, offsets, buckets, factor) <= rounding


def test_same_input_same_bits(seed):
    """Two solves of one programme agree to the last bit."""
    offsets, buckets, factor = many_planes(stream(seed, "bits"), 5, 12, 9)
    first, second = (solved(offsets, buckets, 1e-9, factor=factor) for _ in range(2))
    assert np.array_equal(first, second)


# With an intercept


def master_gap(mixture, offsets, buckets, factor, balances):
    """Return P - D of the master programme at a mixture: how far off it is at most."""
    weights, values = mixture.weights, balances.values
    point = weights @ factor
    heights = offsets - factor @ point - mixture.intercept * values
    highest = np.full(buckets.max() + 1, -np.inf)
    np.maximum.at(highest, buckets, heights)
    primal = 0.5 * point @ point + highest.sum()
    lost = balances.reach * abs(values @ weights)
    return primal - (value_of(weights, offsets, factor) - lost)


@pytest.mark.parametrize("is_gram", [False, True])
@pytest.mark.parametrize("reach", [0.1, 3.0, 1e3])
@settings(max_examples=examples(20))
@given(n_planes=st.integers(4, 30), number=st.integers(0, 10**6))
def test_intercept_within_reach(reach, is_gram, n_planes, number):
    """Weights and intercept are optimal by the master programme's own duality."""
    rng = stream(number, "intercept")
    offsets, buckets, factor = random_programme(rng, n_planes, 3, 4)
    balances = Balances(rng.normal(size=n_planes) * (rng.random(n_planes) < 0.8), reach)
    slopes = factor @ factor.T if is_gram else factor
    programme = PlaneProgramme(offsets, buckets, slopes, is_gram, balances)
    mixture = solve_plane_qp(programme, 1e-8)
    assert_feasible(mixture.weights, buckets)
    assert abs(mixture.intercept) <= reach
    assert master_gap(mixture, offsets, buckets, factor, balances) <= 2e-8


def test_large_programme_with_intercept(seed):
    """Few planes at a time find the same intercept as all at once."""
    rng = stream(seed, "large intercept")
    offsets, buckets, factor = many_planes(rng, 8, 75, 300)
    balances = Balances(rng.normal(size=len(offsets)), 50.0)
    programme = PlaneProgramme(offsets, buckets, factor, False, balances)
    mixture = solve_plane_qp(programme, 1e-8)
    assert_feasible(mixture.weights, buckets)
    assert master_gap(mixture, offsets, buckets, factor, balances) <= 2e-8


def test_lone_planes_with_intercept():
    """One plane falls with the intercept, which goes to the end of its reach."""
    balances = Balances(np.array([2.0]), 5.0)
    programme = PlaneProgramme(
        np.ones(1), np.zeros(1, int), np.zeros((1, 1)), False, balances
    )
    mixture = solve_plane_qp(programme, 1e-9)
    assert mixture.weights.tolist() == [1.0]
    assert mixture.intercept == pytest.approx(5.0, abs=1e-6)

"""The compiled passes over samples, against the elementwise formulas of the losses."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.maths.loss_kernels import add_conjugates, sums_along, touching_duals
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.seeds import stream

N, OUTPUTS, BUCKETS = 40, 2, 3
PLACES = np.array([0.0, 0.1, 0.3, 1.0, 8.0])


def conjugate_totals(loss, duals, labels, weights, buckets, n_buckets):
    """Return what is added to totals of zero."""
    totals = np.zeros((n_buckets, duals.shape[1]))
    add_conjugates(loss, duals, labels, weights, buckets, totals)
    return totals


def _samples(loss, seed):
    """Return margins at both ends, labels, and weights of which some are zero."""
    random = stream(seed, "samples", loss.name)
    start, end = 2.0 * random.normal(size=(2, N, OUTPUTS))
    labels = random.normal(size=(N, OUTPUTS))
    if loss.task == "classification":
        labels = np.where(labels > 0, 1.0, -1.0)
    weights = random.random((N, OUTPUTS)) * (random.random((N, OUTPUTS)) < 0.7)
    return start, end, labels, weights


@pytest.mark.parametrize("name", LOSSES)
def test_duals_touch_the_loss_where_they_should(name, seed):
    """At each place between the margins the dual is minus the derivative."""
    loss = make_loss(name)
    start, end, labels, _ = _samples(loss, seed)
    duals = touching_duals(loss, start, end, labels, PLACES)
    for place, own in zip(PLACES, np.split(duals, len(PLACES), axis=1), strict=True):
        there = start + place * (end - start)
        # Rounding of the place is amplified by the curvature, at most 2.
        expected = -loss.derivative(there, labels)
        assert own == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("name", LOSSES)
def test_duals_that_touch_are_in_the_domain(name, seed):
    """Their conjugate is finite, so that they make a plane."""
    loss = make_loss(name)
    start, end, labels, _ = _samples(loss, seed)
    duals = touching_duals(loss, 1e3 * start, 1e3 * end, labels, PLACES)
    own = duals.reshape(N, len(PLACES), OUTPUTS)
    assert np.all(np.isfinite(loss.conjugate(own, labels[:, None, :])))


@pytest.mark.parametrize("name", LOSSES)
def test_conjugates_add_up_by_bucket(name, seed):
    """The totals of every bucket and plane are sums of weighted conjugates."""
    loss = make_loss(name)
    start, end, labels, weights = _samples(loss, seed)
    duals = touching_duals(loss, start, end, labels, PLACES)
    buckets = stream(seed, "buckets").integers(0, BUCKETS, N).astype(np.uint32)
    totals = conjugate_totals(loss, duals, labels, weights, buckets, BUCKETS + 1)
    expected = np.zeros((BUCKETS + 1, len(PLACES), OUTPUTS))
    own = duals.reshape(N, len(PLACES), OUTPUTS)
    values = weights[:, None, :] * loss.conjugate(own, labels[:, None, :])
    np.add.at(expected, buckets, values)
    assert totals == pytest.approx(expected.reshape(totals.shape), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_add_up_along_the_way(name, seed):
    """The sums at every step are those of the weighted losses there."""
    loss = make_loss(name)
    start, end, labels, weights = _samples(loss, seed)
    steps = np.array([0.0, 0.25, 1.0, 2.0])
    sums = sums_along(loss, start, end, labels, weights, steps)
    expected = [
        (weights * loss.value(start + step * (end - start), labels)).sum(axis=0)
        for step in steps
    ]
    assert sums == pytest.approx(np.array(expected), rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_samples_without_weight_are_passed_over(name, seed):
    """What others count may be anything here, even outside the domain."""
    loss = make_loss(name)
    start, end, labels, weights = _samples(loss, seed)
    duals = touching_duals(loss, start, end, labels, np.ones(1))
    buckets = np.zeros(N, np.uint32)
    nothing = weights == 0.0
    assert nothing.any()
    spoilt, wild = start.copy(), duals.copy()
    spoilt[nothing], wild[nothing] = np.nan, 1e9
    for usual, other in (
        (
            conjugate_totals(loss, duals, labels, weights, buckets, 1),
            conjugate_totals(loss, wild, labels, weights, buckets, 1),
        ),
        (
            sums_along(loss, start, end, labels, weights, np.ones(1)),
            sums_along(loss, spoilt, end, labels, weights, np.ones(1)),
        ),
    ):
        assert np.array_equal(usual, other)


@pytest.mark.parametrize("name", LOSSES)
@given(
    samples=st.lists(
        st.tuples(
            st.floats(-20.0, 20.0),  # margin
            st.floats(-20.0, 20.0),  # target, or its sign the class
            st.floats(0.0, 5.0),  # error
            st.floats(0.0, 3.0),  # weight
        ),
        min_size=1,
        max_size=6,
    ),
    signs=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1.0]), min_size=6, max_size=6),
)
def test_losses_stay_below_their_bound(name, samples, signs):
    """No margins within the errors have a larger loss, be it at the worst corner."""
    loss = make_loss(name)
    margins, labels, errors, weights = np.array(samples).T
    if loss.task == "classification":
        labels = np.where(labels > 0, 1.0, -1.0)
    total = float(weights @ loss.value(margins, labels))
    bound = loss.above(np.array([total]), errors, weights[:, None])[0]
    # Losses are convex: the worst place of a sample is at one end.
    worst = np.maximum(
        loss.value(margins - errors, labels), loss.value(margins + errors, labels)
    )
    drawn = loss.value(margins + np.array(signs)[: len(margins)] * errors, labels)
    for values in (worst, drawn):
        assert weights @ values <= bound * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("name", LOSSES)
def test_without_errors_the_bound_is_the_loss(name):
    """Nothing is added where nothing was rounded."""
    sums = np.array([[0.0, 0.3], [2.0, 1e6]])
    bound = make_loss(name).above(sums, np.zeros(3), np.ones((3, 2)))
    assert bound == pytest.approx(sums, rel=1e-15)


@pytest.mark.parametrize("name", ["half_squared", "hinge", "absolute"])
def test_the_bound_is_reached(name):
    """A smaller bound would be wrong: one sample is moved by all of its error."""
    loss = make_loss(name)
    margin, label, error = np.array([-1.0]), np.array([1.0]), np.array([0.5])
    bound = loss.above(loss.value(margin, label), error, np.ones((1, 1)))
    assert bound == pytest.approx(loss.value(margin - error, label), rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@given(dual=st.floats(-5.0, 5.0), label=st.floats(-5.0, 5.0))
def test_duals_are_put_into_the_domain(name, dual, label):
    """The nearest dual with a finite conjugate, itself if it has one."""
    loss = make_loss(name)
    if loss.task == "classification":
        label = math.copysign(1.0, label)
    duals, labels = np.array([dual]), np.array([label])
    inside = loss.into_domain(duals, labels)
    assert np.isfinite(loss.conjugate(inside, labels))
    if np.isfinite(loss.conjugate(duals, labels)):
        assert inside == duals
    else:
        low, high = loss.shape.low, loss.shape.high
        ends = np.array([low, high]) * (label if loss.task == "classification" else 1.0)
        assert abs(inside - dual) == pytest.approx(np.abs(ends - dual).min())


@pytest.mark.parametrize("name", LOSSES)
def test_covering_losses_bound_rounded_margins(name):
    """What errors may do to a loss is in the other loss, or left to the bound."""
    loss = make_loss(name)
    margins = np.linspace(-2.0, 2.0, 41)
    labels, errors = np.where(margins > 0.3, 1.0, -1.0), np.full(41, 0.01)
    other, rest = loss.covering(errors)
    assert rest.any() == (loss.shape.insensitivity == 0.0)
    most = np.maximum(
        loss.value(margins + errors, labels), loss.value(margins - errors, labels)
    )
    bound = other.value(margins, labels)
    if not rest.any():
        assert np.all(most <= bound * (1 + 1e-12))
        assert np.all(bound[np.abs(labels - margins) < 0.08] == 0.0)

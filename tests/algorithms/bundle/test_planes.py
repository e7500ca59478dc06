"""Cutting planes: what is kept of them, and that they bound the loss from below."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.algorithms.bundle import planes
from hyfdca.algorithms.bundle.planes import CuttingModel
from hyfdca.algorithms.bundle.slopes import Slopes
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.maths.seeds import stream

N_SAMPLES, N_FEATURES, N_BUCKETS, L2 = 30, 5, 3, 0.05


def _deliveries(random, sizes, n_features=4, n_outputs=2):
    return [random.normal(size=(size, n_features, n_outputs)) for size in sizes]


def _filled(deliveries, first=3):
    """Return slopes with some deliveries, the whole of them, and their numbers."""
    slopes = Slopes(*deliveries[0].shape[1:])
    for delivery in deliveries:
        slopes.append(first, delivery)
        first += len(delivery)
    whole = np.concatenate(deliveries)
    return slopes, whole, np.arange(first - len(whole), first)


def test_slopes_are_those_that_came(seed):
    """Planes are numbered on from the first, and combined with a weight each."""
    random = stream(seed, "slopes")
    slopes, whole, numbers = _filled(_deliveries(random, [2, 3, 1]))
    weights = random.normal(size=(6, 2))
    assert np.array_equal(slopes.numbers, numbers)
    assert np.array_equal(slopes.matrix(), whole)
    expected = np.einsum("sc,sfc->fc", weights, whole)
    assert slopes.combine(weights) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(st.sets(st.integers(3, 8)), st.integers(0, 99))
def test_slopes_that_are_not_kept_are_forgotten(kept, seed):
    """The kept slopes keep their numbers and order, however they were delivered."""
    random = stream(seed, "kept")
    slopes, whole, numbers = _filled(_deliveries(random, [2, 3, 1]))
    slopes.keep(np.array(sorted(kept), dtype=np.int64))
    held = np.isin(numbers, sorted(kept))
    weights = random.normal(size=(held.sum(), 2))
    assert np.array_equal(slopes.numbers, numbers[held])
    expected = np.einsum("sc,sfc->fc", weights, whole[held])
    assert slopes.combine(weights) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n_new", [1, 3, 4, 6])
def test_products_are_those_of_the_newest(n_new, seed):
    """Newest by all, over the features counted, whatever the deliveries were."""
    random = stream(seed, "products")
    slopes, whole, _ = _filled(_deliveries(random, [2, 1, 3]))
    counted = np.array([True, False, True, True])
    some = whole[:, counted]
    expected = np.einsum("sfc,pfc->spc", some[len(some) - n_new :], some)
    found = slopes.products(n_new, counted)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_slopes_without_planes_combine_to_zero():
    """Before the first delivery w is 0."""
    slopes = Slopes(4, 2)
    assert len(slopes.numbers) == 0
    assert np.array_equal(slopes.combine(np.empty((0, 2))), np.zeros((4, 2)))


def _objective(random, loss):
    X = sp.csr_array(random.normal(size=(N_SAMPLES, N_FEATURES)))
    labels = random.normal(size=(N_SAMPLES, 1))
    if loss.task == "classification":
        labels = np.where(labels > 0, 1.0, -1.0)
    return Objective(X, labels, loss, L2)


def _empty_model(keeps_gram=True):
    slopes = Slopes(N_FEATURES, 1)
    return CuttingModel(N_BUCKETS, 1, L2 * N_SAMPLES**2, slopes, keeps_gram)


def _add_planes(model, objective, weights):
    """Add the planes that touch the loss at a point, one per bucket."""
    duals = -objective.loss.derivative(objective.margins(weights), objective.labels)
    conjugates = objective.loss.conjugate(duals, objective.labels) / N_SAMPLES
    bucket_of = np.arange(N_SAMPLES) % N_BUCKETS
    sums = [
        (objective.X.T @ np.where(bucket_of == b, duals[:, 0], 0.0))[:, None]
        for b in range(N_BUCKETS)
    ]
    offsets = -np.bincount(bucket_of, conjugates[:, 0])[:, None]
    update = model.remember(np.stack(sums))
    model.add(np.arange(N_BUCKETS), offsets, update)


def _point(model, objective):
    """Return the w of the model's plane weights."""
    sloped = model.weights[N_BUCKETS:]
    return model.slopes.combine(sloped) / objective.l2_scale


def _bundle(model, objective, n_rounds=4):
    """Solve, touch the loss at the new point, and so on."""
    weights = np.zeros((N_FEATURES, 1))
    for _ in range(n_rounds):
        _add_planes(model, objective, weights)
        model.solve(np.array([1e-9]))
        weights = _point(model, objective)


@pytest.mark.parametrize("loss", LOSSES)
def test_planes_are_below_the_loss(loss, seed):
    """At any point each bucket's loss is above each of its planes."""
    random = stream(seed, "below", loss)
    objective = _objective(random, make_loss(loss))
    model = _empty_model()
    for _ in range(3):
        _add_planes(model, objective, random.normal(size=(N_FEATURES, 1)))
    flat = np.zeros((N_BUCKETS, N_FEATURES))  # the planes of α = 0
    slopes = np.concatenate([flat, model.slopes.matrix()[:, :, 0]])
    bucket_of = np.arange(N_SAMPLES) % N_BUCKETS
    for _ in range(20):
        weights = 3.0 * random.normal(size=(N_FEATURES, 1))
        values = objective.loss.value(objective.margins(weights), objective.labels)
        losses = np.bincount(bucket_of, values[:, 0]) / N_SAMPLES
        heights = model.offsets[:, 0] - slopes @ weights[:, 0] / N_SAMPLES
        assert np.all(heights <= losses[model.buckets] + 1e-12)


@pytest.mark.parametrize("keeps_gram", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_bound_is_never_above_the_optimum(loss, keeps_gram, seed):
    """D(b) is below P* for the best weights, and for any others."""
    random = stream(seed, "bound", loss)
    objective = _objective(random, make_loss(loss))
    optimum = reference_optimum(objective, 1e-10).primal
    model = _empty_model(keeps_gram)
    _bundle(model, objective)
    best = model.weights
    for weights in (best, *random.random((20, *best.shape))):
        sums = np.bincount(model.buckets, weights[:, 0])
        model.weights = weights / sums[model.buckets][:, None]
        point = _point(model, objective)
        [bound] = model.bound(L2 * (point**2).sum(axis=0), 0.0)
        assert bound <= optimum
        [lower] = model.bound(L2 * (point**2).sum(axis=0), 0.01)
        assert lower < bound


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "half_squared"])
def test_the_bound_rises_to_the_optimum(loss, seed):
    """Planes at the model's own points close the gap."""
    objective = _objective(stream(seed, "rises", loss), make_loss(loss))
    model = _empty_model()
    _bundle(model, objective, n_rounds=60)
    [bound] = model.bound(model.squared_norms(), 0.0)
    optimum = reference_optimum(objective, 1e-10).primal
    # A cutting plane method without a line search: slow in the end.
    assert 0.999 * optimum <= bound <= optimum


def test_gram_and_slopes_tell_the_same_length(seed):
    """λ||w||² from products of slopes is that of w, and more where they may be off."""
    objective = _objective(stream(seed, "lengths"), make_loss("hinge"))
    model = _empty_model()
    _bundle(model, objective)
    point = _point(model, objective)
    exact = L2 * (point**2).sum()
    assert model.squared_norms() == pytest.approx(exact, rel=1e-9)
    model.errors[-1] = 0.5
    expected = exact + model.weights[-1] * (model.units @ model.weights)
    assert model.squared_norms() == pytest.approx(expected, rel=1e-9)


def test_errors_of_gram_entries_are_covered(seed):
    """For any errors of entries within bounds, the length returned is no smaller."""
    random = stream(seed, "errors")
    objective = _objective(random, make_loss("hinge"))
    model = _empty_model()
    _bundle(model, objective)
    exact, errors = model.gram.copy(), random.random(len(model.numbers))
    model.errors = errors
    # The newer plane has it in units of the older one's length.
    by_newer = np.tril(np.outer(errors, model.units))
    worst = np.maximum(by_newer, by_newer.T)[:, :, None]
    length = np.einsum("sc,spc,pc->c", model.weights, exact, model.weights)
    for _ in range(20):
        off = random.uniform(-1.0, 1.0, worst.shape)
        model.gram = exact + worst * (off + off.transpose(1, 0, 2)) / 2
        assert np.all(model.squared_norms() >= length)
    model.gram = exact - worst
    assert np.all(model.squared_norms() >= length)


@pytest.mark.parametrize("keeps_gram", [True, False])
def test_planes_without_weight_are_forgotten_in_time(keeps_gram, seed):
    """The planes of α = 0 stay; others go when they had no weight for long."""
    objective = _objective(stream(seed, "forget"), make_loss("hinge"))
    model = _empty_model(keeps_gram)
    _bundle(model, objective)
    used = model.weights.max(axis=1) > planes._NO_WEIGHT
    used[:N_BUCKETS] = True
    before = model.numbers
    model.ages = np.where(used, 0.0, planes._MAX_AGE)
    model.forget()
    assert np.array_equal(model.numbers, before)
    model.ages += ~used
    model.forget()
    assert np.array_equal(model.numbers, before[used])
    assert np.array_equal(model.numbers[:N_BUCKETS], np.arange(N_BUCKETS))
    assert np.array_equal(model.slopes.numbers, model.sloped)
    if keeps_gram:
        expected = model.slopes.products(len(model.sloped), slice(None)) / model.scale
        kept = model.gram[N_BUCKETS:, N_BUCKETS:]
        assert kept == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_planes_age_while_they_have_no_weight(seed):
    """A solve makes planes without weight older by the given age."""
    objective = _objective(stream(seed, "ages"), make_loss("hinge"))
    model = _empty_model()
    _bundle(model, objective)
    ages = model.ages.copy()
    model.solve(np.array([1e-9]), age=0.25)
    used = model.weights.max(axis=1) > planes._NO_WEIGHT
    assert used.any()
    assert not used.all()
    assert np.array_equal(model.ages, np.where(used, 0.0, ages + 0.25))


def test_there_are_never_too_many_planes(seed):
    """A full bucket loses its lightest planes, the oldest of equals; α = 0 stays."""
    random = stream(seed, "full")
    objective = _objective(random, make_loss("logistic"))
    model = _empty_model()
    model.max_planes = 5
    for _ in range(9):
        _add_planes(model, objective, random.normal(size=(N_FEATURES, 1)))
    model.weights[N_BUCKETS:] = random.random((9 * N_BUCKETS, 1))
    model.weights[:N_BUCKETS] = 0.0
    weights, numbers, buckets = model.weights[:, 0], model.numbers, model.buckets
    model.forget()
    assert np.bincount(model.buckets).tolist() == [5] * N_BUCKETS
    for bucket in range(N_BUCKETS):
        own = np.flatnonzero(buckets == bucket)[1:]
        heaviest = own[np.argsort(weights[own])[-4:]]
        expected = np.sort(np.append(bucket, heaviest))
        assert np.array_equal(model.numbers[model.buckets == bucket], numbers[expected])


def test_outputs_are_solved_apart(seed):
    """A second output changes neither the weights nor the bound of the first."""
    random = stream(seed, "outputs")
    slopes = random.normal(size=(4, N_FEATURES, 2))
    offsets = random.normal(size=(4, 2))

    def solved(outputs):
        own = np.ascontiguousarray(slopes[:, :, outputs])
        model = CuttingModel(
            2, len(outputs), 1.0, Slopes(N_FEATURES, len(outputs)), True
        )
        update = model.remember(own)
        model.add(np.array([0, 1, 0, 1]), offsets[:, outputs], update)
        model.solve(np.full(len(outputs), 1e-10))
        return model

    both, first = solved([0, 1]), solved([0])
    assert np.array_equal(both.weights[:, :1], first.weights)
    assert both.bound(both.squared_norms(), 0.0)[0] == pytest.approx(
        first.bound(first.squared_norms(), 0.0)[0], rel=1e-12
    )

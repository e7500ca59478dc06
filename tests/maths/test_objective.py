import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import LinearConstraint, minimize
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC, LinearSVR

from hyfdca.maths.kernels import add_row_combination, row_products
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.objective import (
    Objective,
    reference_optimum,
    relative_gap,
    visiting_order,
)
from hyfdca.maths.seeds import stream

L2 = 0.05
TOLERANCE = 1e-8


@pytest.fixture(params=LOSSES)
def objective(request, problem_for):
    loss = make_loss(request.param)
    X, labels = problem_for(loss)
    return Objective(X, labels, loss, L2)


def _feasible_duals(objective, random):
    """Return random duals inside the domain of the loss."""
    shape = objective.loss.shape
    low, high = max(shape.low, -2.0), min(shape.high, 2.0)
    b = random.uniform(low, high, objective.labels.shape)
    return b * objective.labels if shape.is_classification else b


def test_primal_matches_a_dense_formula(objective, seed):
    """P is the regulariser and the mean loss, sample by sample."""
    X, y, N = objective.X.toarray(), objective.labels, objective.labels.shape[0]
    w = stream(seed, "weights").normal(size=(X.shape[1], 1))
    losses = [
        float(objective.loss.value(sum(X[i, j] * w[j, 0] for j in range(6)), y[i, 0]))
        for i in range(N)
    ]
    expected = L2 / 2 * sum(v**2 for v in w[:, 0]) + sum(losses) / N
    assert objective.primal(w) == pytest.approx(expected, rel=1e-13)


def test_weights_and_dual_match_dense_formulas(objective, seed):
    """Both w(a) and D are the formulas of the module's docstring."""
    X, y, N = objective.X.toarray(), objective.labels, objective.labels.shape[0]
    a = _feasible_duals(objective, stream(seed, "duals"))
    w = sum(a[i, 0] * X[i] for i in range(N)) / (L2 * N)
    np.testing.assert_allclose(objective.weights_from(a)[:, 0], w, rtol=1e-12)
    conjugates = [float(objective.loss.conjugate(a[i, 0], y[i, 0])) for i in range(N)]
    expected = -L2 / 2 * w @ w - sum(conjugates) / N
    assert objective.dual(a) == pytest.approx(expected, rel=1e-12)
    assert objective.dual(a, w[:, None]) == pytest.approx(expected, rel=1e-12)


def test_margins_and_curvatures_match_dense_formulas(objective, seed):
    """Margins are X w, curvatures squared norms over l2 times N."""
    X, N = objective.X.toarray(), objective.labels.shape[0]
    w = stream(seed, "weights").normal(size=(X.shape[1], 1))
    np.testing.assert_allclose(objective.margins(w), X @ w, atol=1e-13)
    norms = np.linalg.norm(X, axis=1, keepdims=True) ** 2
    np.testing.assert_allclose(objective.curvatures, norms / (L2 * N), rtol=1e-13)
    assert objective.l2_scale == pytest.approx(L2 * N)


def test_the_gap_is_never_negative(objective, seed):
    """P(w(a)) is at least D(a') for any feasible duals a and a'."""
    random = stream(seed, "gap")
    duals = [_feasible_duals(objective, random) for _ in range(50)]
    for a in duals:
        P = objective.primal(objective.weights_from(a))
        assert objective.gap(a) >= -1e-12
        assert objective.gap(a) == pytest.approx(P - objective.dual(a), rel=1e-12)
    lowest = min(objective.primal(objective.weights_from(a)) for a in duals)
    assert lowest >= max(objective.dual(a) for a in duals) - 1e-12


def test_infeasible_duals_have_no_dual_value(objective):
    """Outside the domain D is minus infinity and the gap infinite."""
    shape = objective.loss.shape
    duals = np.zeros(objective.labels.shape)
    if math.isinf(shape.high) and math.isinf(shape.low):
        assert math.isfinite(objective.dual(duals + 1e9))
        return
    end = shape.high + 1 if math.isfinite(shape.high) else shape.low - 1
    duals[3] = end * (objective.labels[3] if shape.is_classification else 1.0)
    assert objective.dual(duals) == -math.inf
    assert objective.gap(duals) == math.inf


def test_weights_of_samples_are_repetitions(objective, seed):
    """A sample of weight 3 counts as three rows (0: none), at equal l2 times N."""
    random = stream(seed, "repeat")
    N = objective.labels.shape[0]
    times = random.integers(0, 4, size=N)
    weighted = Objective(
        objective.X,
        objective.labels,
        objective.loss,
        L2,
        times[:, None].astype(np.float64),
    )
    rows = np.repeat(np.arange(N), times)
    M = len(rows)
    repeated = Objective(
        objective.X[rows], objective.labels[rows], objective.loss, L2 * N / M
    )
    a = _feasible_duals(objective, random)
    w = random.normal(size=(objective.X.shape[1], 1))
    np.testing.assert_allclose(
        weighted.weights_from(a), repeated.weights_from(a[rows]), rtol=1e-12
    )
    assert N * weighted.primal(w) == pytest.approx(M * repeated.primal(w))
    assert N * weighted.dual(a) == pytest.approx(M * repeated.dual(a[rows]))
    best, same = reference_optimum(weighted, 1e-7), reference_optimum(repeated, 1e-7)
    assert N * best.primal == pytest.approx(M * same.primal, rel=3e-7)


def test_outputs_are_problems_of_their_own(seed, classification):
    """P, D and the optimum of two columns are the sums over the columns."""
    loss = make_loss("hinge")
    other = np.where(stream(seed, "flip").random(24) < 0.3, -1.0, 1.0)[:, None]
    columns = [classification.labels, classification.labels * other]
    both = Objective(classification.X, np.hstack(columns), loss, L2)
    single = [Objective(classification.X, y, loss, L2) for y in columns]
    a = np.hstack([_feasible_duals(o, stream(seed, "duals")) for o in single])
    w = both.weights_from(a)
    parts = [o.primal(w[:, [k]]) for k, o in enumerate(single)]
    assert both.primal(w) == pytest.approx(sum(parts))
    parts = [o.dual(a[:, [k]]) for k, o in enumerate(single)]
    assert both.dual(a) == pytest.approx(sum(parts))
    optimum = reference_optimum(both, TOLERANCE)
    parts = [reference_optimum(o, TOLERANCE).primal for o in single]
    assert optimum.primal == pytest.approx(sum(parts), rel=3 * TOLERANCE)
    assert optimum.weights.shape == w.shape


def _textbook(name, z, y, p):
    """Return the smooth losses that scikit-learn does not have, and their slopes."""
    r = y - z
    short = np.maximum(0, 1 - y * z)
    return {
        "half_squared_hinge": lambda: (short**2 / 2, -y * short),
        "smoothed_hinge": lambda: (
            np.where(short <= p, short**2 / (2 * p), short - p / 2),
            -y * np.minimum(short / p, 1),
        ),
        "huber": lambda: (
            np.where(abs(r) <= p, r**2 / 2, p * abs(r) - p**2 / 2),
            -np.clip(r, -p, p),
        ),
        "scaled_huber": lambda: (
            np.where(abs(r) <= p, r**2 / (2 * p), abs(r) - p / 2),
            -np.clip(r / p, -1, 1),
        ),
    }[name]()


def _by_lbfgs(name):
    def solve(X, y, N):
        p = make_loss(name).parameter

        def primal(w):
            values, slopes = _textbook(name, X @ w, y, p)
            return L2 / 2 * w @ w + values.mean(), L2 * w + X.T @ slopes / N

        options = {"ftol": 1e-16, "gtol": 1e-11, "maxiter": 10_000}
        start = np.zeros(X.shape[1])
        return minimize(primal, start, jac=True, method="L-BFGS-B", options=options).x

    return solve


def _pinball_by_quadratic_programming(X, y, N):
    """Minimise over weights w and slacks u above both lines of the loss."""
    tau = make_loss("pinball").parameter
    M = X.shape[1]
    eye = np.eye(N)
    above = np.block([[tau * X, eye], [(tau - 1) * X, eye]])
    limits = np.concatenate([tau * y, (tau - 1) * y])
    found = minimize(
        lambda v: L2 / 2 * v[:M] @ v[:M] + v[M:].mean(),
        np.concatenate([np.zeros(M), np.abs(y)]),
        jac=lambda v: np.concatenate([L2 * v[:M], np.full(N, 1 / N)]),
        constraints=LinearConstraint(above, limits, np.inf),
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    return found.x[:M]


def _by_liblinear(kind, loss, **options):
    def solve(X, y, N):
        model = kind(
            C=1 / (L2 * N),
            loss=loss,
            fit_intercept=False,
            dual=True,
            tol=1e-10,
            max_iter=1_000_000,
            random_state=0,
            **options,
        )
        return model.fit(X, y).coef_.ravel()

    return solve


def _logistic(X, y, N):
    model = LogisticRegression(
        C=1 / (L2 * N), fit_intercept=False, tol=1e-12, max_iter=10_000
    )
    return model.fit(X, y).coef_.ravel()


def _ridge(alpha_factor):
    def solve(X, y, N):
        alpha = alpha_factor * L2 * N
        model = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky").fit(X, y)
        closed = np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ y)
        np.testing.assert_allclose(model.coef_, closed, rtol=1e-9)
        return closed

    return solve


SOLVERS = {
    "hinge": _by_liblinear(LinearSVC, "hinge"),
    "squared_hinge": _by_liblinear(LinearSVC, "squared_hinge"),
    "half_squared_hinge": _by_lbfgs("half_squared_hinge"),
    "smoothed_hinge": _by_lbfgs("smoothed_hinge"),
    "logistic": _logistic,
    "half_squared": _ridge(1.0),
    "squared": _ridge(0.5),
    "absolute": _by_liblinear(LinearSVR, "epsilon_insensitive", epsilon=0.0),
    "epsilon_insensitive": _by_liblinear(LinearSVR, "epsilon_insensitive", epsilon=0.1),
    "squared_epsilon_insensitive": _by_liblinear(
        LinearSVR, "squared_epsilon_insensitive", epsilon=0.1
    ),
    "huber": _by_lbfgs("huber"),
    "scaled_huber": _by_lbfgs("scaled_huber"),
    "pinball": _pinball_by_quadratic_programming,
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_reference_agrees_with_other_solvers(name, problem_for):
    """An independent solver, with the bias as a constant column, finds the same P."""
    loss = make_loss(name)
    X, labels = problem_for(loss)
    X = sp.csr_array(sp.hstack([X, np.ones((X.shape[0], 1))]))
    objective = Objective(X, labels, loss, L2)
    optimum = reference_optimum(objective, TOLERANCE)
    assert optimum.relative_gap <= TOLERANCE
    found = SOLVERS[name](X.toarray(), labels.ravel(), X.shape[0])
    other = objective.primal(found[:, None])
    assert optimum.primal == pytest.approx(other, rel=1e-6)
    # P is l2-strongly convex: near values mean near weights.
    distance = np.linalg.norm(optimum.weights[:, 0] - found)
    assert distance <= math.sqrt(2 * 2e-6 * other / L2)


def test_the_reference_certifies_what_it_returns(objective):
    """The stated gap is reached, and P, D and weights are those of the duals."""
    optimum = reference_optimum(objective, 1e-7)
    assert optimum.relative_gap <= 1e-7
    assert optimum.primal >= optimum.dual - 1e-15
    assert optimum.primal == objective.primal(objective.weights_from(optimum.duals))
    assert optimum.dual == objective.dual(optimum.duals)
    np.testing.assert_array_equal(
        optimum.weights, objective.weights_from(optimum.duals)
    )


@pytest.mark.parametrize("name", LOSSES)
def test_zero_rows_do_not_leave_the_gap_open(name, problem_for, seed):
    """Samples without features reach their best dual too."""
    loss = make_loss(name)
    X, labels = problem_for(loss)
    kept = (stream(seed, "rows").random(X.shape[0]) < 0.5).astype(np.float64)
    X = sp.csr_array(X.multiply(kept[:, None]))
    X.eliminate_zeros()
    assert np.sum(np.diff(X.indptr) == 0) > 3
    optimum = reference_optimum(Objective(X, labels, loss, L2), 1e-7)
    assert optimum.relative_gap <= 1e-7


def test_an_epoch_limit_shows_in_the_gap(classification):
    """A failure to converge is a field of the result, not an exception."""
    objective = Objective(*classification, make_loss("hinge"), 1e-6)
    optimum = reference_optimum(objective, 1e-12, max_epochs=3)
    assert optimum.n_epochs == 3
    assert optimum.relative_gap > 1e-12
    assert reference_optimum(objective, max_epochs=0).n_epochs == 0


def test_the_reference_follows_from_its_seed(classification, seed):
    """The same seed gives the same bits; another seed, the same optimum."""
    objective = Objective(*classification, make_loss("hinge"), L2)
    first, again, other = (
        reference_optimum(objective, TOLERANCE, seed=s) for s in (seed, seed, seed + 1)
    )
    np.testing.assert_array_equal(first.duals, again.duals)
    assert not np.array_equal(first.duals, other.duals)
    assert first.primal == pytest.approx(other.primal, rel=2 * TOLERANCE)


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 65_535, 65_536, 65_537, 100_003])
def test_every_row_is_visited_once(n, seed):
    """The order is a permutation of the rows, for small and large tables."""
    order = visiting_order(n, stream(seed, "order"))
    assert order.dtype == np.uint32
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    if n > 1000:
        assert not np.array_equal(order, visiting_order(n, stream(seed, "other")))
        # Runs are short: the runs that follow each other are far apart.
        starts = order[np.flatnonzero(np.diff(order.astype(np.int64)) != 1) + 1]
        assert len(starts) >= n / 40
        assert np.median(np.abs(np.diff(starts.astype(np.int64)))) > n / 10


@pytest.mark.parametrize(
    ("primal", "dual", "expected"),
    [
        (0.0, 0.0, 0.0),
        (1.0, 1.0, 0.0),
        (2.0, 1.0, 0.5),
        (1.0, -1.0, 2.0),
        (1.0, -math.inf, math.inf),
    ],
)
def test_relative_gap_is_relative_to_the_primal(primal, dual, expected):
    """The certificate's number is (P - D) / P, and 0 when both are 0."""
    assert relative_gap(primal, dual) == expected


def test_relative_gap_never_divides_by_zero():
    """A primal of 0 with an open gap is huge, not an error and not small."""
    assert relative_gap(0.0, -1.0) > 1e300


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_kernels_match_dense_products(seed, classification, n_outputs):
    """The two sparse products are X[rows] w and its transpose, any rows, any order."""
    X = classification.X
    random = stream(seed, "kernels")
    rows = np.array([5, 23, 0, 5, 17])
    weights = random.normal(size=(X.shape[1], n_outputs))
    out = np.full((5, n_outputs), np.nan)
    row_products(X.indptr, X.indices, X.data, rows, weights, out)
    np.testing.assert_allclose(out, X.toarray()[rows] @ weights, atol=1e-14)
    coefficients = random.normal(size=(5, n_outputs))
    coefficients[3] = 0.0
    total = weights.copy()
    add_row_combination(X.indptr, X.indices, X.data, rows, coefficients, total)
    expected = weights + X.toarray()[rows].T @ coefficients
    np.testing.assert_allclose(total, expected, atol=1e-14)

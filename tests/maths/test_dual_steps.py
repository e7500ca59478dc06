"""The best change of one dual, against searches and laws."""

import numpy as np
import pytest
from numba import njit
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from hyfdca.maths.losses import dual_step, make_loss
from hyfdca.maths.seeds import stream
from tests.maths.loss_cases import MARGINS, N_CASES


def test_dual_step_beats_a_grid_of_alternatives(case):
    """No other feasible change has a larger dual objective."""
    args = (case.a, case.z, case.y, case.q)
    step = case.loss.dual_step(*args)
    b = case.sign(case.y) * (case.a + step)
    assert np.all((case.low <= b) & (b <= case.high))
    best = case.dual_objective(case.sign(case.y) * b, *args)
    low, high = max(case.low, -60.0), min(case.high, 60.0)
    wide = np.linspace(low, high, 2001)[:, None] * case.sign(case.y)
    near = case.a + step + np.linspace(-1e-3, 1e-3, 201)[:, None]
    for grid in (wide, near):
        others = case.dual_objective(grid, *args)
        assert np.all(others <= best + 1e-12 * (1 + np.abs(best)))


def test_dual_step_matches_bounded_maximisation(case):
    """A general one-dimensional solver finds the same new dual."""
    for i in range(0, N_CASES, 10):
        a, z, y, q = case.a[i], case.z[i], case.y[i], case.q[i]
        ends = np.clip([case.low, case.high], -1e3, 1e3) * case.sign(y)
        found = minimize_scalar(
            lambda new, a=a, z=z, y=y, q=q: -case.dual_objective(new, a, z, y, q),
            bounds=sorted(ends),
            method="bounded",
            options={"xatol": 1e-11, "maxiter": 500},
        )
        # Golden section sees the objective (size z^2 / q, curvature q) to rounding.
        new = a + case.loss.dual_step(a, z, y, q)
        assert new == pytest.approx(found.x, abs=1e-5 * (1 + abs(new)))


def test_dual_step_obeys_the_moreau_identity(case):
    """The change is (prox_{q l}(z - q a) - z) / q, with the prox found numerically."""
    for i in range(0, N_CASES, 10):
        a, z, y, q = case.a[i], case.z[i], case.y[i], case.q[i]
        centre = z - q * a
        reach = 1 + q * 10 + abs(centre) + abs(y)
        prox = minimize_scalar(
            lambda p, y=y, q=q, c=centre: q * case.value(p, y) + (p - c) ** 2 / 2,
            bounds=(-2 * reach, 2 * reach),
            method="bounded",
            options={"xatol": 1e-11, "maxiter": 500},
        ).x
        step = case.loss.dual_step(a, z, y, q)
        # The prox is found to the root of rounding in an objective of size reach^2.
        assert z + q * step == pytest.approx(prox, abs=2e-7 * reach)


def test_dual_step_leads_to_the_margin_it_belongs_to(case):
    """-a' is a subgradient at z + q d, the condition of optimality, to rounding."""
    step = case.loss.dual_step(case.a, case.z, case.y, case.q)
    new, margin = case.a + step, case.z + case.q * step
    here = case.value(margin, case.y)
    for h in (-1.0, -1e-3, -1e-6, 1e-6, 1e-3, 1.0):
        rise = case.value(margin + h, case.y) - here
        assert np.all(rise + new * h >= -1e-12 * (1 + np.abs(here)))


def test_dual_step_is_zero_at_the_optimum(case):
    """A dual that is optimal for its margin does not move."""
    duals = -case.loss.derivative(case.z, case.y)
    step = case.loss.dual_step(duals, case.z, case.y, case.q)
    np.testing.assert_allclose(step, 0.0, atol=1e-12)


def test_zero_curvature_jumps_to_minus_the_derivative(case):
    """A row of zeros has margin 0 and its best dual is -l'(0), whatever it was."""
    zeros = np.zeros(N_CASES)
    step = case.loss.dual_step(case.a, zeros, case.y, zeros)
    new = case.a + step
    np.testing.assert_allclose(new, -case.loss.derivative(zeros, case.y), atol=1e-12)
    gap = case.value(zeros, case.y) + case.conjugate(
        -case.loss.derivative(zeros, case.y), case.y
    )
    np.testing.assert_allclose(gap, 0.0, atol=1e-12)


@pytest.mark.parametrize("name", ["hinge", "smoothed_hinge"])
def test_zero_curvature_goes_to_the_end_of_the_domain(name):
    """For the hinge losses the best dual of a zero row is the label itself."""
    labels = np.array([-1.0, 1.0])
    zeros = np.zeros(2)
    step = make_loss(name).dual_step(zeros, zeros, labels, zeros)
    np.testing.assert_array_equal(step, labels)


@pytest.mark.parametrize("curvature", [1e-300, 1e-18, 1e-9])
def test_tiny_curvature_is_like_none(case, curvature):
    """Rows that are nearly zero neither overflow nor leave the domain."""
    zeros = np.zeros(N_CASES)
    step = case.loss.dual_step(case.a, zeros, case.y, np.full(N_CASES, curvature))
    expected = -case.loss.derivative(zeros, case.y) - case.a
    np.testing.assert_allclose(step, expected, atol=1e-7)


def _logistic_oracle(b, m, q):
    """Return sigma at the root of x + m + q (sigma(x) - b), by bisection."""
    low, high = -m - q * (1 - b), -m + q * b
    if low == high:
        return float(expit(low))
    root = brentq(
        lambda x: x + m + q * (expit(x) - b), low - 1, high + 1, xtol=1e-300, rtol=1e-15
    )
    return float(expit(root))


@pytest.mark.parametrize("curvature", [0.0, 1e-3, 1e-1, 1.0, 37.0, 1e3, 1e6])
@pytest.mark.parametrize("dual", [0.0, 1e-300, 1e-16, 0.3, 0.5, 1 - 1e-16, 1.0])
def test_logistic_dual_step_in_extreme_cases(curvature, dual):
    """From 0, from 1 and between, for any margin and curvature the root is found."""
    logistic = make_loss("logistic")
    for label in (-1.0, 1.0):
        for m in MARGINS[:-1] + [-m for m in MARGINS[1:-1]]:
            step = logistic.dual_step(label * dual, label * m, label, curvature)
            new = dual + label * float(step)
            assert 0.0 <= new <= 1.0
            assert new == pytest.approx(_logistic_oracle(dual, m, curvature), abs=1e-12)


@njit
def _steps_one_by_one(duals, margins, labels, curvatures, constants, out):
    for i in range(duals.size):
        out[i] = dual_step(duals[i], margins[i], labels[i], curvatures[i], *constants)


def test_kernels_and_arrays_give_the_same_bits(case):
    """The formula on numbers inside a kernel and on arrays is one formula."""
    args = (case.a, case.z, case.y, case.q)
    out = np.empty(N_CASES)
    _steps_one_by_one(*args, case.loss.constants, out)
    np.testing.assert_array_equal(out, case.loss.dual_step(*args))


@pytest.mark.parametrize(
    ("name", "parameter"), [("huber", 1.35), ("huber", 0.3), ("pinball", 0.3)]
)
def test_a_dual_after_its_step_is_feasible(name, parameter):
    """The sum of a feasible dual and its step is feasible, to the last bit."""
    loss, random, n = make_loss(name, parameter), stream(0, "feasible"), 20_000
    a = random.uniform(loss.shape.low, loss.shape.high, n)
    y, z, q = 2 * random.normal(size=n), 5 * random.normal(size=n), np.full(n, 0.1)
    assert np.all(np.isfinite(loss.conjugate(a + loss.dual_step(a, z, y, q), y)))

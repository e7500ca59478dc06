import math

import numpy as np
import pytest
from numba import njit
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, xlog1py, xlogy

from hyfdca.losses import ALIASES, LOSSES, dual_step, make_loss
from hyfdca.seeds import stream

# Textbook formulas, written without the package's trick: the loss of margin z and
# label or target y, its parameter p, and l*(-a) in b = y a (or a) on its domain.
VALUES = {
    "hinge": lambda z, y, p: np.maximum(0, 1 - y * z),
    "squared_hinge": lambda z, y, p: np.maximum(0, 1 - y * z) ** 2,
    "half_squared_hinge": lambda z, y, p: np.maximum(0, 1 - y * z) ** 2 / 2,
    "smoothed_hinge": lambda z, y, p: np.where(
        y * z >= 1,
        0.0,
        np.where(y * z <= 1 - p, 1 - y * z - p / 2, (1 - y * z) ** 2 / (2 * p)),
    ),
    "logistic": lambda z, y, p: np.logaddexp(0, -y * z),
    "half_squared": lambda z, y, p: (z - y) ** 2 / 2,
    "squared": lambda z, y, p: (z - y) ** 2,
    "absolute": lambda z, y, p: np.abs(z - y),
    "epsilon_insensitive": lambda z, y, p: np.maximum(0, np.abs(z - y) - p),
    "squared_epsilon_insensitive": lambda z, y, p: (
        np.maximum(0, np.abs(z - y) - p) ** 2
    ),
    "huber": lambda z, y, p: np.where(
        np.abs(z - y) <= p, (z - y) ** 2 / 2, p * np.abs(z - y) - p**2 / 2
    ),
    "scaled_huber": lambda z, y, p: np.where(
        np.abs(z - y) <= p, (z - y) ** 2 / (2 * p), np.abs(z - y) - p / 2
    ),
    "pinball": lambda z, y, p: np.where(y >= z, p * (y - z), (1 - p) * (z - y)),
}
CONJUGATES = {
    "hinge": lambda b, y, p: -b,
    "squared_hinge": lambda b, y, p: -b + b**2 / 4,
    "half_squared_hinge": lambda b, y, p: -b + b**2 / 2,
    "smoothed_hinge": lambda b, y, p: -b + p * b**2 / 2,
    "logistic": lambda b, y, p: xlogy(b, b) + xlog1py(1 - b, -b),
    "half_squared": lambda b, y, p: b**2 / 2 - y * b,
    "squared": lambda b, y, p: b**2 / 4 - y * b,
    "absolute": lambda b, y, p: -y * b,
    "epsilon_insensitive": lambda b, y, p: -y * b + p * np.abs(b),
    "squared_epsilon_insensitive": lambda b, y, p: -y * b + p * np.abs(b) + b**2 / 4,
    "huber": lambda b, y, p: b**2 / 2 - y * b,
    "scaled_huber": lambda b, y, p: p * b**2 / 2 - y * b,
    "pinball": lambda b, y, p: -y * b,
}
DOMAINS = {
    "hinge": lambda p: (0, 1),
    "squared_hinge": lambda p: (0, math.inf),
    "half_squared_hinge": lambda p: (0, math.inf),
    "smoothed_hinge": lambda p: (0, 1),
    "logistic": lambda p: (0, 1),
    "half_squared": lambda p: (-math.inf, math.inf),
    "squared": lambda p: (-math.inf, math.inf),
    "absolute": lambda p: (-1, 1),
    "epsilon_insensitive": lambda p: (-1, 1),
    "squared_epsilon_insensitive": lambda p: (-math.inf, math.inf),
    "huber": lambda p: (-p, p),
    "scaled_huber": lambda p: (-1, 1),
    "pinball": lambda p: (p - 1, p),
}
# The steepest slope L and the Lipschitz constant of the derivative.
CONSTANTS = {
    "hinge": lambda p: (1, math.inf),
    "squared_hinge": lambda p: (math.inf, 2),
    "half_squared_hinge": lambda p: (math.inf, 1),
    "smoothed_hinge": lambda p: (1, 1 / p),
    "logistic": lambda p: (1, 1 / 4),
    "half_squared": lambda p: (math.inf, 1),
    "squared": lambda p: (math.inf, 2),
    "absolute": lambda p: (1, math.inf),
    "epsilon_insensitive": lambda p: (1, math.inf),
    "squared_epsilon_insensitive": lambda p: (math.inf, 2),
    "huber": lambda p: (p, 1),
    "scaled_huber": lambda p: (1, 1 / p),
    "pinball": lambda p: (max(p, 1 - p), math.inf),
}
# Distances y z (or y - z) at which a loss has a kink or its derivative one.
KINKS = {
    "hinge": lambda p: [1],
    "squared_hinge": lambda p: [1],
    "half_squared_hinge": lambda p: [1],
    "smoothed_hinge": lambda p: [1, 1 - p],
    "logistic": lambda p: [],
    "half_squared": lambda p: [],
    "squared": lambda p: [],
    "absolute": lambda p: [0],
    "epsilon_insensitive": lambda p: [-p, p],
    "squared_epsilon_insensitive": lambda p: [-p, p],
    "huber": lambda p: [-p, p],
    "scaled_huber": lambda p: [-p, p],
    "pinball": lambda p: [0],
}
EXTRA = [
    ("smoothed_hinge", 0.1),
    ("smoothed_hinge", 2.0),
    ("epsilon_insensitive", 0.7),
    ("squared_epsilon_insensitive", 0.7),
    ("huber", 0.3),
    ("scaled_huber", 0.3),
    ("pinball", 0.1),
    ("pinball", 0.9),
]
CASES = [(name, None) for name in LOSSES] + EXTRA
N_CASES = 300


class Case:
    """A loss beside its textbook formulas."""

    def __init__(self, name, parameter, seed):
        self.loss = make_loss(name, parameter)
        self.name, p = name, self.loss.parameter
        self.random = stream(seed, "losses", name)
        self.value = lambda z, y: VALUES[name](z, y, p)
        self.lipschitz, self.smoothness = CONSTANTS[name](p)
        self.low, self.high = DOMAINS[name](p)
        self.kinks = KINKS[name](p)
        self.is_signed = self.loss.task == "classification"
        n = N_CASES
        signs = np.where(self.random.random(n) < 0.5, -1.0, 1.0)
        self.y = signs if self.is_signed else 2 * self.random.normal(size=n)
        self.z = 3 * self.random.normal(size=n)
        self.q = 10 ** self.random.uniform(-2, 2, size=n)
        # Duals inside the domain, a fifth of them at each end of it.
        low, high = max(self.low, -3.0), min(self.high, 3.0)
        b = self.random.uniform(low, high, size=n)
        b[: n // 5], b[-(n // 5) :] = low, high
        self.a = self.sign(self.y) * self.random.permutation(b)

    def sign(self, y):
        """Return what turns a dual into b."""
        return y if self.is_signed else np.ones_like(y)

    def conjugate(self, a, y):
        """Return the textbook's l*(-a)."""
        b = self.sign(y) * a
        inside = (b >= self.low) & (b <= self.high)
        finite = CONJUGATES[self.name](np.where(inside, b, 0.0), y, self.loss.parameter)
        return np.where(inside, finite, math.inf)

    def kink_margins(self, y):
        """Return the margins of all kinks of samples with labels y."""
        places = np.array(self.kinks, dtype=float)[:, None]
        return y * places if self.is_signed else y - places

    def dual_objective(self, new, a, z, y, q):
        """Return what the new value of a dual is to maximise."""
        d = new - a
        return -self.conjugate(new, y) - d * z - q * d * d / 2


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request, seed):
    return Case(*request.param, seed)


def test_every_loss_of_the_table_has_its_textbook_formula():
    """A new loss cannot be added without its independent formulas."""
    for formulas in (VALUES, CONJUGATES, DOMAINS, CONSTANTS, KINKS):
        assert set(formulas) == set(LOSSES)


def test_values_match_the_textbook(case):
    """The loss is the textbook's, also at its kinks."""
    margins = np.concatenate([case.z, *case.kink_margins(case.y)])
    labels = np.tile(case.y, 1 + len(case.kinks))
    np.testing.assert_allclose(
        case.loss.value(margins, labels),
        case.value(margins, labels),
        rtol=1e-14,
        atol=1e-14,
    )


def test_derivative_matches_finite_differences(case):
    """Away from kinks the derivative is the slope of the textbook formula."""
    h = 1e-6
    kinks = case.kink_margins(case.y)
    clear = np.all(np.abs(kinks - case.z) > 2 * h, axis=0)
    assert clear.sum() > 0.9 * N_CASES
    z, y = case.z[clear], case.y[clear]
    slopes = (case.value(z + h, y) - case.value(z - h, y)) / (2 * h)
    # Central differences of values up to 100: rounding 1e-14 / h.
    np.testing.assert_allclose(case.loss.derivative(z, y), slopes, atol=3e-8, rtol=1e-8)


def test_derivative_is_a_subgradient_at_kinks(case):
    """The tangent at a kink lies nowhere above the loss."""
    y = case.y[:40]
    offsets = np.concatenate([np.linspace(-5, 5, 41), [-1e-3, 1e-3, -1e-9, 1e-9]])
    for kink in case.kink_margins(y):
        slopes = case.loss.derivative(kink, y)
        others = kink[:, None] + offsets
        tangent = case.value(kink, y)[:, None] + slopes[:, None] * offsets
        assert np.all(case.value(others, y[:, None]) >= tangent - 1e-13)


def test_fenchel_young_inequality(case):
    """l(z) + l*(-a) + a z is never negative."""
    z, y, a = case.z[:, None], case.y[:, None], case.a
    signed = case.sign(y) * case.sign(case.y) * a  # the same b under each label
    total = case.loss.value(z, y) + case.loss.conjugate(signed, y) + signed * z
    assert np.all(np.isfinite(total))
    assert total.min() >= -1e-12


def test_fenchel_young_equality_at_the_derivative(case):
    """l(z) + l*(-a) + a z is zero at a = -l'(z), at kinks as well."""
    margins = np.concatenate([case.z, *case.kink_margins(case.y)])
    labels = np.tile(case.y, 1 + len(case.kinks))
    duals = -case.loss.derivative(margins, labels)
    total = (
        case.loss.value(margins, labels)
        + case.loss.conjugate(duals, labels)
        + duals * margins
    )
    # Terms of size z^2 cancel.
    np.testing.assert_allclose(total, 0.0, atol=1e-12)


def test_conjugate_matches_the_textbook(case):
    """l*(-a) is the textbook's on the domain and its ends."""
    np.testing.assert_allclose(
        case.loss.conjugate(case.a, case.y),
        case.conjugate(case.a, case.y),
        rtol=1e-13,
        atol=1e-14,
    )


def test_conjugate_is_the_numerical_supremum(case):
    """l*(-a) is the largest -a z - l(z) over a fine grid of margins."""
    margins = np.linspace(-40, 40, 160_001)
    for a, y in zip(case.a[::10], case.y[::10], strict=True):
        z = np.concatenate([margins, case.kink_margins(np.full(1, y)).ravel()])
        largest = np.max(-a * z - case.value(z, np.full(1, y)))
        # Between grid points 5e-4 apart a curvature of 10 hides 10 (5e-4)^2 / 8.
        assert case.loss.conjugate(a, y) == pytest.approx(largest, abs=4e-7)


def test_conjugate_is_infinite_outside_the_domain(case):
    """Beyond either end of the domain, or for NaN, the conjugate is infinite."""
    ends = [end for end in (case.low, case.high) if math.isfinite(end)]
    for end in ends:
        outwards = math.inf if end == case.high else -math.inf
        for b in (np.nextafter(end, outwards), end + math.copysign(5.0, outwards)):
            duals = case.sign(case.y) * b
            assert np.all(np.isinf(case.loss.conjugate(duals, case.y)))
        at_end = case.sign(case.y) * end
        assert np.all(np.isfinite(case.loss.conjugate(at_end, case.y)))
    assert np.all(np.isinf(case.loss.conjugate(np.full(N_CASES, np.nan), case.y)))


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


def test_lipschitz_constant_holds_and_is_attained(case):
    """No pair of margins is steeper than L, and some pair is as steep."""
    assert case.loss.lipschitz == pytest.approx(case.lipschitz)
    far = np.linspace(-1e3, 1e3, 4001)
    values = case.loss.value(far, case.y[:10, None])
    slopes = np.abs(np.diff(values) / np.diff(far))
    if math.isinf(case.lipschitz):
        assert slopes.max() > 400
    else:
        some, apart = values[0, ::8], far[::8]
        pairs = np.abs(np.subtract.outer(some, some))
        distances = np.abs(np.subtract.outer(apart, apart))
        assert np.all(pairs <= case.lipschitz * distances + 1e-9)
        assert slopes.max() == pytest.approx(case.lipschitz)


def test_smoothness_constant_holds_and_is_attained(case):
    """No pair of derivatives is further apart than the constant, and some are."""
    assert case.loss.smoothness == pytest.approx(case.smoothness)
    y = case.y[:10, None]
    near = np.linspace(-8, 8, 80_001)
    ratios = np.abs(np.diff(case.loss.derivative(near, y)) / np.diff(near))
    if math.isinf(case.smoothness):
        # A jump of at least 0.9 between neighbours 2e-4 apart.
        assert ratios.max() > 0.9 / 2e-4 * 0.99
        return
    assert ratios.max() == pytest.approx(case.smoothness, rel=1e-3)
    pairs = np.abs(
        np.subtract.outer(
            case.loss.derivative(case.z, y[0]), case.loss.derivative(case.z, y[0])
        )
    )
    distances = np.abs(np.subtract.outer(case.z, case.z))
    assert np.all(pairs <= case.smoothness * distances + 1e-12)


def test_task_tells_what_the_labels_are():
    """Margin losses classify, residual losses regress."""
    signed = {name for name in LOSSES if "hinge" in name or name == "logistic"}
    for name in LOSSES:
        task = "classification" if name in signed else "regression"
        assert make_loss(name).task == task


MARGINS = [0.0, 1e-12, 0.7, 30.0, 700.0, 1e4, 1e8, 1e300]


@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("margin", MARGINS + [-m for m in MARGINS[1:]])
def test_logistic_value_and_derivative_at_huge_margins(margin, label):
    """Nothing overflows, and small values keep their digits."""
    logistic = make_loss("logistic")
    m = label * margin
    # log(1 + e^-m) = e^-m to rounding where e^-m is below 1e-16.
    expected = math.exp(-m) if m > 37 else float(np.logaddexp(0.0, -m))
    value = logistic.value(margin, label)
    assert float(value) == pytest.approx(expected, rel=1e-14, abs=0)
    slope = float(logistic.derivative(margin, label))
    assert slope == pytest.approx(-label * float(expit(-m)), rel=1e-14, abs=0)


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


def test_arrays_of_any_shape_broadcast(case):
    """Scalars, columns and tables give what the elements give."""
    z, y = case.z[:6].reshape(2, 3), case.y[:2, None]
    table = case.loss.value(z, y)
    assert table.shape == (2, 3)
    assert table[1, 2] == case.loss.value(z[1, 2], y[1, 0])
    assert case.loss.value(z[0, 0], y[0, 0]).shape == ()


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_name_the_same_loss(alias):
    """scikit-learn's names give the very loss of ours."""
    assert make_loss(alias) == make_loss(ALIASES[alias])


def test_an_unknown_name_is_refused_with_the_known_ones():
    """The message lists what could have been meant."""
    with pytest.raises(ValueError, match=r"no loss 'hing'.*half_squared.*log_loss"):
        make_loss("hing")


@pytest.mark.parametrize(
    "name", [n for n, entry in LOSSES.items() if not entry.default]
)
def test_a_loss_without_parameter_refuses_one(name):
    """A parameter that would be ignored is an error."""
    with pytest.raises(ValueError, match=f"{name}.*takes no parameter, got 0.5"):
        make_loss(name, 0.5)


@pytest.mark.parametrize("name", [n for n, entry in LOSSES.items() if entry.default])
@pytest.mark.parametrize("parameter", [0.0, -1.0, math.inf, math.nan])
def test_a_bad_parameter_is_refused(name, parameter):
    """Parameters are positive and finite."""
    with pytest.raises(ValueError, match=f"parameter of '{name}' must be above 0"):
        make_loss(name, parameter)


@pytest.mark.parametrize("parameter", [1.0, 1.5])
def test_a_quantile_above_one_is_refused(parameter):
    """The tau of the pinball loss is a quantile."""
    with pytest.raises(ValueError, match="above 0 and below 1"):
        make_loss("pinball", parameter)


@pytest.mark.parametrize(
    ("name", "parameter"), [("huber", 1.35), ("huber", 0.3), ("pinball", 0.3)]
)
def test_a_dual_after_its_step_is_feasible(name, parameter):
    """The sum of a feasible dual and its step is feasible, to the last bit."""
    loss, random, n = make_loss(name, parameter), stream(0, "feasible"), 20_000
    a = random.uniform(loss.shape.low, loss.shape.high, n)
    y, z, q = 2 * random.normal(size=n), 5 * random.normal(size=n), np.full(n, 0.1)
    assert np.all(np.isfinite(loss.conjugate(a + loss.dual_step(a, z, y, q), y)))

"""Losses, their derivatives and conjugates against textbook formulas and laws."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from hyfdca.maths.losses import ALIASES, LOSSES, make_loss
from tests.maths.loss_cases import (
    CONJUGATES,
    CONSTANTS,
    DOMAINS,
    KINKS,
    MARGINS,
    N_CASES,
    VALUES,
)


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


def test_second_derivative_matches_finite_differences(case):
    """Away from kinks of the derivative it is the slope of the derivative."""
    h = 1e-6
    z, y = case.z, case.y
    ends = [case.loss.derivative(z + sign * h, y) for sign in (1, -1)]
    middle = case.loss.derivative(z, y)
    # Where a kink lies between, the two halves of the step have different slopes.
    clear = np.abs(ends[0] - 2 * middle + ends[1]) < 1e-9
    assert clear.sum() > 0.9 * N_CASES
    np.testing.assert_allclose(
        case.loss.second_derivative(z, y)[clear],
        ((ends[0] - ends[1]) / (2 * h))[clear],
        atol=1e-7,
    )


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


@pytest.mark.parametrize("name", LOSSES)
def test_the_page_of_algorithms_has_every_loss(name):
    """It states the default of each parameter."""
    page = Path(__file__).parents[2] / "docs" / "algorithms.md"
    section = page.read_text(encoding="utf-8").split("## Losses")[1]
    (line,) = [own for own in section.splitlines() if own.startswith(f"| `{name}`")]
    cell = line.replace("\\|", "").split(" | ")[2]
    default = LOSSES[name].default
    assert cell == "none" if default is None else cell.endswith(f", {default}")

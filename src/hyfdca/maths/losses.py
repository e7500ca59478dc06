"""The loss functions of the problem, as elementwise formulas for one sample.

Sign convention, stated here and nowhere else: a dual ``a`` of a sample with margin
``z`` is optimal when ``-a`` is a derivative of the loss at ``z``; ``conjugate`` is
the paper's ``l*(-a)``.

All losses but the logistic one are the same formula with other constants. With
residual ``r = target - z`` they are ``max_a  a r - e|a| - s a^2 / 2`` over
``low <= a <= high``, so their conjugate is ``l*(-a) = -target a + e|a| + s a^2 / 2``:
``s`` is the smoothing (0 where the loss has a kink), ``e`` the insensitivity, and the
ends of the domain are the steepest slopes. Classification uses it for ``y z`` and
``y a`` with target 1. A loss that fits is one line in ``LOSSES``; another kind of
formula is a branch in the four functions below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.maths.compiling import jit

_NEWTON_STEPS = 100  # 8 are enough over curvatures 1e-3 to 1e3; this is a backstop


class Shape(NamedTuple):
    """The constants that distinguish one loss from another, in the form of kernels."""

    is_logistic: float
    is_classification: float
    smoothing: float
    insensitivity: float
    low: float
    high: float


@jit(inline="always")
def _soft_threshold(value: float, threshold: float) -> float:
    # Without branches: the sign of a residual is what a processor cannot predict.
    return math.copysign(max(abs(value) - threshold, 0.0), value)


@jit(inline="always")
def best_dual(
    pull: float, stiffness: float, insensitivity: float, low: float, high: float
) -> float:
    """Maximise ``a pull - e|a| - stiffness a^2 / 2`` over the domain."""
    rest: float = _soft_threshold(pull, insensitivity)
    if stiffness == 0.0:
        return (high if rest > 0.0 else 0.0) + (low if rest < 0.0 else 0.0)
    return min(max(rest / stiffness, low), high)


@jit(inline="always")
def sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x)) without overflow and without cancellation."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    return math.exp(x) / (1.0 + math.exp(x))


@jit(inline="always")
def softplus(x: float) -> float:
    """Return log(1 + exp(x)) without overflow."""
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


@jit(inline="always")
def _logistic_dual(dual: float, margin: float, curvature: float) -> float:
    """Return the new dual in [0, 1]: sigma(x) at the root of x + m + q (sigma(x) - b).

    Newton from the point of the bracket nearest to 0 is monotone: the function is
    convex left of 0 and concave right of it.
    """
    low = -margin - curvature * (1.0 - dual)
    high = -margin + curvature * dual
    x = min(max(0.0, low), high)
    accuracy = 1e-13 * (1.0 + curvature + abs(margin))
    for _ in range(_NEWTON_STEPS):
        sigma = sigmoid(x)
        value = x + margin + curvature * (sigma - dual)
        if abs(value) <= accuracy:
            break
        x = min(max(x - value / (1 + curvature * sigma * (1 - sigma)), low), high)
    dual_of_x: float = sigmoid(x)
    return dual_of_x


@jit(inline="always")
def _value(margin, label, is_logistic, signed, s, e, low, high):  # type: ignore[no-untyped-def]
    sign = label if signed else 1.0
    if is_logistic:
        return softplus(-sign * margin)
    pull = 1.0 - sign * margin if signed else label - margin
    a = best_dual(pull, s, e, low, high)
    return a * pull - e * abs(a) - 0.5 * s * a * a


@jit(inline="always")
def loss_derivative(margin, label, is_logistic, signed, s, e, low, high):  # type: ignore[no-untyped-def]
    """Return l'(z) of one sample, for kernels."""
    sign = label if signed else 1.0
    if is_logistic:
        return -sign * sigmoid(-sign * margin)
    pull = 1.0 - sign * margin if signed else label - margin
    return -sign * best_dual(pull, s, e, low, high)


@jit(inline="always")
def loss_conjugate(dual, label, is_logistic, signed, s, e, low, high):  # type: ignore[no-untyped-def]
    """Return l*(-a) of one sample, for kernels."""
    b = label * dual if signed else dual
    if not (low <= b <= high):
        return math.inf
    if is_logistic:
        entropy = b * math.log(b) if b > 0 else 0.0
        return entropy + ((1 - b) * math.log1p(-b) if b < 1 else 0.0)
    target = 1.0 if signed else label
    return -target * b + e * abs(b) + 0.5 * s * b * b


@jit(inline="always")
def _quadratic_step(dual, margin, label, curvature, signed, s, e, low, high):  # type: ignore[no-untyped-def]
    sign = label if signed else 1.0
    b = sign * dual
    pull = curvature * b + (1.0 if signed else label) - sign * margin
    change = best_dual(pull, curvature + s, e, low, high) - b
    # The difference of two floats is rounded; the sum must not leave the domain.
    if b + change > high or b + change < low:
        change = np.nextafter(change, 0.0)
    return sign * change


@jit(nogil=True)
def dual_step(  # type: ignore[no-untyped-def]
    dual, margin, label, curvature, is_logistic, signed, s, e, low, high
):
    """Return the best change d of one dual: max -l*(-(a+d)) - d z - q d^2 / 2."""
    if is_logistic:
        sign = label if signed else 1.0
        b = sign * dual
        return sign * (_logistic_dual(b, sign * margin, curvature) - b)
    return _quadratic_step(dual, margin, label, curvature, signed, s, e, low, high)


# Loops over flat arrays. They are compiled, or loaded, on first use: ufuncs would be
# at import.


@jit(nogil=True)
def _values(margins, labels, constants, out):  # type: ignore[no-untyped-def]
    is_logistic, signed, s, e, low, high = constants
    for i in range(out.size):
        out[i] = _value(margins[i], labels[i], is_logistic, signed, s, e, low, high)


@jit(nogil=True)
def _derivatives(margins, labels, constants, out):  # type: ignore[no-untyped-def]
    is_logistic, signed, s, e, low, high = constants
    for i in range(out.size):
        out[i] = loss_derivative(
            margins[i], labels[i], is_logistic, signed, s, e, low, high
        )


@jit(nogil=True)
def _conjugates(duals, labels, constants, out):  # type: ignore[no-untyped-def]
    is_logistic, signed, s, e, low, high = constants
    for i in range(out.size):
        out[i] = loss_conjugate(
            duals[i], labels[i], is_logistic, signed, s, e, low, high
        )


@jit(nogil=True)
def _dual_steps(duals, margins, labels, curvatures, constants, out):  # type: ignore[no-untyped-def]
    """Set ``out`` to the steps; constants are hoisted out of the loop."""
    if constants[0]:
        for i in range(out.size):
            out[i] = dual_step(
                duals[i], margins[i], labels[i], curvatures[i], *constants
            )
        return
    _, signed, s, e, low, high = constants
    for i in range(out.size):
        out[i] = _quadratic_step(
            duals[i], margins[i], labels[i], curvatures[i], signed, s, e, low, high
        )


@jit(nogil=True)
def _second_derivatives(margins, labels, constants, out):  # type: ignore[no-untyped-def]
    is_logistic, signed, s, e, low, high = constants
    for i in range(out.size):
        sign = labels[i] if signed else 1.0
        if is_logistic:
            sigma = sigmoid(-sign * margins[i])
            out[i] = sigma * (1.0 - sigma)
            continue
        pull = 1.0 - sign * margins[i] if signed else labels[i] - margins[i]
        inside = abs(pull) >= e and low * s < _soft_threshold(pull, e) < high * s
        out[i] = 1.0 / s if inside and s > 0.0 else 0.0


@dataclass(frozen=True)
class Loss:
    """One loss function ``l``, its conjugate and its dual step.

    Every method works elementwise on arrays that broadcast.
    """

    name: str
    shape: Shape
    parameter: float | None = None

    @property
    def constants(self) -> tuple[float, ...]:
        """The shape as the plain tuple that kernels pass on to ``dual_step``."""
        return tuple(self.shape)

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What the labels are: -1 and 1, or real numbers."""
        return "classification" if self.shape.is_classification else "regression"

    @property
    def parameter_is_error(self) -> bool:
        """Whether the parameter is a size of errors, in units of the labels."""
        entry = LOSSES[self.name]
        has_bound = math.isfinite(entry.highest)  # as the quantile of pinball
        is_regression = self.task == "regression"
        return is_regression and entry.default is not None and not has_bound

    @property
    def lipschitz(self) -> float:
        """The paper's L: the steepest slope, infinite for the squared losses."""
        return max(abs(self.shape.low), abs(self.shape.high))

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the derivative, infinite where there is a kink."""
        return 1.0 / self.shape.smoothing if self.shape.smoothing else math.inf

    def value(self, margins: FloatArray, labels: FloatArray) -> FloatArray:
        """Return l(z)."""
        return _elementwise(_values, self.constants, margins, labels)

    def derivative(self, margins: FloatArray, labels: FloatArray) -> FloatArray:
        """Return l'(z); at a kink, a subgradient."""
        return _elementwise(_derivatives, self.constants, margins, labels)

    def second_derivative(self, margins: FloatArray, labels: FloatArray) -> FloatArray:
        """Return l''(z), 0 where there is none."""
        return _elementwise(_second_derivatives, self.constants, margins, labels)

    def conjugate(self, duals: FloatArray, labels: FloatArray) -> FloatArray:
        """Return l*(-a); infinite outside the domain."""
        return _elementwise(_conjugates, self.constants, duals, labels)

    def into_domain(self, duals: FloatArray, labels: FloatArray) -> FloatArray:
        """Return duals, off by rounding, inside the domain of the conjugate."""
        signs = labels if self.shape.is_classification else np.ones_like(labels)
        return signs * np.clip(signs * duals, self.shape.low, self.shape.high)

    def above(
        self, sums: FloatArray, errors: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Bound Σ v_i l(z_i + d_i), all |d_i| <= e_i, where Σ v_i l(z_i) is ``sums``.

        Weights are (samples, outputs), sums end in outputs. A smooth loss has
        l'² <= 2 l / smoothing, so l(z + d) is at most (√l + |d| / √(2 smoothing))²,
        and Minkowski's inequality adds that up.
        """
        if math.isfinite(self.lipschitz):
            return sums + self.lipschitz * (errors @ weights)
        more = np.sqrt(errors**2 @ weights / (2 * self.shape.smoothing))
        return _array((np.sqrt(sums) + more) ** 2)

    def covering(self, errors: FloatArray) -> tuple[Loss, FloatArray]:
        """Return a loss at least as large at z as this one at z + d, |d| <= e.

        Returns the errors that it does not cover too. An insensitive loss covers all
        of them by a smaller insensitivity, and is zero where this one is zero anyway.
        """
        largest = float(errors.max(initial=0.0))
        if not 0.0 < largest < self.shape.insensitivity:
            return self, errors
        rest = self.shape.insensitivity - largest
        shape = self.shape._replace(insensitivity=rest)
        return replace(self, shape=shape), np.zeros_like(errors)

    def dual_step(
        self,
        duals: FloatArray,
        margins: FloatArray,
        labels: FloatArray,
        curvatures: FloatArray,
    ) -> FloatArray:
        """Return the change d that maximises -l*(-(a+d)) - d z - q d^2 / 2."""
        return _elementwise(
            _dual_steps, self.constants, duals, margins, labels, curvatures
        )


def _elementwise(kernel: Any, constants: tuple[float, ...], *given: Any) -> FloatArray:
    """Call a loop over flat arrays on arrays that broadcast."""
    arrays = np.broadcast_arrays(*given)
    out = np.empty(arrays[0].shape)
    flat = [np.ascontiguousarray(a, dtype=np.float64).reshape(-1) for a in arrays]
    kernel(*flat, constants, out.reshape(-1))
    return out


def _array(result: Any) -> FloatArray:
    return np.asarray(result, dtype=np.float64)


def _margin_loss(smoothing: float, high: float) -> Shape:
    return Shape(0.0, 1.0, smoothing, 0.0, 0.0, high)


def _residual_loss(
    smoothing: float, bound: float = math.inf, insensitivity: float = 0.0
) -> Shape:
    return Shape(0.0, 0.0, smoothing, insensitivity, -bound, bound)


class _Entry(NamedTuple):
    shape: Callable[[float], Shape]
    default: float | None = None
    highest: float = math.inf  # the parameter lies strictly between 0 and this


LOSSES: dict[str, _Entry] = {
    "hinge": _Entry(lambda _: _margin_loss(0.0, 1.0)),
    "squared_hinge": _Entry(lambda _: _margin_loss(0.5, math.inf)),
    "half_squared_hinge": _Entry(lambda _: _margin_loss(1.0, math.inf)),
    "smoothed_hinge": _Entry(lambda s: _margin_loss(s, 1.0), 0.5),
    # The logistic loss is 1/4-smooth; its conjugate is the entropy on [0, 1].
    "logistic": _Entry(lambda _: Shape(1.0, 1.0, 4.0, 0.0, 0.0, 1.0)),
    "half_squared": _Entry(lambda _: _residual_loss(1.0)),
    "squared": _Entry(lambda _: _residual_loss(0.5)),
    "absolute": _Entry(lambda _: _residual_loss(0.0, 1.0)),
    "epsilon_insensitive": _Entry(lambda e: _residual_loss(0.0, 1.0, e), 0.1),
    "squared_epsilon_insensitive": _Entry(
        lambda e: _residual_loss(0.5, insensitivity=e), 0.1
    ),
    "huber": _Entry(lambda k: _residual_loss(1.0, k), 1.35),
    "scaled_huber": _Entry(lambda k: _residual_loss(k, 1.0), 1.35),
    "pinball": _Entry(lambda t: Shape(0.0, 0.0, 0.0, 0.0, t - 1.0, t), 0.5, 1.0),
}

# scikit-learn's names for two of them
ALIASES = {"log_loss": "logistic", "squared_error": "half_squared"}


def make_loss(name: str, parameter: float | None = None) -> Loss:
    """Return the loss of that name.

    Parameters
    ----------
    name : str
        A key of ``LOSSES`` or of ``ALIASES``.
    parameter : float, optional
        The smoothing of ``smoothed_hinge``, the epsilon of the insensitive losses,
        the kappa of the Huber losses, the tau of ``pinball``; by default the one of
        the table. Other losses take none.

    Raises
    ------
    ValueError
        If there is no such loss or it takes no such parameter.
    """
    name = ALIASES.get(name, name)
    if name not in LOSSES:
        known = sorted([*LOSSES, *ALIASES])
        close = get_close_matches(name, known, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"There is no loss {name!r}{hint}; choose one of {', '.join(known)}."
        )
    entry = LOSSES[name]
    if entry.default is None:
        if parameter is not None:
            raise ValueError(f"The loss {name!r} takes no parameter, got {parameter}.")
        return Loss(name, entry.shape(0.0))
    parameter = entry.default if parameter is None else float(parameter)
    if not 0.0 < parameter < entry.highest:
        raise ValueError(
            f"The parameter of {name!r} must be above 0 and below {entry.highest}, "
            f"got {parameter}."
        )
    return Loss(name, entry.shape(parameter), parameter)

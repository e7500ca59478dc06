"""The sizes of a stochastic gradient step.

A step on sample i, with rate g, is

    w ← w - g (λ w + v_i l'(x_i·w) x_i + μ (w - w_0))

with μ = 0 except for methods that pull local weights towards global ones.
"""

from __future__ import annotations

from typing import NamedTuple


class StepSizes(NamedTuple):
    """The numbers of a step: w ← keep w + pull w_0 - step v_i l'(x_i·w) x_i."""

    keep: float
    pull: float
    step: float


def step_sizes(
    rate: float, l2: float, mu: float = 0.0, *, is_proximal: bool = False
) -> StepSizes:
    """Return the step of that rate, the term of μ taken explicitly or by its prox.

    The explicit step diverges where rate · μ is above 2; the prox never does.
    """
    if is_proximal:
        shrink = 1.0 + rate * mu
        return StepSizes((1.0 - rate * l2) / shrink, rate * mu / shrink, rate / shrink)
    return StepSizes(1.0 - rate * (l2 + mu), rate * mu, rate)

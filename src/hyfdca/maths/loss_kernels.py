"""Loss functions over all samples of a client in one pass, for the bundle method.

Weights of samples are zero where another client counts them: such samples are passed
over. Sums run in order, so the same numbers give the same bits. The constants of a
loss are taken out of the loops, which makes them several times as fast as ufuncs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.maths.compiling import jit
from hyfdca.maths.losses import Loss, best_dual, loss_conjugate, sigmoid, softplus

_compiled = jit(nogil=True, error_model="numpy")


def touching_duals(
    loss: Loss,
    start: FloatArray,
    end: FloatArray,
    labels: FloatArray,
    places: FloatArray,
) -> FloatArray:
    """Return -l' at places between two margins (0: start, 1: end).

    Margins and labels are (samples, outputs), the result (samples, places · outputs).
    Margins may have several points one after the other, each with all outputs.
    """
    n_samples, n_outputs = start.shape
    duals = np.empty((n_samples, len(places) * n_outputs))
    _touching_duals(start, end, labels, places, tuple(loss.shape), duals)
    return duals


@_compiled
def _touching_duals(start, end, labels, places, constants, out):  # type: ignore[no-untyped-def]
    is_logistic, signed, s, e, low, high = constants
    n_outputs = start.shape[1]
    n_labels = labels.shape[1]
    for i in range(start.shape[0]):
        for c in range(n_outputs):
            label = labels[i, c % n_labels]
            sign = label if signed else 1.0
            first, change = sign * start[i, c], sign * (end[i, c] - start[i, c])
            if is_logistic:
                for k in range(places.size):
                    dual = sigmoid(-(first + places[k] * change))
                    out[i, k * n_outputs + c] = sign * dual
                continue
            pull = (1.0 if signed else label) - first
            for k in range(places.size):
                dual = best_dual(pull - places[k] * change, s, e, low, high)
                out[i, k * n_outputs + c] = sign * dual


def add_conjugates(
    loss: Loss,
    duals: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    buckets: NDArray[Any],
    totals: FloatArray,
) -> None:
    """Add v_i l_i*(-α_i) to its bucket in ``totals``, (buckets, planes · outputs)."""
    _add_conjugates(duals, labels, weights, buckets, tuple(loss.shape), totals)


@_compiled
def _add_conjugates(duals, labels, weights, buckets, constants, out):  # type: ignore[no-untyped-def]
    is_logistic, signed, s, e, low, high = constants
    n_outputs = labels.shape[1]
    for i in range(duals.shape[0]):
        totals = out[buckets[i]]
        for c in range(n_outputs):
            weight, label = weights[i, c], labels[i, c]
            if weight == 0.0:
                continue
            if is_logistic:
                for k in range(c, duals.shape[1], n_outputs):
                    totals[k] += weight * loss_conjugate(
                        duals[i, k], label, is_logistic, signed, s, e, low, high
                    )
                continue
            # One formula for all tasks, since labels of classes are -1 and 1.
            is_outside = False
            for k in range(c, duals.shape[1], n_outputs):
                dual = duals[i, k]
                b = label * dual if signed else dual
                is_outside |= (b < low) | (b > high)
                totals[k] += weight * (dual * (0.5 * s * dual - label) + e * abs(dual))
            if is_outside:
                totals[:] = np.inf


def add_weighted_duals(
    duals: FloatArray,
    factors: FloatArray,
    buckets: NDArray[Any],
    totals: FloatArray,
) -> None:
    """Add f_i α_i to its bucket in ``totals``, (buckets, planes · outputs).

    The rounding errors of additions are added up too: duals of both signs cancel, and
    the sum is compared with zero.
    """
    lost = np.zeros_like(totals)
    _add_weighted_duals(duals, factors, buckets, totals, lost)
    totals += lost


@_compiled
def _add_weighted_duals(duals, factors, buckets, out, lost):  # type: ignore[no-untyped-def]
    n_outputs = factors.shape[1]
    for i in range(duals.shape[0]):
        totals, losses = out[buckets[i]], lost[buckets[i]]
        for c in range(n_outputs):
            factor = factors[i, c]
            if factor == 0.0:
                continue
            for k in range(c, duals.shape[1], n_outputs):
                term = factor * duals[i, k]
                total = totals[k] + term
                if abs(totals[k]) >= abs(term):  # Neumaier's summation
                    losses[k] += (totals[k] - total) + term
                else:
                    losses[k] += (term - total) + totals[k]
                totals[k] = total


def sums_along(
    loss: Loss,
    start: FloatArray,
    end: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    steps: FloatArray,
) -> FloatArray:
    """Return Σ v_i l_i at each step from one margin to another, (steps, outputs)."""
    groups = np.zeros(len(start), np.uint32)
    sums = grouped_sums_along(loss, start, end, labels, weights, steps, groups, 1)
    return np.asarray(sums[0])


def grouped_sums_along(  # what a kernel takes
    loss: Loss,
    start: FloatArray,
    end: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    steps: FloatArray,
    groups: NDArray[np.uint32],
    n_groups: int,
) -> FloatArray:
    """Return these sums of each group of samples, (groups, steps, margins' outputs).

    Margins may have several points one after the other, each with all outputs.
    """
    sums = np.zeros((n_groups, len(steps), start.shape[1]))
    constants = tuple(loss.shape)
    _sums_along(start, end, labels, weights, steps, groups, constants, sums)
    return sums


@_compiled
def _sums_along(  # type: ignore[no-untyped-def]  # noqa: C901
    start, end, labels, weights, steps, groups, constants, sums
):
    is_logistic, signed, s, e, low, high = constants
    n_outputs = labels.shape[1]
    for i in range(start.shape[0]):
        out = sums[groups[i]]
        for c in range(start.shape[1]):
            weight, label = weights[i, c % n_outputs], labels[i, c % n_outputs]
            if weight == 0.0:
                continue
            sign = label if signed else 1.0
            first, change = sign * start[i, c], sign * (end[i, c] - start[i, c])
            if is_logistic:
                for t in range(steps.size):
                    out[t, c] += weight * softplus(-(first + steps[t] * change))
                continue
            pull = (1.0 if signed else label) - first
            if s == 0.0:  # the best dual is an end of the domain, or 0
                for t in range(steps.size):
                    at = pull - steps[t] * change
                    ends = max(high * at - e * high, low * at + e * low)
                    out[t, c] += weight * max(ends, 0.0)
                continue
            for t in range(steps.size):
                at = pull - steps[t] * change
                a = best_dual(at, s, e, low, high)
                out[t, c] += weight * (a * at - e * abs(a) - 0.5 * s * a * a)

"""Compiled loops over CSR rows: products, coordinate ascent, gradient steps.

Arrays over samples or features have two dimensions, items by outputs (one output
per class); sums run in index order, so the same rows give the same bits. Indices are
best unsigned (``unsigned``): numba then need not check for negative ones, which doubles
the speed of products.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from hyfdca.maths.compiling import jit
from hyfdca.maths.losses import dual_step, loss_derivative

_LEAST_SCALE = 1e-100  # multiple below which weights kept as a multiple are rescaled

_compiled = jit(nogil=True, error_model="numpy")


def unsigned(indices: NDArray[Any]) -> NDArray[Any]:
    """Return the same indices seen as unsigned numbers, without copying them."""
    return indices.view(f"u{indices.dtype.itemsize}")


@_compiled
def row_products(indptr, indices, data, rows, weights, out):  # type: ignore[no-untyped-def]
    """Set ``out[j] = X[rows[j]] @ weights``; changes ``out`` only."""
    for c in range(weights.shape[1]):
        column = weights[:, c].copy()
        for j in range(rows.size):
            total = 0.0
            for p in range(indptr[rows[j]], indptr[rows[j] + 1]):
                total += data[p] * column[indices[p]]
            out[j, c] = total


@_compiled
def row_norms(indptr, indices, data, out):  # type: ignore[no-untyped-def]
    """Set ``out[j]`` to the squared length of each row; changes ``out`` only."""
    for j in range(out.shape[0]):
        total = 0.0
        for p in range(indptr[j], indptr[j + 1]):
            total += data[p] * data[p]
        out[j, 0] = total


@_compiled
def add_row_combination(  # type: ignore[no-untyped-def]
    indptr, indices, data, rows, coefficients, out
):
    """Add ``sum_j coefficients[j] X[rows[j]]``; changes ``out`` only."""
    for c in range(out.shape[1]):
        column = out[:, c].copy()
        for j in range(rows.size):
            coefficient = coefficients[j, c]
            if coefficient != 0.0:
                for p in range(indptr[rows[j]], indptr[rows[j] + 1]):
                    column[indices[p]] += coefficient * data[p]
        out[:, c] = column


@_compiled
def add_bucket_combinations(  # type: ignore[no-untyped-def]
    indptr, indices, data, rows, buckets, coefficients, out
):
    """Add ``coefficients[j, k] X[rows[j]]`` to ``out[buckets[j], :, k]``, for all k.

    Changes ``out`` only.
    """
    width = coefficients.shape[1]
    for j in range(rows.size):
        slopes = out[buckets[j]]
        for p in range(indptr[rows[j]], indptr[rows[j] + 1]):
            value = data[p]
            feature = indices[p]
            for k in range(width):
                slopes[feature, k] += coefficients[j, k] * value


@_compiled
def add_weighted(parts, weights, first, totals):  # type: ignore[no-untyped-def]
    """Add ``sum_s weights[m, first + s, c] parts[s, :, c]``, in order, for all m.

    Changes ``totals`` only.
    """
    for m in range(weights.shape[0]):
        for s in range(parts.shape[0]):
            for c in range(parts.shape[2]):
                weight = weights[m, first + s, c]
                if weight != 0.0:
                    for f in range(parts.shape[1]):
                        totals[m, f, c] += weight * parts[s, f, c]


@_compiled
def ascent_epoch(  # type: ignore[no-untyped-def]
    indptr, indices, data, order, labels, curvatures, scales, constants, duals, weights
):
    """One pass of coordinate ascent over the rows in ``order``, for one output.

    ``scales`` are v_i/(λN). Changes ``duals`` and ``weights``.
    """
    for j in range(order.size):
        row = order[j]
        first, last = indptr[row], indptr[row + 1]
        margin = 0.0
        for p in range(first, last):
            margin += data[p] * weights[indices[p]]
        change = dual_step(duals[row], margin, labels[row], curvatures[row], *constants)
        if change != 0.0:
            duals[row] += change
            step = change * scales[row]
            for p in range(first, last):
                weights[indices[p]] += step * data[p]


@_compiled
def descent_steps(  # type: ignore[no-untyped-def]
    indptr, indices, data, order, labels, samples, sizes, constants, anchor, weights
):
    """Take one gradient step per row in ``order``, for one output.

    Weights are kept as c u + e w_0, so a step costs as much as the row has values.
    Changes ``weights``.

    ``samples`` are v_i (none: all 1), ``sizes`` those of ``StepSizes``, ``anchor`` w_0.
    """
    is_logistic, signed, s, e, low, high = constants
    keep, pull, step = sizes
    scale, share = 1.0, 0.0  # w = scale u + share w_0
    for j in range(order.size):
        row = order[j]
        first, last = indptr[row], indptr[row + 1]
        own, common = 0.0, 0.0
        for p in range(first, last):
            own += data[p] * weights[indices[p]]
        if pull != 0.0:
            for p in range(first, last):
                common += data[p] * anchor[indices[p]]
        slope = loss_derivative(
            scale * own + share * common,
            labels[row],
            is_logistic,
            signed,
            s,
            e,
            low,
            high,
        )
        scale, share = keep * scale, keep * share + pull
        if abs(scale) < _LEAST_SCALE:
            weights *= scale
            scale = 1.0
        sample = samples[row] if samples.size else 1.0
        change = step * sample * slope / scale
        if change != 0.0:
            for p in range(first, last):
                weights[indices[p]] -= change * data[p]
    weights *= scale
    weights += share * anchor

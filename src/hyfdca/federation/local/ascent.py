"""Local coordinate ascent on the dual, as CoCoA, FedDCD and D3CA solve with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray
from hyfdca.federation.client import Party
from hyfdca.maths.kernels import ascent_epoch


def ascend(
    party: Party,
    order: NDArray[np.uint32],
    duals: FloatArray,
    weights: FloatArray,
    factor: float = 1.0,
    squared_norms: FloatArray | None = None,
) -> FloatArray:
    """Return duals after one coordinate step for each row in ``order``.

    A step on row i maximises -l_i*(-(α + d)) - d x_i·w - factor ||x_i||² d² / (2λN),
    and adds factor d x_i / (λN) to w, output by output.

    Parameters
    ----------
    squared_norms : array (samples held, 1), optional
        A replacement for ||x_i||².
    """
    problem, shape = party.problem, duals.shape
    norms = party.squared_norms if squared_norms is None else squared_norms
    scales = party.weighted(np.full(shape, factor / problem.l2_scale))
    curvatures, out = scales * norms, np.empty_like(duals)
    for c in range(shape[1]):
        column = duals[:, c].copy()
        ascent_epoch(
            *party.csr,
            order,
            np.ascontiguousarray(party.labels[:, c]),
            np.ascontiguousarray(curvatures[:, c]),
            np.ascontiguousarray(scales[:, c]),
            problem.loss.constants,
            column,
            weights[:, c].copy(),
        )
        out[:, c] = column
    return out

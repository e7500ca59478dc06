"""An organisation's part of a model's margins, from the cells that it counts.

Where missing cells are filled, parts are differences to rows of nothing but fillings:
so cells that nobody holds are filled without anybody having to know which they are.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import power_above
from hyfdca.data.tables import stored_densely
from hyfdca.holdings.ownership import OwnCells
from hyfdca.model.model import Model
from hyfdca.prediction.sums import OwnParts
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.scaling import Scaling

_SLACK = 1e-9  # covers the rounding of norms


def own_parts(model: Model, table: AlignedTable) -> OwnParts:
    """Return what the cells that an organisation counts add to margins.

    All columns of the table are features of the model.
    """
    place = {name: number for number, name in enumerate(model.features)}
    columns = np.array([place[name] for name in table.features], np.int64)
    scaling, weights = _scaling(model, columns), model.weights[columns]
    cells = table.cells
    if np.any(scaling.offset) and cells.nnz < cells.shape[0] * cells.shape[1]:
        cells = stored_densely(cells.toarray())  # zeros have an offset too
    scaled = scaling.apply(table.own.of(cells))
    # What is too large is seen by its bound.
    with np.errstate(over="ignore", invalid="ignore"):
        margins = scaled @ weights
        bound = _longest(scaled) * float(np.linalg.norm(weights, axis=0).max())
        return OwnParts(margins, _n_owned(table.own), _above(bound))


def common_part(model: Model) -> FloatArray:
    """Return what all margins have in common, (n_outputs,): the asker adds it."""
    reference, scaling = _reference(model), model.scaling
    scaled = (reference - scaling.offset) / scaling.scale
    common: FloatArray = scaled @ model.weights + model.intercept
    return common


def _reference(model: Model) -> FloatArray:
    """Return the values that add nothing to a margin, by feature."""
    is_filled = model.file.scaling.missing == "mean"
    return model.scaling.filling if is_filled else model.scaling.offset


def _scaling(model: Model, columns: IntArray) -> Scaling:
    scaling = model.scaling
    return Scaling(
        _reference(model)[columns], scaling.scale[columns], scaling.filling[columns]
    )


def _longest(cells: sp.csr_array) -> float:
    squares = np.asarray(cells.multiply(cells).sum(axis=1)).ravel()
    return float(np.sqrt(squares.max(initial=0.0)))


def _above(bound: float) -> float:
    return power_above(bound * (1 + _SLACK)) if np.isfinite(bound) else np.inf


def _n_owned(own: OwnCells) -> IntArray:
    """Return how many cells of each row an organisation counts."""
    n_groups = own.owns.shape[1]
    sizes = np.bincount(own.column_groups, minlength=n_groups)
    counts: IntArray = (own.owns @ sizes)[own.row_groups]
    return counts

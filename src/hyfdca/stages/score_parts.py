"""The contribution of an organisation's own cells to the scores of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import power_above
from hyfdca.data.expansion import Expansion
from hyfdca.data.tables import stored_densely
from hyfdca.holdings.ownership import OwnCells
from hyfdca.model.categories import features_of, model_expansion
from hyfdca.model.model import Model
from hyfdca.model.scaling import Scaling
from hyfdca.stages.alignment.aligned_table import AlignedTable

_SLACK = 1e-9  # covers the rounding of norms


@dataclass(frozen=True, repr=False)
class OwnParts:
    """The contribution of a client's own cells to the margins of its rows.

    Parameters
    ----------
    margins : array (rows held, n_outputs)
    n_cells : array (rows held,)
        How many of the model's cells it counts.
    bound : float
        A bound on all parts that rows of these lengths can have.
    """

    margins: FloatArray
    n_cells: IntArray
    bound: float


def own_parts(model: Model, table: AlignedTable, reference: FloatArray) -> OwnParts:
    """Return the contribution to the margins of the cells that an organisation counts.

    All columns of the table are columns of the model.

    Parameters
    ----------
    reference : array (n_features,)
        The value of each feature that adds nothing and replaces absent cells.
    """
    expansion = model_expansion(table.features, model.inputs.categories, table.levels)
    features = numbers_of(model, table.features)
    scaling = _scaling(model, features, reference)
    return parts_of(table, expansion, scaling, model.weights[features])


def parts_of(
    table: AlignedTable, expansion: Expansion, scaling: Scaling, weights: FloatArray
) -> OwnParts:
    """Return the contribution of counted cells to the margins, by feature weights.

    Parameters
    ----------
    scaling : Scaling
        The scaling of the features that the table's columns become, like the weights.
    """
    cells = table.cells
    if np.any(scaling.offset) and cells.nnz < cells.shape[0] * cells.shape[1]:
        cells = stored_densely(cells.toarray())  # zeros have an offset too
    scaled = scaling.apply(expansion.features(table.own.of(cells)))
    # Overflow shows in the bound.
    with np.errstate(over="ignore", invalid="ignore"):
        margins = scaled @ weights
        bound = _longest(scaled) * float(np.linalg.norm(weights, axis=0).max())
        return OwnParts(margins, _n_owned(table.own), _above(bound))


def numbers_of(model: Model, columns: Sequence[str]) -> IntArray:
    """Return the numbers of the features that columns become."""
    made = features_of(columns, model.inputs.categories)
    place = {name: number for number, name in enumerate(model.features)}
    return np.array([place[name] for name in made], np.int64)


def _scaling(model: Model, features: IntArray, reference: FloatArray) -> Scaling:
    scaling = model.scaling
    return Scaling(
        reference[features], scaling.scale[features], scaling.filling[features]
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

"""Which columns of a table are far from those that a model was trained on.

A column in other units gives wrong predictions without any other sign.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray
from hyfdca.data.tables import listed
from hyfdca.model.model import Model

_FAR = 5.0  # deviations, or largest absolute values


def distance_note(model: Model, columns: Sequence[str], cells: sp.csr_array) -> str:
    """Return a sentence naming columns that are far away; empty if there are none.

    Parameters
    ----------
    columns : sequence of str
        Of the cells; categories have no mean, and others than the model's none there.
    """
    unit = {"standard": "deviations", "maxabs": "times the largest value"}
    scale = model.file.scaling.scale
    if scale == "none":
        return ""
    place = {name: number for number, name in enumerate(model.features)}
    means = _means(cells)
    far = [
        name
        for name, mean in zip(columns, means.tolist(), strict=True)
        if name in place and _is_far(model, place[name], mean)
    ]
    if not far:
        return ""
    return (
        f"Far from the training rows: the mean of {listed(far)} is more than "
        f"{_FAR:g} {unit[scale]} away; check the units."
    )


def _is_far(model: Model, feature: int, mean: float) -> bool:
    """Return whether a mean is far, in a column that the model uses."""
    scaling = model.scaling
    distance = (mean - scaling.offset[feature]) / scaling.scale[feature]
    return bool(abs(distance) > _FAR and model.weights[feature].any())


def _means(cells: sp.csr_array) -> FloatArray:
    """Return the mean of each column, without blank cells; NaN if all are blank."""
    is_blank, width = np.isnan(cells.data), cells.shape[1]
    values = np.where(is_blank, 0.0, cells.data)
    n_blank = np.bincount(cells.indices[is_blank], minlength=width)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        sums = np.bincount(cells.indices, weights=values, minlength=width)
        means: FloatArray = sums / (cells.shape[0] - n_blank)
    return means

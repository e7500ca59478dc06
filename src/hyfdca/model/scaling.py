"""How the cells of a model's features, and its target, are scaled and filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray, IntArray

Scale = Literal["none", "standard", "maxabs"]
Missing = Literal["refuse", "mean"]

_NOISE = 2.0**-38  # of a mean: more than the error of sealed sums of 42 bits


@dataclass(frozen=True)
class Scaling:
    """Maps each value x of a feature to (x - offset) / scale.

    All arrays are by feature; ``filling`` replaces a missing x before scaling and is
    for example the mean.
    """

    offset: FloatArray
    scale: FloatArray
    filling: FloatArray

    def apply(self, cells: sp.csr_array) -> sp.csr_array:
        """Return the stored cells, filled and scaled, with zeros removed."""
        column = cells.indices
        filled = np.where(np.isnan(cells.data), self.filling[column], cells.data)
        scaled = (filled - self.offset[column]) / self.scale[column]
        # Zeros are removed in place, so from a copy of the structure.
        parts = (scaled, column, cells.indptr)
        table = sp.csr_array(parts, shape=cells.shape, copy=not scaled.all())
        table.eliminate_zeros()
        return table


def among_levels(numbers: Scaling, places: IntArray, n_features: int) -> Scaling:
    """Return the scaling of all features: those of levels are unchanged.

    Parameters
    ----------
    places : array
        The places of columns of numbers among the features.
    """
    offset, filling = np.zeros((2, n_features))
    scale = np.ones(n_features)
    offset[places], scale[places] = numbers.offset, numbers.scale
    filling[places] = numbers.filling
    return Scaling(offset, scale, filling)


@dataclass(frozen=True)
class TargetScaling:
    """Maps each target y of a regression to (y - centre) / scale for training.

    Parameters
    ----------
    varies : bool
        If false, all targets equal the centre except for rounding, and become 0.
    """

    centre: float = 0.0
    scale: float = 1.0
    varies: bool = True

    def apply(self, targets: FloatArray) -> FloatArray:
        """Return targets as used in training."""
        if not self.varies:
            return np.zeros_like(targets)
        return (targets - self.centre) / self.scale


def target_scaling(mean: float, mean_square: float, is_centred: bool) -> TargetScaling:
    """Return the scaling that gives targets deviation 1, and mean 0 if centred.

    Parameters
    ----------
    mean : float
    mean_square : float
        The mean square of distances to the mean if ``is_centred``, else of the targets.
    """
    scale = float(np.sqrt(mean_square))
    if not is_centred:
        return TargetScaling(0.0, scale or 1.0)
    if scale <= _NOISE * abs(mean):
        return TargetScaling(mean, varies=False)
    return TargetScaling(mean, scale)

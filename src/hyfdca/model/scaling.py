"""How the cells of a model's features are scaled and filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray

Scale = Literal["none", "standard", "maxabs"]
Missing = Literal["refuse", "mean"]


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
        table = sp.csr_array((scaled, column, cells.indptr), shape=cells.shape)
        table.eliminate_zeros()
        return table

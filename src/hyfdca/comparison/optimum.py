"""The optimum of the pooled training rows, which relative losses refer to."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hyfdca.maths.objective import relative_gap
from hyfdca.study.local.study import LocalRun, pooled_objective
from hyfdca.training.central import central_optimum

_GAP = 1e-9  # far below the tolerance of any study


@dataclass(frozen=True)
class PooledOptimum:
    """Bounds on the optimum of the pooled training rows.

    Parameters
    ----------
    primal, dual : float
        The optimum is between them.
    method : str
        What found them.
    """

    primal: float
    dual: float
    method: str

    @property
    def relative_gap(self) -> float:
        """(P - D) / P."""
        return relative_gap(self.primal, self.dual)

    def relative_loss(self, primal: float) -> float:
        """Return (P(w) - P*) / P*, with the lower bound as P*.

        So it is never negative, and too large by ``relative_gap`` at most. NaN where
        the optimum is zero.
        """
        return (primal - self.dual) / self.dual if self.dual > 0.0 else math.nan


def pooled_optimum(run: LocalRun) -> PooledOptimum:
    """Solve the problem of all training rows in one place."""
    found = central_optimum(pooled_objective(run), _GAP)
    return PooledOptimum(found.primal, found.dual, found.method)

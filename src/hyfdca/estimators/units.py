"""Converts weights between training and fitted estimators."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.arrays import FloatArray
from hyfdca.model.scaling import TargetScaling


@dataclass(frozen=True)
class Units:
    """Converts weights between the units of training and those of the data.

    Parameters
    ----------
    bias : float or None
        The constant feature whose weight is a penalised intercept; None if the
        intercept is free, or there is none.
    target : TargetScaling
        How targets are scaled for training.
    has_intercept : bool
        Whether the last row of weights is the intercept.
    """

    bias: float | None
    target: TargetScaling
    has_intercept: bool

    def outside(self, trained: FloatArray) -> FloatArray:
        """Return trained weights in the units of the data, intercept last."""
        weights = trained * self.target.scale
        if self.has_intercept:
            weights[-1] = weights[-1] * (self.bias or 1.0) + self.target.centre
        return weights

    def inside(self, weights: FloatArray) -> FloatArray:
        """Return weights, in the units of the data, as they are trained."""
        own = weights.copy()
        if self.has_intercept:
            own[-1] = (own[-1] - self.target.centre) / (self.bias or 1.0)
        return own / self.target.scale

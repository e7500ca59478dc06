"""Derives statistics of a client's features from sums."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.stages.secure_max import SecureMax


@dataclass(frozen=True)
class Learned:
    """What the sums so far reveal about a client's features.

    Parameters
    ----------
    mean_errors : array (features,)
        A bound on the error of each mean, from the grid of its sum.
    """

    counts: FloatArray
    means: FloatArray
    mean_errors: FloatArray
    variances: FloatArray
    sizes: SecureMax
    spread: SecureMax

    @classmethod
    def nothing(cls, n_features: int) -> Learned:
        """Return what is known before the first sum."""
        zeros = np.zeros(n_features)
        largest = (SecureMax(n_features), SecureMax(n_features))
        return cls(zeros, zeros, zeros, zeros, *largest)

    def with_digit(self, phase: str, counts: FloatArray) -> Learned:
        """Return the statistics with one more digit of a maximum."""
        largest = copy(self.sizes if phase == "digits" else self.spread)
        largest.take(counts)
        if phase == "digits":
            return replace(self, sizes=largest)
        return replace(self, spread=largest)

    def with_means(self, counts: FloatArray, sums: FloatArray, error: float) -> Learned:
        """Return the statistics with means, from sums in units of the sizes.

        Parameters
        ----------
        error : float
            A bound on the error of each sum, from its grid.
        """
        counted, unit = np.maximum(counts, 1.0), self.sizes.unit()
        means, errors = sums / counted * unit, error / counted * unit
        return replace(self, counts=counts, means=means, mean_errors=errors)

    def with_squares(self, squares: FloatArray) -> Learned:
        """Return the statistics with variances, from squares in units of the spread."""
        mean_square = squares / np.maximum(self.counts, 1.0)
        return replace(self, variances=mean_square * self.spread.unit() ** 2)

    def deviations(self) -> FloatArray:
        """Return standard deviations, 0 where values equal the mean up to rounding."""
        epsilon = np.finfo(np.float64).eps
        noise = self.counts * epsilon * self.variances
        noise += (self.counts * np.abs(self.means) * epsilon + self.mean_errors) ** 2
        return np.sqrt(np.where(self.variances > noise, self.variances, 0.0))

"""From margins to classes and probabilities, wherever the margins come from."""

from __future__ import annotations

import numpy as np

from hyfdca.arrays import FloatArray, IntArray

_FLAT = 700.0  # beyond it the exponential overflows and the probability is 0 or 1


def chosen_classes(margins: FloatArray) -> IntArray:
    """Return the number of each sample's class.

    Parameters
    ----------
    margins : array (n_samples, n_outputs)
        One output for two classes, of which 1 has the positive margins (a margin of
        exactly zero is class 0); else one a class, the largest of which wins.
    """
    if margins.shape[1] == 1:
        return (margins[:, 0] > 0).astype(np.int64)
    return np.asarray(margins.argmax(axis=1), dtype=np.int64)


def class_probabilities(margins: FloatArray) -> FloatArray:
    """Return the logistic loss's probability of each class, (n_samples, n_classes)."""
    positive = 1.0 / (1.0 + np.exp(-np.clip(margins, -_FLAT, _FLAT)))
    if positive.shape[1] == 1:
        return np.hstack([1.0 - positive, positive])
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))

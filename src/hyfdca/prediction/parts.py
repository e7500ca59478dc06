"""The common part of all scores, and the substitutes for cells that nobody has."""

from __future__ import annotations

from hyfdca.arrays import FloatArray
from hyfdca.model.model import Model


def common_part(model: Model) -> FloatArray:
    """Return the part common to all margins, (n_outputs,); the asker adds it."""
    scaling = model.scaling
    scaled = (reference_of(model) - scaling.offset) / scaling.scale
    common: FloatArray = scaled @ model.weights + model.intercept
    return common


def reference_of(model: Model) -> FloatArray:
    """Return the value of each feature that adds nothing to a margin."""
    is_filled = model.file.scaling.missing == "mean"
    return model.scaling.filling if is_filled else model.scaling.offset

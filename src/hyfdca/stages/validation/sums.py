"""What a label holder adds up at a point of the curves, and the results of all sums.

The loss is the study's own, added up over outputs as in P, without the penalty. Numbers
are in the units of the target: a loss that grows with the square of an error is then
that of training times the square of the target's scale, any other times the scale.
"""

from __future__ import annotations

import math

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.data.labels import chosen_classes
from hyfdca.data.targets import Targets
from hyfdca.maths.losses import Loss
from hyfdca.model.scaling import TargetScaling
from hyfdca.stages.evaluation.held_out_client import weights_of

LOSS, SCORE = "validation_loss", "validation_score"

# Losses of regressions that grow with the error itself
LINEAR = ("absolute", "epsilon_insensitive", "pinball", "scaled_huber")
_N_CLASS_SUMS, _N_NUMBER_SUMS = 4, 6


def n_sums(n_classes: int) -> int:
    """Return how many numbers are added up; 0 classes stand for a regression."""
    return _N_CLASS_SUMS if n_classes else _N_NUMBER_SUMS


def own_sums(
    margins: FloatArray, targets: Targets, loss: Loss, scaling: TargetScaling
) -> list[FloatArray]:
    """Return a client's sums over its own rows, starting with their number.

    Parameters
    ----------
    margins : array (rows, n_outputs)
        In the units of training, without offsets.
    """
    weights, centre, scale = weights_of(targets), scaling.centre, scaling.scale
    offsets = 0.0 if targets.offsets is None else targets.offsets[:, None]
    shifted = margins + offsets / scale
    if targets.n_classes:
        losses = loss.value(shifted, targets.encoded).sum(axis=1)
        rest = [chosen_classes(shifted) == targets.classes]
    else:
        labels = targets.encoded - centre
        unit = scale if loss.name in LINEAR else scale**2
        losses = unit * loss.value(shifted, labels / scale)[:, 0]
        labels = labels[:, 0]
        rest = [(labels - scale * shifted[:, 0]) ** 2, labels, labels**2]
    sums = [weights @ own for own in (np.ones(len(weights)), losses, *rest)]
    return [np.array([float(own)]) for own in (len(weights), *sums)]


def as_entries(totals: list[FloatArray], n_classes: int) -> dict[str, float]:
    """Return a round's record about rows set aside.

    The score is the accuracy, or R² of a regression; NaN if all targets are equal.
    """
    _, weight, losses, *rest = (float(own[0]) for own in totals)
    if n_classes:
        score = min(max(rest[0] / weight, 0.0), 1.0)
    else:
        errors, linear, squares = rest
        spread = squares - linear**2 / weight
        score = 1.0 - errors / spread if spread > 0.0 else math.nan
    return {LOSS: losses / weight, SCORE: score}

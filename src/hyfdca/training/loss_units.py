"""Sentences about a loss's parameter in the units of the target.

The targets of a regression are scaled to deviation 1 for training, and the parameter is
in these units. Somebody who gives it in dollars gets another model than they think.
"""

from __future__ import annotations

from hyfdca.maths.losses import Loss
from hyfdca.model.scaling import TargetScaling

_FAR = 5.0  # deviations; hardly any error is larger


def unit_note(loss: Loss, target: TargetScaling, column: str) -> str | None:
    """Return the parameter in the target's units, where training has others."""
    if not loss.parameter_is_error or target.scale == 1.0:
        return None
    given = loss.parameter or 0.0
    return (
        f"loss_parameter {given:g} = {given * target.scale:,.4g} in units of "
        f"{column!r}, whose deviation is {target.scale:,.4g}."
    )


def size_warning(loss: Loss, target: TargetScaling | None, start: float) -> str | None:
    """Return a warning about a parameter that is larger than the errors.

    Parameters
    ----------
    target : TargetScaling or None
        None if targets are trained in their own units.
    start : float
        P before the first round.
    """
    if not loss.parameter_is_error:
        return None
    what, advice = f"loss_parameter = {loss.parameter:g}", "use a smaller one"
    if target is not None and target.varies:
        what += " is in deviations of the target"
        deviation = f"{target.scale:.4g}"
        advice = f"divide a number of the target's units by its deviation, {deviation}"
    if start == 0.0 and loss.shape.insensitivity:
        return (
            "There is nothing to train, because no error is larger than "
            f"loss_parameter: {what}; {advice}."
        )
    is_far = target is not None and target.varies and (loss.parameter or 0.0) > _FAR
    return f"{what}, and hardly any error is so large: {advice}." if is_far else None

"""Messages of the scaling, their order, and which of them the settings need."""

from __future__ import annotations

from typing import Annotated

from hyfdca.federation.messages import Arrangements
from hyfdca.model.scaling import Missing, Scale
from hyfdca.protocol.messages import (
    Message,
    OnGrid,
    Part,
    Seen,
    Sums,
)
from hyfdca.protocol.phases import START, Phase, Phases
from hyfdca.stages.secure_max import BASE, DIGITS, EXPONENT_DIGITS

LARGEST = 4.0  # bounds the square of a number in units of its feature


class StatisticsRequest(Message, frozen=True):
    """The sum of the exchange before down, a sum by feature up."""

    known: Annotated[Sums | None, Seen("statistics")]
    grid: OnGrid


class ScalingNotice(Message, frozen=True):
    """The sum of the last exchange; no answer."""

    known: Annotated[Sums, Seen("statistics")]


class Statistics(Message, frozen=True):
    """Scaling of a client's features, in the clear, as part of the model."""

    offset: Annotated[memoryview, Seen("released scaling")]  # float64
    scale: Annotated[memoryview, Seen("released scaling")]
    filling: Annotated[memoryview, Seen("released scaling")]


def _sum(*after: str) -> Phase:
    return Phase(StatisticsRequest, (Part,), after, "statistics")


PHASES: Phases = {
    "arrange": Phase(Arrangements, after=(START,)),
    "digits": _sum("arrange", "digits"),
    "means": _sum("digits"),
    "spread": _sum("means", "spread"),
    "deviations": _sum("spread"),
    "scaling": Phase(ScalingNotice, after=("digits", "means", "deviations")),
    # Where nothing is scaled there is nothing to sum.
    "statistics": Phase(Message, (Statistics,), ("scaling", START)),
}


def exchanges(
    scale: Scale, missing: Missing, is_centred: bool = False
) -> list[tuple[str, int]]:
    """Return the phases that these settings need, with their numbers per feature.

    Parameters
    ----------
    is_centred : bool
        Whether features are centred even if the scale does not do it: then a cell that
        nobody holds, which is zero, is the mean.
    """
    if scale == "none" and missing == "refuse" and not is_centred:
        return []
    n_digits = DIGITS if scale == "maxabs" else EXPONENT_DIGITS
    phases = [("digits", BASE)] * n_digits
    if scale == "standard" or missing == "mean" or is_centred:
        phases.append(("means", 2))
    if scale == "standard":
        phases += [*[("spread", BASE)] * EXPONENT_DIGITS, ("deviations", 1)]
    return phases

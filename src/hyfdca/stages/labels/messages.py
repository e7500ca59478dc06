"""The messages about labels that some holders lack, weights, and scaled targets."""

from __future__ import annotations

from typing import Annotated

from hyfdca.federation.messages import Arrangements, GridRequest
from hyfdca.protocol.messages import (
    Bound,
    Finite,
    Message,
    NonNegative,
    Part,
    Seen,
    Sums,
)
from hyfdca.protocol.phases import START, Phase, Phases


class GiveRequest(Message, frozen=True):
    """Ask a client for what other holders of some of its rows lack."""

    positions: Annotated[memoryview, Seen("positions")]  # uint32, of its rows


class LabelsNotice(Message, frozen=True):
    """The labels, weights and offsets of all rows that a client lacks; no answer."""

    values: Annotated[Sums, Seen("labels")]


class SumBound(Message, frozen=True):
    """A power of two above a sum over the rows that a client counts."""

    total: Annotated[Bound, Seen("bounds")]


class TotalsNotice(Message, frozen=True):
    """Sums of weights over all rows, by class if classes are balanced; no answer."""

    totals: Annotated[Sums, Seen("weight totals")]


class TargetTotal(Message, frozen=True):
    """A sum over the targets of all rows; no answer."""

    total: Annotated[Sums, Seen("target totals")]


class TargetReleased(Message, frozen=True):
    """How targets are scaled, in the clear, as part of the model."""

    centre: Annotated[Finite, Seen("released scaling")]
    scale: Annotated[NonNegative, Seen("released scaling")]


class WeightsNotice(Message, frozen=True):
    """The weights of the samples of a client without labels; no answer."""

    values: Annotated[Sums, Seen("sample weights")]


_FILLING = ("arrange", "give labels", "take labels")

_WEIGHED = (*_FILLING, "weight totals")


def _target_sum(name: str, *after: str) -> Phases:
    """Return the exchange of a sum over all targets: a bound, parts, the total."""
    bound, parts, total = (f"{name} {step}" for step in ("bound", "parts", "total"))
    return {
        bound: Phase(Message, (SumBound,), after),
        parts: Phase(GridRequest, (Part,), (bound,), "client targets"),
        total: Phase(TargetTotal, after=(parts,)),
    }


# Each client takes part in what concerns it; without labels that is the last phase.
PHASES: Phases = {
    "arrange": Phase(Arrangements, after=(START,)),
    "give labels": Phase(GiveRequest, (Part,), ("arrange",), "labels"),
    "take labels": Phase(LabelsNotice, after=("arrange", "give labels")),
    "weight bound": Phase(Message, (SumBound,), _FILLING),
    "weigh rows": Phase(
        GridRequest, (Part,), (*_FILLING, "weight bound"), "client weights"
    ),
    "weight totals": Phase(TotalsNotice, after=("weigh rows",)),
    "give weights": Phase(
        GiveRequest,
        (Part,),
        (*_WEIGHED, "square total", "target scaling"),
        "sample weights",
    ),
    "take weights": Phase(WeightsNotice, after=("arrange",)),
    # Numbers of a regression
    **_target_sum("target", *_WEIGHED),
    **_target_sum("square", *_WEIGHED, "target total"),
    "target scaling": Phase(Message, (TargetReleased,), ("square total",)),
}

"""The messages about labels that some holders lack, and about sums of weights."""

from __future__ import annotations

from typing import Annotated

from hyfdca.federation.messages import Arrangements, GridRequest
from hyfdca.protocol.messages import Bound, Message, Part, Seen, Sums
from hyfdca.protocol.phases import START, Phase, Phases


class GiveRequest(Message, frozen=True):
    """Ask a client for labels that others lack; weights and offsets with them."""

    positions: Annotated[memoryview, Seen("positions")]  # uint32, of its rows


class LabelsNotice(Message, frozen=True):
    """The labels, weights and offsets of all rows that a client lacks; no answer."""

    values: Annotated[Sums, Seen("labels")]


class WeightBound(Message, frozen=True):
    """A power of two above the weights that a client counts, all together."""

    total: Annotated[Bound, Seen("bounds")]


class TotalsNotice(Message, frozen=True):
    """Sums of weights over all rows, by class if classes are balanced; no answer."""

    totals: Annotated[Sums, Seen("weight totals")]


_FILLING = ("arrange", "give labels", "take labels")

# Of clients with labels alone; each takes part in what concerns it.
PHASES: Phases = {
    "arrange": Phase(Arrangements, after=(START,)),
    "give labels": Phase(GiveRequest, (Part,), ("arrange",), "labels"),
    "take labels": Phase(LabelsNotice, after=("arrange", "give labels")),
    "weight bound": Phase(Message, (WeightBound,), _FILLING),
    "weigh rows": Phase(
        GridRequest, (Part,), (*_FILLING, "weight bound"), "client weights"
    ),
    "weight totals": Phase(TotalsNotice, after=("weigh rows",)),
}

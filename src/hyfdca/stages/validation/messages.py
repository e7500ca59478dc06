"""Messages of a point of the curves: where the model is, and sums over rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec

from hyfdca.federation.messages import opening
from hyfdca.protocol.messages import (
    Bound,
    Counter,
    Intercepts,
    Message,
    Seen,
    TotalsSpec,
)
from hyfdca.protocol.phases import Phase, Phases
from hyfdca.stages.evaluation.messages import PHASES as EVALUATION_PHASES
from hyfdca.stages.evaluation.messages import MeasureParts
from hyfdca.stages.levels.messages import ColumnLevels

_Content = Annotated[bytes, msgspec.Meta(max_length=2**20)]


class PointNotice(Message, frozen=True):
    """The weights to score rows with: those that a release would give now.

    Parameters
    ----------
    point : bytes
        The release request of the algorithm in use.
    levels : list of ColumnLevels
        The levels of the client's own categories, in the order of its columns.
    """

    round: Counter
    point: Annotated[_Content, Seen("steps")]
    intercepts: Intercepts
    levels: Annotated[list[ColumnLevels], Seen("released levels")]


class SumBounds(Message, frozen=True):
    """Powers of two above each of a client's sums."""

    sums: Annotated[Annotated[list[Bound], msgspec.Meta(max_length=64)], Seen("bounds")]


class SumsRequest(Message, frozen=True):
    """Ask for sums over rows."""

    grids: Annotated[
        Annotated[list[TotalsSpec], msgspec.Meta(max_length=64)], Seen("grids")
    ]


_SCORED = ("held-out parts", "held-out scores")

# The first phase may come at any time: a failure repeats the whole round.
PHASES: Phases = {
    "validation point": Phase(PointNotice),
    "arrange held-out": replace(
        EVALUATION_PHASES["arrange held-out"], after=("validation point",)
    ),
    **{
        name: EVALUATION_PHASES[name]
        for name in ("held-out bound", "held-out parts", "held-out scores")
    },
    "validation bounds": Phase(Message, (SumBounds,), _SCORED),
    "validation sums": Phase(
        SumsRequest, (MeasureParts,), ("validation bounds",), "evaluation parts"
    ),
    # The client that opens totals may have no row of its own.
    "open measures": opening("evaluation totals", *_SCORED, "validation sums"),
}

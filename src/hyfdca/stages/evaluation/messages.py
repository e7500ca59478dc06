"""Messages of the evaluation: the released model, scores, and sealed sums of them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hyfdca.federation.messages import Arrangements, opening
from hyfdca.protocol.messages import (
    BY_PHASE,
    Bound,
    Finite,
    Message,
    OnGrid,
    Rank,
    Sealed,
    SealedTotals,
    Seen,
    Sums,
    TotalsSpec,
)
from hyfdca.protocol.phases import Phase, Phases

TAG_BYTES = 32
MOST_PASSES = 6  # over scores, to find bins that hold about as many rows each
MOST_STEPS = 15  # to the slope and intercept of a calibration

Tag = Annotated[bytes, msgspec.Meta(min_length=TAG_BYTES, max_length=TAG_BYTES)]
Ranks = Annotated[list[Rank], msgspec.Meta(max_length=2**16)]
_Specs = Annotated[list[TotalsSpec], msgspec.Meta(max_length=64), Seen("grids")]


class EvaluatedModel(Message, frozen=True):
    """The model to test, as a file."""

    model: Annotated[Annotated[bytes, msgspec.Meta(max_length=2**30)], Seen("model")]


class ModelTag(Message, frozen=True):
    """A client's proof of the model it was sent, which is the one it released."""

    tag: Annotated[Tag, Seen("model tags")]


class ModelTags(Message, frozen=True):
    """The proofs of all clients, by rank."""

    tags: Annotated[
        Annotated[list[Tag], msgspec.Meta(max_length=2**16)], Seen("model tags")
    ]


class HeldOutArrangements(Arrangements, frozen=True):
    """How parts of scores are sealed, and to whom: to each row's label holder."""

    owners: Annotated[memoryview | None, Seen("label holders")] = (
        None  # uint32, by row: the rank of the client that has its label
    )


class HeldOutBound(Message, frozen=True):
    """A power of two above all parts of a client."""

    bound: Annotated[Bound, Seen("bounds")]


class HeldOutRequest(Message, frozen=True):
    """Ask for parts of scores."""

    grid: OnGrid


class HeldOutParts(Message, frozen=True):
    """A client's parts of scores, one vector per label holder of its rows."""

    owners: Annotated[Ranks, Seen("numbers")]
    vectors: Annotated[list[Sealed], Seen("held-out parts")]


class HeldOutScores(Message, frozen=True):
    """The sums over holders, for the holder of these labels alone; no reply."""

    scores: Annotated[Sums, Seen("held-out scores")]


class MeasureBounds(Message, frozen=True):
    """Powers of two above a client's scores and above each of its sums."""

    score: Annotated[Bound, Seen("bounds")]
    sums: Annotated[Annotated[list[Bound], msgspec.Meta(max_length=64)], Seen("bounds")]


class BoundsRequest(Message, frozen=True):
    """Ask for bounds; numbers of a regression are measured from a centre."""

    centre: Annotated[Finite, Seen("evaluation totals")]


class MeasuresRequest(BoundsRequest, frozen=True):
    """Ask for sums over rows."""

    grids: _Specs


class BinsRequest(Message, frozen=True):
    """Ask how many rows of each class have scores in which bins."""

    grids: _Specs
    edges: Annotated[
        list[memoryview], msgspec.Meta(max_length=2**16), Seen("score bins")
    ]  # float64, ascending, by output


class CalibrationRequest(Message, frozen=True):
    """Ask for sums over bins of probabilities."""

    grids: _Specs
    tenths: Annotated[
        list[memoryview], msgspec.Meta(max_length=2**16), Seen("score bins")
    ]  # uint32, ascending, by output: bins end at these tenths


class MeasureParts(Message, tag="measures", frozen=True):
    """A client's parts of several totals."""

    vectors: Annotated[list[SealedTotals], BY_PHASE]


class Withheld(Message, tag="withheld", frozen=True):
    """The answer of a client whose policy asks for more rows in a sum."""


class RecalibrationRequest(Message, frozen=True):
    """Ask for the loss of a + b s over all rows, with its derivatives."""

    grids: _Specs
    points: Annotated[memoryview, Seen("calibration points")]  # float64, a and b


def _totals(request: type[Message], *after: str) -> Phase:
    """Return a phase in which clients send parts of several totals."""
    return Phase(request, (MeasureParts,), after, "evaluation parts")


_SCORED = ("held-out parts", "held-out scores")
_MEASURING = ("measures", "score bins", "calibration bins", "recalibration")

# The first phase may come at any time: a failure repeats the whole stage.
PHASES: Phases = {
    "evaluated model": Phase(EvaluatedModel, (ModelTag,)),
    "same model": Phase(ModelTags, (Message,), ("evaluated model",)),
    "arrange held-out": Phase(HeldOutArrangements, after=("same model",)),
    "held-out bound": Phase(Message, (HeldOutBound,), ("arrange held-out",)),
    "held-out parts": Phase(HeldOutRequest, (HeldOutParts,), ("held-out bound",)),
    "held-out scores": Phase(HeldOutScores, after=("held-out parts",)),
    "measure bounds": Phase(
        BoundsRequest, (MeasureBounds,), (*_SCORED, "measures", "open measures")
    ),
    "measures": _totals(MeasuresRequest, "measure bounds"),
    "score bins": _totals(BinsRequest, "measures", "score bins", "open measures"),
    "calibration bins": Phase(
        CalibrationRequest,
        (MeasureParts, Withheld),
        ("score bins", "open measures"),
        "evaluation parts",
    ),
    "recalibration": _totals(
        RecalibrationRequest,
        *("score bins", "calibration bins", "recalibration", "open measures"),
    ),
    # The client that opens totals may have no row of its own.
    "open measures": opening(
        "evaluation totals", *_SCORED, *_MEASURING, "open measures", "measure bounds"
    ),
}

"""What travels in HyFDCA's rounds, and in which order."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hyfdca.federation.messages import (
    SET_UP,
    Released,
    ReleaseRequest,
    opening,
    summing,
    totalling,
)
from hyfdca.protocol.messages import (
    BY_PHASE,
    Counter,
    Duals,
    Flag,
    Margins,
    Message,
    NonNegative,
    OnGrid,
    Positions,
    Sealed,
    SealedTotals,
    Seen,
    Share,
    Sums,
    TooLarge,
    TotalsOnGrid,
    Weights,
)
from hyfdca.protocol.phases import Phase, Phases

_Steps = Annotated[list[Share], msgspec.Meta(max_length=1000), Seen("steps")]


class MarginsRequest(Message, frozen=True):
    """SecureInnerProduct: weights down (None if the client has them), margins up."""

    weights: Annotated[Sums | None, Seen("weights")]
    positions: Positions
    grid: OnGrid


class SharesRequest(Message, frozen=True):
    """PrimalAggregation: the duals that changed down, the client's share up."""

    duals: Duals
    positions: Positions
    grid: OnGrid


class WeightsNotice(Message, frozen=True):
    """New weights; no answer."""

    weights: Weights


class ResealRequest(Message, frozen=True):
    """Sums of many changes down, the same numbers up, sealed again."""

    sums: Duals
    positions: Positions


class Resealed(Message, frozen=True):
    """The same numbers, one vector per grid."""

    vectors: Duals


class FactorsNotice(Message, frozen=True):
    """The safe step's factor of the curvature of each sample held; no answer."""

    factors: Annotated[memoryview, Seen("factors")]  # float64


class StepRequest(Message, frozen=True):
    """LocalDualMethod: margins of the drawn samples down, dual changes up.

    Where every sample has one holder the weights come instead of margins.
    """

    drawn: Positions
    margins: Annotated[Sums | None, Seen("margins")]
    weights: Annotated[Sums | None, Seen("weights")]
    # uint32; None: all holders with a label
    divisors: Annotated[memoryview | None, Seen("holder counts")]
    is_alone: Flag  # nobody else changes these duals
    factor: Annotated[NonNegative, Seen("factors")]  # of the curvature
    aggregation_step: Annotated[Share, Seen("steps")]  # γ_t
    cap: Annotated[Share | None, Seen("factors")]  # c_k of the theory variant
    grid: OnGrid


class DirectionRequest(Message, frozen=True):
    """Line search: margins of the drawn samples down; image and conjugates up."""

    drawn: Positions
    margins: Margins
    trial_steps: _Steps
    grid: OnGrid
    totals_grid: TotalsOnGrid
    duals_grid: OnGrid  # on which the direction is rounded, towards zero
    forwards: Flag  # whether holders without labels need the direction


class ForwardedDirection(Message, frozen=True):
    """Line search: the direction down to a holder without labels; image up."""

    drawn: Positions
    direction: Annotated[Sums, Seen("dual changes")]
    grid: OnGrid


class Image(Message, tag="image", frozen=True):
    """A client's part of a feature sum, with totals, with its direction if wanted."""

    vector: Annotated[Sealed, BY_PHASE]
    totals: Annotated[SealedTotals, Seen("losses")]
    direction: Annotated[Sealed | None, Seen("dual changes")] = None


class ProductsRequest(Message, frozen=True):
    """Line search, sealed: the image down, its products with the weights up."""

    image: Weights
    grid: TotalsOnGrid


class MoveRequest(Message, frozen=True):
    """Line search: the step chosen for each output down, the new share up."""

    steps: Annotated[list[Share], Seen("steps")]
    duals_grid: OnGrid
    grid: OnGrid


class ProbeRequest(Message, frozen=True):
    """Power iteration: weights down (reals at the start), normalised margins up."""

    start: Annotated[memoryview | None, Seen("random start")]  # float64
    weights: Annotated[Sums, Seen("probe shares")]
    scale: Annotated[NonNegative, Seen("steps")]
    grid: OnGrid


class ProbeSharesRequest(Message, frozen=True):
    """Power iteration: normalised margins down, share and totals up."""

    margins: Annotated[Sums, Seen("probe margins")]
    grid: OnGrid
    totals_grid: TotalsOnGrid


class LossesRequest(Message, frozen=True):
    """Measuring: margins of the samples a client counts down, sealed totals up."""

    margins: Margins
    is_current: Flag  # the training state is what is measured
    number: Counter  # of the measurement
    grid: TotalsOnGrid


# After these a client is between two rounds, or has nothing to do in this one.
_REST = ("prepare", "factors", "losses", "open", "release")
_ROUND = ("shares", "margins", "weights", "reseal")
_SEARCH = ("step", "direction", "forward direction", "products", "open step", "move")
_MEASURING = ("measure shares", "measure margins")

PROBES = 12  # iterations of the probe, before the first round
_PROBE: Any = {"most": 0, "most_at_start": PROBES}

PHASES: Phases = {
    **SET_UP,
    "probe margins": summing(
        ProbeRequest,
        "probe margins",
        "prepare",
        "probe shares",
        "open",
        "probe margins",
        is_single=True,
        **_PROBE,
    ),
    "probe shares": Phase(
        ProbeSharesRequest,
        (Image, TooLarge),
        ("probe margins", "probe shares"),
        "probe shares",
        is_single=True,
        **_PROBE,
    ),
    "factors": Phase(FactorsNotice, after=("probe shares", "open")),
    # Rounds
    # Clients that return begin a round with shares and margins, too.
    "shares": summing(SharesRequest, "shares", "step", *_ROUND, *_REST, most=2),
    "margins": summing(
        MarginsRequest,
        "margins",
        *("move", *_ROUND, *_REST),
        most=2,
        again=("positions",),
    ),
    "step": summing(
        StepRequest, "dual changes", "step", *_ROUND, *_REST, is_single=True
    ),
    "weights": Phase(WeightsNotice, after=(*_ROUND, *_REST)),
    "reseal": Phase(ResealRequest, (Resealed,), (*_ROUND, *_REST), is_extra=True),
    # Rounds with a line search
    "direction": Phase(
        DirectionRequest,
        (Image, TooLarge),
        ("margins", *_REST, "direction"),
        "shares",
        is_single=True,
    ),
    "forward direction": summing(
        ForwardedDirection,
        "shares",
        *("margins", *_REST, "forward direction"),
        is_extra=True,
        is_single=True,
    ),
    "products": totalling(
        ProductsRequest,
        "products",
        *("direction", "forward direction", "products"),
        is_extra=True,
        is_single=True,
        profile="sealed",
    ),
    "open step": opening(
        "step totals", "direction", "forward direction", "products", is_extra=True
    ),
    "move": summing(
        MoveRequest,
        "shares",
        *("direction", "forward direction", "products", "open step", "move"),
        is_single=True,
    ),
    # Measuring
    "measure shares": summing(
        SharesRequest, "shares", *_ROUND, *_REST, "measure shares"
    ),
    "measure margins": summing(
        MarginsRequest, "margins", "measure shares", "measure margins"
    ),
    "losses": totalling(
        LossesRequest, "losses", "measure margins", "margins", "reseal", *_REST
    ),
    "open": opening("P and D", "losses", "probe shares", most_at_start=1 + PROBES),
    # A run that diverges ends within a round, with the model last measured.
    "release": Phase(
        ReleaseRequest, (Released,), (*_ROUND, *_REST, *_SEARCH, *_MEASURING)
    ),
}

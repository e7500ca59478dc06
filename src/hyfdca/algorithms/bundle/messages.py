"""What travels in rounds of the bundle method, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec

from hyfdca.federation.messages import SET_UP, Released, opening, summing, totalling
from hyfdca.protocol.messages import (
    Counter,
    Duals,
    Flag,
    Intercepts,
    Margins,
    Message,
    NonNegative,
    Number,
    OnGrid,
    OnlyIn,
    Parts,
    Sealed,
    SealedTotals,
    Seen,
    Share,
    Step,
    Sums,
    TooLarge,
    TotalsOnGrid,
)
from hyfdca.protocol.phases import Phase, Phases

_PlaneCount = Annotated[int, msgspec.Meta(ge=1, le=65536), Seen("numbers")]
_Numbers = Annotated[memoryview, Seen("numbers")]  # uint32
_Buckets = Annotated[memoryview, Seen("bucket numbers")]  # uint32
_Slopes = Annotated[list[Sealed], Seen("slopes")]
_FitNumbers = Annotated[
    list[Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]],
    msgspec.Meta(max_length=4096),
    Seen("path"),
]
_PositiveStrength = Annotated[float, msgspec.Meta(ge=1e-100, le=1e100)]


class BucketsNotice(Message, frozen=True):
    """The bucket of each sample held, among those the client has samples in."""

    numbers: _Buckets  # of those buckets among all
    buckets: _Buckets  # for each sample, a place in this list


class Move(Message, frozen=True):
    """How far the best point goes towards the last trial point."""

    number: Counter  # of the search that found it
    steps: Annotated[list[Step], Seen("steps")]  # one per output


class Candidate(Message, frozen=True):
    """A coordinate step from the present duals, at margins of that place."""

    place: Annotated[Share, Seen("steps")]
    curvature: Annotated[NonNegative, Seen("steps")]


class Mixture(Message, frozen=True):
    """The present duals, as weights of the planes that the client has delivered."""

    deliveries: Annotated[list[Number], Seen("numbers")]  # others can be forgotten
    # float64: deliveries, own buckets, planes, outputs
    weights: Annotated[memoryview, Seen("plane weights")]


_Move = Annotated[Move, Seen("steps")]


class FoldsRequest(Message, frozen=True):
    """Path: ask for the weight of the samples in each fold."""

    grid: TotalsOnGrid


class FitsNotice(Message, frozen=True):
    """Path: the fits that have a point of their own from now on, and λ of each.

    A fit that is new begins at the best point of one that is there.
    """

    move: _Move
    fits: _FitNumbers  # ascending
    sources: _FitNumbers
    # of the samples' weight that is left without each fold
    shares: Annotated[
        tuple[Share, ...], msgspec.Meta(max_length=1000), Seen("fold shares")
    ]
    # λ, where the study leaves it to the data
    largest_l2: Annotated[_PositiveStrength | None, Seen("path")] = None


class PlanesRequest(Message, frozen=True):
    """Ask for new planes: slopes by bucket and offsets up."""

    number: Counter  # of the delivery, from 0
    move: _Move
    # of vertices between the best point and the trial point
    places: Annotated[list[Share], msgspec.Meta(max_length=64), Seen("steps")]
    candidates: Annotated[list[Candidate], msgspec.Meta(max_length=64), Seen("steps")]
    # which candidates start from
    mixture: Annotated[Mixture | None, Seen("plane weights")]
    grid: OnGrid
    offsets_grid: TotalsOnGrid
    duals_grid: OnGrid
    forwards: Flag  # whether holders without labels need the duals


class Planes(Message, tag="planes", frozen=True):
    """A client's part of new planes: one slope per bucket, offsets and duals."""

    slopes: _Slopes
    # with a free intercept, the balances of the planes after their offsets
    offsets: Annotated[SealedTotals, Seen("offsets")]
    # per bucket, or one vector for all samples
    duals: Annotated[list[Sealed] | None, Seen("duals")] = None


class ForwardedPlanes(Message, frozen=True):
    """The duals of new planes down to a holder without labels; slopes up."""

    duals: Duals
    n_planes: _PlaneCount
    grid: OnGrid


class GramRequest(Message, frozen=True):
    """Sealed profile: new slopes of every bucket down, their products up."""

    kept: _Numbers  # of the older planes to remember
    first: Counter  # number of the first new plane
    slopes: Annotated[list[Sums], Seen("slopes")]
    n_planes: _PlaneCount  # new ones per bucket
    # float64: of the products with each plane, old and new
    units: Annotated[memoryview, Seen("plane lengths")]
    grid: TotalsOnGrid


class TrialRequest(Message, frozen=True):
    """The trial point down, margins up.

    In the open profile the point comes as weights, in the sealed one as weights of the
    planes, whose slopes the client has: no server chooses a point feature by feature.
    """

    move: _Move
    # float64
    weights: Annotated[memoryview | None, Seen("trial weights"), OnlyIn("open")]
    # float64: of the planes remembered
    plane_weights: Annotated[memoryview | None, Seen("plane weights"), OnlyIn("sealed")]
    grid: OnGrid
    intercepts: Intercepts = ()


class SearchRequest(Message, frozen=True):
    """Margins at the trial point down, P along the way to it up."""

    margins: Margins
    steps: Annotated[list[Step], msgspec.Meta(max_length=1000), Seen("steps")]
    grid: TotalsOnGrid


class VisitRequest(Message, frozen=True):
    """Asynchronous bundle: points down, margins of some buckets' samples up."""

    points: Annotated[memoryview, Seen("trial weights")]  # float64
    buckets: _Buckets  # places in the client's list, ascending
    point_of: _Numbers  # for each bucket, its point
    grid: OnGrid


class VisitPlanesRequest(Message, frozen=True):
    """Asynchronous bundle: margins of some buckets down, new planes of them up."""

    buckets: _Buckets  # places in the client's list, ascending
    numbers: Annotated[list[Number], Seen("numbers")]  # of the buckets' visits
    margins: Annotated[list[Sums], Seen("margins")]
    # from the last margins (0) to these (1) and beyond
    places: Annotated[list[NonNegative], msgspec.Meta(max_length=64), Seen("steps")]
    grid: OnGrid
    offsets_grid: TotalsOnGrid
    duals_grid: OnGrid
    forwards: Flag
    # float64: buckets, outputs; of the points that the margins belong to
    intercepts: Annotated[memoryview | None, Seen("intercepts")] = None


class ForwardedVisit(Message, frozen=True):
    """Asynchronous bundle: duals of some buckets down; slopes of them up."""

    buckets: _Buckets
    duals: Annotated[list[Sums], Seen("duals")]
    n_planes: _PlaneCount
    grid: OnGrid


class MovedRelease(Message, frozen=True):
    """Ask for the weights of the best point, in the clear; on a path, of which fit."""

    move: _Move
    fit: Annotated[Number | None, Seen("numbers")] = None


# A step may wait for absent clients, so the model may be released within one.
_VISITS = ("visit", "visit planes", "forward visit")
_ROUND = ("trial", "search", "open search", "release")

PHASES: Phases = {
    **SET_UP,
    "buckets": Phase(BucketsNotice, after=("prepare",)),
    # New planes
    "planes": Phase(
        PlanesRequest,
        (Planes, TooLarge),
        ("search", "open search", "release", "planes"),
        is_single=True,
    ),
    "forward planes": Phase(
        ForwardedPlanes,
        (Parts, TooLarge),
        ("search", "open search", "release", "forward planes"),
        "slopes",
        is_single=True,
    ),
    "gram": totalling(
        GramRequest,
        "products",
        *("planes", "forward planes", "gram", "release"),
        profile="sealed",
        is_single=True,
    ),
    "open planes": opening("Gram and offsets", "gram", "release", profile="sealed"),
    # A new point: where the server does not see it, one per collection of planes
    "trial": summing(
        TrialRequest,
        "margins",
        *("planes", "forward planes", "gram", "open planes", *_VISITS, *_ROUND),
        sealed_after=("gram", "open planes", "trial", "release"),
        is_single=True,
    ),
    "search": totalling(
        SearchRequest,
        "losses",
        *("buckets", "trial", "search", "release", *_VISITS),
        is_single=True,
    ),
    "open search": opening("search totals", "search", "release", *_VISITS),
    # Visits, under partial participation
    "visit": Phase(
        VisitRequest,
        (Parts, TooLarge),
        ("buckets", *_VISITS, *_ROUND),
        "margins",
        profile="open",
    ),
    "visit planes": Phase(
        VisitPlanesRequest,
        (Planes, TooLarge),
        ("buckets", *_VISITS, *_ROUND),
        profile="open",
        most=2,  # before and after new margins
    ),
    "forward visit": Phase(
        ForwardedVisit,
        (Parts, TooLarge),
        ("buckets", *_VISITS, *_ROUND),
        "slopes",
        profile="open",
        most=2,
    ),
    "release": Phase(
        MovedRelease,
        (Released,),
        ("planes", "forward planes", "gram", "open planes", *_VISITS, *_ROUND),
    ),
}

# A path: the weights of its folds, and which of its fits have a point. New planes may
# follow either; set-up may collect the first ones.
_FOLDS = ("folds", "open folds")
_COLLECTED = ("planes", "forward planes", "gram", "open planes")
_AT_START: Any = {"most": 0, "most_at_start": 1}


def _also_after(name: str, *more: str) -> Phase:
    """Return a phase that may follow more phases."""
    phase = PHASES[name]
    assert phase.after is not None  # noqa: S101  # all of these have an order
    sealed = phase.sealed_after and (*phase.sealed_after, *more)
    return replace(phase, after=(*phase.after, *more), sealed_after=sealed)


PATH_PHASES: Phases = {
    **PHASES,
    "folds": totalling(
        FoldsRequest, "fold weights", "search", "open search", "folds", **_AT_START
    ),
    "open folds": opening("fold shares", "folds", **_AT_START),
    "fits": Phase(FitsNotice, after=(*_FOLDS, *_COLLECTED, "fits", "release")),
    "planes": _also_after("planes", "fits", *_FOLDS),
    "forward planes": _also_after("forward planes", "fits", *_FOLDS),
    "trial": _also_after("trial", "fits"),
    "release": _also_after("release", "fits"),
}

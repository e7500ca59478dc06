"""What travels in rounds of the bundle method, also of the one by visits."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hyfdca.protocol.checkpoint_values import value
from hyfdca.protocol.messages import (
    GridSpec,
    Message,
    NonNegative,
    Number,
    PlaneCount,
    Sealed,
    Share,
    Step,
    Sums,
)


class BucketsNotice(Message, frozen=True):
    """Bundle: the bucket of each sample held, of those the client has samples in."""

    numbers: memoryview  # uint32, of those buckets among all
    buckets: memoryview  # uint32, a place among these a sample


@value
class Move(Message, frozen=True):
    """Bundle: how far the best point goes to the last trial point."""

    number: Number  # of the search that found it
    steps: list[Step]  # one an output


class Candidate(Message, frozen=True):
    """A coordinate step from the present duals, at margins of that place."""

    place: Share
    curvature: NonNegative


class Mixture(Message, frozen=True):
    """The present duals, as weights of the planes that the client has delivered."""

    deliveries: list[Number]  # others can be forgotten
    weights: memoryview  # float64: deliveries, own buckets, planes, outputs


class PlanesRequest(Message, frozen=True):
    """Bundle: duals of new planes up, as slopes by bucket; offsets beside."""

    number: Number  # of the delivery, from 0
    move: Move
    # of vertices between the best point and the trial point
    places: Annotated[list[Share], msgspec.Meta(max_length=64)]
    candidates: Annotated[list[Candidate], msgspec.Meta(max_length=64)]
    mixture: Mixture | None  # which candidates start from
    grid: GridSpec
    offsets_grid: GridSpec
    duals_grid: GridSpec
    is_lent: bool  # whether holders without labels need the duals


class Planes(Message, tag="planes", frozen=True):
    """A client's part of new planes: a slope a bucket, with offsets and duals."""

    slopes: list[Sealed]
    offsets: Sealed
    duals: list[Sealed] | None = None  # a bucket, or one for all samples


class AdoptPlanesRequest(Message, frozen=True):
    """Bundle: the duals of new planes down to a holder without labels; slopes up."""

    duals: Sums
    n_planes: PlaneCount
    grid: GridSpec


class GramRequest(Message, frozen=True):
    """Bundle, sealed: new slopes of every bucket down, their products up."""

    kept: memoryview  # uint32, numbers of the older planes to remember
    first: Number  # number of the first new plane
    slopes: list[Sums]
    n_planes: PlaneCount  # new ones a bucket
    units: memoryview  # float64: of the products with each plane, old and new
    grid: GridSpec


class TrialRequest(Message, frozen=True):
    """Bundle: the trial point down, margins up.

    The point comes as weights, or as weights of the planes, of which the client has
    the slopes.
    """

    move: Move
    weights: memoryview | None  # float64
    plane_weights: memoryview | None  # float64, of the planes remembered
    grid: GridSpec


class SearchRequest(Message, frozen=True):
    """Bundle: margins at the trial point down, P along the way to it up."""

    margins: Sums
    steps: Annotated[list[Step], msgspec.Meta(max_length=1000)]
    grid: GridSpec


class VisitRequest(Message, frozen=True):
    """Asynchronous bundle: points down, margins of some buckets' samples up."""

    points: memoryview  # float64
    buckets: memoryview  # uint32, places in the client's list, ascending
    point_of: memoryview  # uint32, a point a bucket
    grid: GridSpec


class VisitPlanesRequest(Message, frozen=True):
    """Asynchronous bundle: margins of some buckets down, new planes of them up."""

    buckets: memoryview  # uint32, places in the client's list, ascending
    numbers: list[Number]  # of the buckets' visits
    margins: list[Sums]
    # from the last margins (0) to these (1) and beyond
    places: Annotated[list[NonNegative], msgspec.Meta(max_length=64)]
    grid: GridSpec
    offsets_grid: GridSpec
    duals_grid: GridSpec
    is_lent: bool


class AdoptVisitRequest(Message, frozen=True):
    """Asynchronous bundle: duals of some buckets down; slopes of them up."""

    buckets: memoryview
    duals: list[Sums]
    n_planes: PlaneCount
    grid: GridSpec


class MovedRelease(Message, frozen=True):
    """Bundle: ask for the weights of the best point, in the clear."""

    move: Move

"""What travels between server and clients: frozen structs, one a kind of message.

Vectors travel as bytes in the form of the study's scheme; which numbers they are
(samples, features, totals) follows from the message and the receiver's own table, so
a receiver checks every size against what it expects.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hyfdca.state_values import value

# Exponents beyond these stand for no real data and would overflow a float.
NonNegative = Annotated[float, msgspec.Meta(ge=0.0, le=1e300)]  # and no NaN
Bound = Annotated[float, msgspec.Meta(ge=0.0, le=1e150)]  # of which squares are taken
Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Step = Annotated[float, msgspec.Meta(ge=0.0, le=2.0)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Scheme = Annotated[str, msgspec.Meta(max_length=32)]
PlaneCount = Annotated[int, msgspec.Meta(ge=1, le=64)]
FractionBits = Annotated[int, msgspec.Meta(ge=-900, le=900)]


class Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A message without content, and the base of all others."""


class Sealed(Message, frozen=True):
    """One sealed vector and its grid."""

    fraction_bits: FractionBits
    payload: memoryview


class TooLarge(Message, tag="too large", frozen=True):
    """The answer of a client whose values do not fit the grid it was given."""


class Part(Message, tag="part", frozen=True):
    """A client's part of a sum over holders."""

    vector: Sealed


Sums = list[Sealed]  # a sum over holders: one sealed vector a grid, nearly always one


@value
class GridSpec(Message, frozen=True):
    """The grid on which the answer is wanted."""

    fraction_bits: FractionBits
    limit_bits: Annotated[int, msgspec.Meta(ge=1, le=62)]


class Arrangements(Message, frozen=True):
    """How vectors are sealed: the scheme of each kind, the owner groups of the items.

    Group numbers mean nothing but that items with one number have the same holders;
    schemes that seal nothing need none.
    """

    samples: Scheme
    features: Scheme
    totals: Scheme
    sample_groups: memoryview | None  # uint32
    feature_groups: memoryview | None


class ResealRequest(Message, frozen=True):
    """Sums of many changes down, the same numbers up, sealed anew."""

    sums: Sums
    positions: memoryview | None


class Resealed(Message, frozen=True):
    """The same numbers, a vector a grid."""

    vectors: Sums


class Bounds(Message, frozen=True):
    """A client's public bounds, from which the grids are chosen."""

    row_norm: Bound  # largest ||x_{k,i}||²
    column_sum: Bound  # largest Σ_i v_i |x_{k,i,m}| of a feature
    slope_at_zero: Bound  # largest |l_i'(0)|
    loss_at_zero: Bound  # Σ v_i l_i(0) over the samples it is designated for


class GridRequest(Message, frozen=True):
    """Ask for a vector on a grid, nothing else needed."""

    grid: GridSpec


class Prepare(Message, frozen=True):
    """Set-up sums and counts for a client's own samples and features."""

    norms: Sums  # ||x_i||², (samples held,)
    sample_holders: memoryview  # uint32
    label_holders: memoryview  # uint32
    feature_holders: memoryview  # uint32


class MarginsRequest(Message, frozen=True):
    """SecureInnerProduct: weights down (none if the client has them), margins up."""

    weights: Sums | None
    positions: memoryview | None  # uint32; none for all samples held
    grid: GridSpec


class SharesRequest(Message, frozen=True):
    """PrimalAggregation: the duals that changed down, the client's share up."""

    duals: Sums
    positions: memoryview | None
    grid: GridSpec


class WeightsNotice(Message, frozen=True):
    """New weights; no answer."""

    weights: Sums


class FactorsNotice(Message, frozen=True):
    """The safe step's factor of the curvature of each sample held; no answer."""

    factors: memoryview  # float64


class StepRequest(Message, frozen=True):
    """LocalDualMethod: margins of the drawn samples down, dual changes up.

    Where every sample has one holder the weights come instead of margins.
    """

    drawn: memoryview | None
    margins: Sums | None
    weights: Sums | None
    divisors: memoryview | None  # uint32; none: all holders with a label
    is_alone: bool  # nobody else changes these duals
    factor: NonNegative  # of the curvature
    aggregation_step: Share  # γ_t
    cap: Share | None  # c_k of the theory variant
    grid: GridSpec


class DirectionRequest(Message, frozen=True):
    """Line search: margins of the drawn samples down; image and conjugates up."""

    drawn: memoryview | None
    margins: Sums
    trial_steps: Annotated[list[Share], msgspec.Meta(max_length=1000)]
    grid: GridSpec
    totals_grid: GridSpec
    duals_grid: GridSpec  # on which the direction is rounded, towards zero
    is_lent: bool  # whether holders without labels need the direction


class AdoptRequest(Message, frozen=True):
    """Line search: the direction down to a holder without labels; image up."""

    drawn: memoryview | None
    direction: Sums
    grid: GridSpec


class Image(Message, tag="image", frozen=True):
    """A client's part of a feature sum, with totals, with its direction if wanted."""

    vector: Sealed
    totals: Sealed
    direction: Sealed | None = None


class ProductsRequest(Message, frozen=True):
    """Line search, sealed: the image down, its products with the weights up."""

    image: Sums
    grid: GridSpec


class MoveRequest(Message, frozen=True):
    """Line search: the step chosen for each output down, the new share up."""

    steps: list[Share]
    duals_grid: GridSpec
    grid: GridSpec


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


class Parts(Message, tag="parts", frozen=True):
    """A client's parts of several sums, one a bucket."""

    vectors: list[Sealed]


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


class ProbeRequest(Message, frozen=True):
    """Power iteration: weights down (reals at the start), normalised margins up."""

    start: memoryview | None  # float64
    weights: Sums
    scale: NonNegative
    grid: GridSpec


class ProbeSharesRequest(Message, frozen=True):
    """Power iteration: normalised margins down, share and totals up."""

    margins: Sums
    grid: GridSpec
    totals_grid: GridSpec


class LossesRequest(Message, frozen=True):
    """Measuring: margins of the samples a client counts down, sealed totals up."""

    margins: Sums
    is_current: bool  # the training state is what is measured
    number: Number  # of the measurement
    grid: GridSpec


class OpenRequest(Message, frozen=True):
    """Grand totals, a vector a kind, down to one client, which reports them."""

    totals: list[Sums]
    shapes: list[tuple[Count, Count]]  # rows that were summed apart, numbers in each


class Opened(Message, frozen=True):
    """Numbers that the server may see."""

    values: memoryview  # float64


class ReleaseRequest(Message, frozen=True):
    """Ask for the weights of a measurement, in the clear."""

    number: Number


class Released(Message, frozen=True):
    """The weights of the features a client is designated for, in the clear."""

    weights: memoryview  # float64


class StatisticsRequest(Message, frozen=True):
    """Scaling: the sum of the exchange before down, a sum by feature up."""

    known: Sums | None
    grid: GridSpec


class ScalingNotice(Message, frozen=True):
    """Scaling: the sum of the last exchange; no answer."""

    known: Sums


class Statistics(Message, frozen=True):
    """Scaling of a client's features, in the clear, as part of the model."""

    offset: memoryview  # float64
    scale: memoryview
    filling: memoryview

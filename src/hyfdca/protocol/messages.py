"""What travels between server and clients: frozen structs, one a kind of message.

Vectors travel as bytes in the form of the study's scheme; which numbers they are
(samples, features, totals) follows from the message and the receiver's own table, so
a receiver checks every size against what it expects.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hyfdca.protocol.checkpoint_values import value

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


class Parts(Message, tag="parts", frozen=True):
    """A client's parts of several sums, one a bucket."""

    vectors: list[Sealed]


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

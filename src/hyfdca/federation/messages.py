"""What travels in every training: set-up, grand totals, evaluation, release."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hyfdca.protocol.messages import (
    Bound,
    Counter,
    Flag,
    HolderCounts,
    Intercepts,
    Margins,
    Message,
    OnGrid,
    Part,
    Rank,
    Scheme,
    Sealed,
    SealedTotals,
    Seed,
    Seen,
    Sums,
    TooLarge,
    TotalsOnGrid,
    TotalsPart,
    Weights,
)
from hyfdca.protocol.phases import START, Phase, Phases

MOST_TOTALS = 100_000_000  # numbers that are opened at once

_Size = Annotated[int, msgspec.Meta(ge=1, le=MOST_TOTALS)]
_Scheme = Annotated[Scheme, Seen("schemes")]
_Groups = Annotated[memoryview | None, Seen("group numbers")]  # uint32
_Owners = Annotated[
    Annotated[tuple[tuple[Rank, ...], ...], msgspec.Meta(max_length=2**24)],
    Seen("holders"),
]
_Bound = Annotated[Bound, Seen("bounds")]
Nonce = Annotated[bytes, msgspec.Meta(max_length=24)]  # of a sealed vector


class Arrangements(Message, frozen=True):
    """How vectors are sealed: their schemes, and the owner groups of the items.

    Schemes that seal nothing need no groups. ``..._owners`` are the ranks of the
    holders of each group, by the group's number, ascending. Totals have owners if
    several clients open them; otherwise the request names the one that does.
    """

    samples: _Scheme
    features: _Scheme
    sample_groups: _Groups = None
    feature_groups: _Groups = None
    sample_owners: _Owners = ()
    feature_owners: _Owners = ()
    totals_owners: Annotated[tuple[Rank, ...] | None, Seen("holders")] = None


class Bounds(Message, frozen=True):
    """A client's public bounds, from which the grids are chosen."""

    row_norm: _Bound  # largest ||x_{k,i}||²
    column_sum: _Bound  # largest Σ_i v_i |x_{k,i,m}| of a feature
    slope_at_zero: _Bound  # largest |l_i'(0)|
    loss_at_zero: _Bound  # Σ v_i l_i(0) over the samples it is designated for


class GridRequest(Message, frozen=True):
    """Ask for a vector on a grid."""

    grid: OnGrid


class Prepare(Message, frozen=True):
    """Set-up sums and counts for a client's own samples and features."""

    norms: Annotated[Sums, Seen("row norms")]  # ||x_i||², (samples held,)
    sample_holders: HolderCounts
    label_holders: HolderCounts
    feature_holders: HolderCounts


class OpenRequest(Message, frozen=True):
    """Grand totals, one vector per kind, down to one client, which reports them.

    The witness gets the tags instead, with the seed, and the nonce and rows of the
    opener's own part of each total.
    """

    totals: Annotated[list[Sums], Seen("grand totals")]
    # rows that were summed separately, numbers in each
    shapes: Annotated[list[tuple[_Size, _Size]], Seen("numbers")]
    opener: Annotated[Rank, Seen("numbers")] = 0
    witness: Annotated[Rank | None, Seen("numbers")] = None
    seed: Annotated[Seed, Seen("numbers")] = b""
    tags: Annotated[tuple[Sums, ...], Seen("tags")] = ()
    nonces: Annotated[tuple[Nonce, ...], Seen("numbers")] = ()
    rows: Annotated[tuple[memoryview | None, ...], Seen("bucket numbers")] = ()


class Opened(Message, tag="opened", frozen=True):
    """Numbers that the server may see, on the grids of their sums."""

    values: Annotated[memoryview, Seen("by phase")]  # int64


class Vouched(Message, tag="vouched", frozen=True):
    """Combinations of the pads of all totals, by total, modulo 2^64."""

    tags: Annotated[memoryview, Seen("sums of tags")]  # int64


class Released(Message, frozen=True):
    """The weights of all features that a client holds, in the clear."""

    weights: Annotated[memoryview, Seen("released weights")]  # float64


# Before the first round


SET_UP: Phases = {
    "arrange": Phase(Arrangements, after=(START, "start")),
    "bounds": Phase(Message, (Bounds,), after=("arrange",)),
    "norms": Phase(
        GridRequest, (Part, TooLarge), after=("bounds", "norms"), seen="row norms"
    ),
    "prepare": Phase(Prepare, after=("norms",)),
}


def opening(seen: str, *after: str, **rest: Any) -> Phase:
    """Return the phase in which one client opens grand totals, and one vouches."""
    return Phase(OpenRequest, (Opened, Vouched), after, seen, **rest)


def totalling(request: type[Message], seen: str, *after: str, **rest: Any) -> Phase:
    """Return a phase in which clients send parts of one sum of totals."""
    return Phase(request, (TotalsPart, TooLarge), after, seen, **rest)


def summing(request: type[Message], seen: str, *after: str, **rest: Any) -> Phase:
    """Return a phase in which clients send parts of one sum over holders."""
    return Phase(request, (Part, TooLarge), after, seen, **rest)


# Evaluation of weights (``evaluation.py``)


class EvaluateRequest(Message, frozen=True):
    """The weights to evaluate down, parts of margins up.

    Weights are None where the client has them already.
    """

    weights: Annotated[Sums | None, Seen("weights")]
    grid: OnGrid


class TouchRequest(Message, frozen=True):
    """Margins down; the duals that touch the loss there, as a share of weights, up."""

    margins: Margins
    grid: OnGrid
    totals_grid: TotalsOnGrid
    duals_grid: OnGrid
    forwards: Flag  # whether holders without labels need the duals


class Touched(Message, tag="touched", frozen=True):
    """A client's share, its totals of losses and conjugates, its duals if wanted."""

    vector: Annotated[Sealed, Seen("shares")]
    totals: Annotated[SealedTotals, Seen("losses")]
    duals: Annotated[Sealed | None, Seen("duals")] = None


class ForwardedRequest(Message, frozen=True):
    """Duals down to a holder without labels; its share up."""

    duals: Annotated[Sums, Seen("duals")]
    grid: OnGrid


class NormsRequest(Message, frozen=True):
    """The weights of the touching duals down; totals of squared lengths up."""

    weights: Weights
    number: Counter  # of the measurement
    grid: TotalsOnGrid


class ReleaseRequest(Message, frozen=True):
    """Ask for the weights of a measurement, in the clear."""

    number: Counter


def evaluation_phases(*rounds: str, within: tuple[str, ...] = ()) -> Phases:
    """Return the phases of an evaluation.

    Parameters
    ----------
    rounds : str
        The phases with which a client's round may end.
    within : tuple of str
        The phases within a round in which a run may diverge.
    """
    rest = ("prepare", "evaluate norms", "open", "release")
    within = ("evaluate", "touch", "touch forwarded", *within)
    return {
        "evaluate": summing(
            EvaluateRequest, "margins", *rounds, *rest, "evaluate", is_single=True
        ),
        "touch": Phase(
            TouchRequest, (Touched, TooLarge), ("evaluate", "touch"), is_single=True
        ),
        "touch forwarded": summing(
            ForwardedRequest, "shares", "evaluate", "touch forwarded", is_single=True
        ),
        "evaluate norms": totalling(
            NormsRequest,
            "losses",
            *("touch", "touch forwarded", "evaluate norms"),
            is_single=True,
        ),
        "open": opening("P and D", "evaluate norms"),
        # A run that diverges ends within a round, with the model last measured.
        "release": Phase(ReleaseRequest, (Released,), (*rounds, *rest, *within)),
    }


# The end (``confirmation.py``)


class ConfirmRequest(Message, frozen=True):
    """The weights in the model, of the client's own features, down; margins up."""

    weights: Annotated[memoryview, Seen("released weights")]  # float64
    intercepts: Intercepts
    grid: OnGrid


class ConfirmLossesRequest(Message, frozen=True):
    """Margins of the samples that a client counts down; its total of losses up."""

    margins: Margins
    grid: TotalsOnGrid


# They follow a release, and any phase that may follow a release may follow them.
_END = {"counts_as": "release", "is_single": True}

CONFIRMING: Phases = {
    "confirm": summing(ConfirmRequest, "margins", "release", "confirm", **_END),
    "confirm losses": totalling(
        ConfirmLossesRequest, "losses", "confirm", "confirm losses", **_END
    ),
    "open confirmed": opening(
        "P and D", "confirm", "confirm losses", counts_as="release"
    ),
}

"""What travels in a round of DiSCO."""

from __future__ import annotations

from typing import Annotated

from hyfdca.protocol.messages import (
    Counter,
    Margins,
    Message,
    OnGrid,
    Sealed,
    Seen,
    Sums,
    TotalsOnGrid,
    Weights,
)

_Numbers = Annotated[list[float], Seen("steps")]  # one per output


class GradientRequest(Message, frozen=True):
    """Margins down, parts of the gradient and of the diagonal of H up."""

    margins: Margins
    grid: OnGrid


class GradientParts(Message, tag="gradient", frozen=True):
    """Σ v_i l' x_i and Σ v_i l'' x_i², over a client's cells."""

    gradient: Annotated[Sealed, Seen("shares")]
    diagonal: Annotated[Sealed, Seen("shares")]


class DirectionRequest(Message, frozen=True):
    """What a new direction is made of down, its parts of margins up."""

    gradient: Annotated[Sums | None, Seen("weights")]  # None but at the first one
    diagonal: Annotated[Sums | None, Seen("weights")]
    lengths: _Numbers  # how far along the last direction
    turns: _Numbers  # what share of it the next one keeps
    number: Counter
    grid: OnGrid


class HessianRequest(Message, frozen=True):
    """Margins of the direction down, parts of H times the direction up."""

    margins: Margins
    grid: OnGrid


class InnerProductsRequest(Message, frozen=True):
    """H times the direction down, parts of inner products up."""

    weights: Weights
    grid: TotalsOnGrid


class NewtonNotice(Message, frozen=True):
    """The last step of conjugate gradients, and the share of the solution to go."""

    lengths: _Numbers
    shares: _Numbers
    number: Counter

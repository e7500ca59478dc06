"""Messages that all stages and algorithms share; others are next to their senders.

Vectors travel as bytes in the form of the study's scheme. Which numbers they are
(samples, features, totals) follows from the message and the receiver's own table, so
a receiver checks every size against what it expects.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

import msgspec

Profile = Literal["open", "sealed"]  # whether the server sees weights while training


@dataclass(frozen=True)
class Seen:
    """Annotates a field of a message with the value that it carries.

    The trust model (``audit/values.py``) says who may see which value. The audit reads
    the annotations, and fails on a field without one.
    """

    value: str


@dataclass(frozen=True)
class OnlyIn:
    """Annotates a field that is None in the other profile.

    A client of that profile refuses a request in which it is not None.
    """

    profile: Profile


# The value depends on the phase: see ``Phase.seen``.
BY_PHASE = Seen("by phase")

# No real data have exponents beyond these, which would overflow a float.
NonNegative = Annotated[float, msgspec.Meta(ge=0.0, le=1e300)]  # and no NaN
Finite = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
Bound = Annotated[float, msgspec.Meta(ge=0.0, le=1e150)]  # that are squared
Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Step = Annotated[float, msgspec.Meta(ge=0.0, le=2.0)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Rank = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]  # a client's number
Scheme = Annotated[str, msgspec.Meta(max_length=32)]
Seed = Annotated[bytes, msgspec.Meta(max_length=16)]
FractionBits = Annotated[int, msgspec.Meta(ge=-900, le=900), Seen("grids")]


class Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A message without content, and the base of all others."""


@cache
def seen_fields(kind: type[Message]) -> dict[str, str]:
    """Return the value of each field of a message.

    Raises
    ------
    TypeError
        If a field has no ``Seen`` annotation.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    values = {}
    for name in kind.__struct_fields__:
        seen = [meta for meta in typing.get_args(hints[name]) if isinstance(meta, Seen)]
        if not seen:
            raise TypeError(f"{kind.__name__}.{name} needs a Seen annotation.")
        values[name] = seen[0].value
    return values


class Sealed(Message, frozen=True):
    """One sealed vector and its grid."""

    fraction_bits: FractionBits
    payload: Annotated[memoryview, BY_PHASE]


class SealedTotals(Sealed, frozen=True):
    """A client's totals, sealed to their opener, with tags sealed to the witness."""

    tags: Annotated[memoryview | None, Seen("tags")] = None


class TooLarge(Message, tag="too large", frozen=True):
    """The answer of a client whose values do not fit the grid it was given."""


class Part(Message, tag="part", frozen=True):
    """A client's part of a sum over holders."""

    vector: Annotated[Sealed, BY_PHASE]


class TotalsPart(Message, tag="totals", frozen=True):
    """A client's part of a sum of totals."""

    vector: Annotated[SealedTotals, BY_PHASE]


class Parts(Message, tag="parts", frozen=True):
    """A client's parts of several sums, such as one per bucket."""

    vectors: Annotated[list[Sealed], BY_PHASE]


Sums = list[Sealed]  # a sum over holders: one sealed vector per grid, usually one


class GridSpec(Message, frozen=True):
    """The grid for the answer."""

    fraction_bits: FractionBits
    limit_bits: Annotated[int, msgspec.Meta(ge=1, le=62), Seen("grids")]


class TotalsSpec(GridSpec, frozen=True):
    """The grid for totals, and the rank of the client that opens them.

    The witness vouches for what the opener will report. The seed says how; it is sent
    to everybody but the opener (``federation/sealing/vouching.py``).
    """

    opener: Annotated[Rank, Seen("numbers")]
    witness: Annotated[Rank | None, Seen("numbers")] = None
    seed: Annotated[Seed, Seen("numbers")] = b""


# Fields that many messages have.
OnGrid = Annotated[GridSpec, Seen("grids")]
TotalsOnGrid = Annotated[TotalsSpec, Seen("grids")]
Positions = Annotated[memoryview | None, Seen("positions")]  # uint32; None for all
HolderCounts = Annotated[memoryview, Seen("holder counts")]  # uint32
Flag = Annotated[bool, Seen("numbers")]
Counter = Annotated[Number, Seen("numbers")]
Margins = Annotated[Sums, Seen("margins")]
Weights = Annotated[Sums, Seen("weights")]
Duals = Annotated[Sums, Seen("duals")]
# Of a point, by output; None where the intercept is not free
Intercepts = Annotated[
    tuple[Finite, ...], msgspec.Meta(max_length=4096), Seen("intercepts")
]

"""Messages of a prediction of rows whose features are split over organisations."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from hyfdca.protocol.messages import Bound, Count, GridSpec, Message, Number, Sums
from hyfdca.protocol.messages import Sealed as SealedVector
from hyfdca.study.messages import Hash

NONCE_BYTES = 32
LONGEST_REASON = 1000  # characters

Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
Reason = Literal["permission", "rate", "model", "repeated"]


class Introduction(Message, frozen=True):
    """Whether a client asks for predictions: of how many rows."""

    n_rows: Number


class Asked(Message, frozen=True):
    """What an asker asks for, signed by it; holders believe nothing else."""

    model: Hash
    nonce: Nonce  # of which the keys of this prediction's pseudonyms are derived
    n_outputs: Count
    pseudonyms: memoryview  # uint64, two a row that it holds
    signature: Signature


class ConsiderRequest(Asked, frozen=True):
    """The same to a holder, with the rank of the asker."""

    asker: Number


class Consent(Message, tag="consent", frozen=True):
    """The answer of a holder that gives its part, and has logged so."""


class Declined(Message, tag="declined", frozen=True):
    """The answer of a holder that gives nothing."""

    reason: Reason
    count: Number  # of rows that could be asked for now


class PartBound(Message, frozen=True):
    """A power of two above all parts of a client's."""

    bound: Bound


class PartsRequest(Message, frozen=True):
    """Ask for parts of margins, and for how many cells are in them."""

    grid: GridSpec
    cells_grid: GridSpec


class ScoreParts(Message, frozen=True):
    """A client's parts, by row that the asker holds too."""

    margins: SealedVector
    cells: SealedVector


class ScoresNotice(Message, frozen=True):
    """The sums over holders, to the asker alone; no answer."""

    margins: Sums
    cells: Sums


class RefusedNotice(Message, frozen=True):
    """Why an asker gets nothing; no answer."""

    reason: Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)]

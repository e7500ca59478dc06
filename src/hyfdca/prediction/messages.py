"""Messages of a prediction of rows whose features are split over organisations."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import msgspec

from hyfdca.federation.messages import Arrangements
from hyfdca.protocol.messages import (
    Bound,
    Count,
    Message,
    Number,
    OnGrid,
    Seen,
    Sums,
)
from hyfdca.protocol.messages import Sealed as SealedVector
from hyfdca.protocol.phases import START, Phase, Phases
from hyfdca.stages.alignment.messages import PHASES as ALIGNMENT
from hyfdca.study.messages import Hash

NONCE_BYTES = 32
LONGEST_REASON = 1000  # characters

Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
Reason = Literal["permission", "rate", "model", "repeated"]


class Introduction(Message, frozen=True):
    """Whether a client asks for predictions: of how many rows."""

    n_rows: Annotated[Number, Seen("prediction request")]


class Asked(Message, frozen=True):
    """What an asker asks for, signed by it; holders believe nothing else."""

    model: Annotated[Hash, Seen("model digest")]
    nonce: Annotated[
        Nonce, Seen("prediction request")
    ]  # of which the keys of this prediction's pseudonyms are derived
    n_outputs: Annotated[Count, Seen("numbers")]
    pseudonyms: Annotated[
        memoryview, Seen("asked pseudonyms")
    ]  # uint64, two per row that it holds
    signature: Annotated[Signature, Seen("prediction request")]


class ConsiderRequest(Asked, frozen=True):
    """The same to a holder, with the rank of the asker."""

    asker: Annotated[Number, Seen("prediction request")]


class Consent(Message, tag="consent", frozen=True):
    """The answer of a holder that gives its part, and has logged so."""


class Declined(Message, tag="declined", frozen=True):
    """The answer of a holder that gives nothing."""

    reason: Annotated[Reason, Seen("prediction refusal")]
    count: Annotated[
        Number, Seen("prediction refusal")
    ]  # of rows that could be asked for now


class PartBound(Message, frozen=True):
    """A power of two above all parts of a client's."""

    bound: Annotated[Bound, Seen("bounds")]


class PartsRequest(Message, frozen=True):
    """Ask for parts of margins, and for how many cells are in them."""

    grid: OnGrid
    cells_grid: OnGrid


class ScoreParts(Message, frozen=True):
    """A client's parts, by row that the asker holds too."""

    margins: Annotated[SealedVector, Seen("score parts")]
    cells: Annotated[SealedVector, Seen("cell counts")]


class ScoresNotice(Message, frozen=True):
    """The sums over holders, to the asker alone; no answer."""

    margins: Annotated[Sums, Seen("scores")]
    cells: Annotated[Sums, Seen("cell counts")]


class RefusedNotice(Message, frozen=True):
    """Why an asker gets nothing; no answer."""

    reason: Annotated[
        str, msgspec.Meta(max_length=LONGEST_REASON), Seen("prediction refusal")
    ]


_ANSWERED = ("introduce", "scores", "parts", "refused", "consider", "request")

PHASES: Phases = {
    "introduce": Phase(Message, (Introduction,), (START,)),
    "request": Phase(Message, (Asked,), _ANSWERED),
    "consider": Phase(ConsiderRequest, (Consent, Declined), _ANSWERED),
    # Alignment of the rows asked for, then the sums
    **ALIGNMENT,
    "rows": replace(ALIGNMENT["rows"], after=("request", "consider")),
    "arrange": Phase(Arrangements, after=("placement", "cells")),
    "part bound": Phase(Message, (PartBound,), ("arrange",)),
    "parts": Phase(PartsRequest, (ScoreParts,), ("part bound",)),
    "scores": Phase(ScoresNotice, after=("parts",)),
    "refused": Phase(RefusedNotice),
}

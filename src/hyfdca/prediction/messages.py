"""Messages of predictions for rows split over organisations."""

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
from hyfdca.stages.alignment.messages import PLACED
from hyfdca.study.messages import Hash

NONCE_BYTES = 32
LONGEST_REASON = 1000  # characters

Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
PublicPoint = Annotated[bytes, msgspec.Meta(max_length=32)]
Reason = Literal["permission", "rate", "model", "repeated", "policy", "rows"]


class Introduction(Message, frozen=True):
    """How many rows a client asks predictions for; 0 if it does not ask."""

    n_rows: Annotated[Number, Seen("prediction request")]


class Asked(Message, tag="asked", frozen=True):
    """An asker's signed request; holders trust nothing else."""

    model: Annotated[Hash, Seen("model digest")]
    nonce: Annotated[
        Nonce, Seen("prediction request")
    ]  # the keys of this prediction's pseudonyms are derived from it
    n_outputs: Annotated[Count, Seen("numbers")]
    pseudonyms: Annotated[
        memoryview, Seen("asked pseudonyms")
    ]  # uint64, two per row that it holds
    public: Annotated[
        PublicPoint, Seen("prediction request")
    ]  # half of the key of the pseudonyms; empty if all clients have that key
    signature: Annotated[Signature, Seen("prediction request")]


class ConsiderRequest(Asked, tag=False, frozen=True):
    """The same request to a holder, with the asker's rank."""

    asker: Annotated[Number, Seen("prediction request")]


class Consent(Message, tag="consent", frozen=True):
    """The reply of a holder that contributes, and has logged the prediction."""


class Declined(Message, tag="declined", frozen=True):
    """The reply of a holder that contributes nothing, or an asker that may not ask."""

    reason: Annotated[Reason, Seen("prediction refusal")]
    count: Annotated[
        Number, Seen("prediction refusal")
    ]  # rows that the asker may ask for now


class BlindedIds(Message, frozen=True):
    """Some of a holder's IDs as points, blinded and filled up with random points."""

    points: Annotated[memoryview, Seen("blinded IDs")]  # 32 bytes each
    is_last: Annotated[bool, Seen("numbers")]
    signature: Annotated[Signature, Seen("blinded IDs")]


class EvaluateRequest(BlindedIds, frozen=True):
    """The same to the asker, with the holder's rank."""

    holder: Annotated[Number, Seen("numbers")]


class EvaluatedIds(Message, frozen=True):
    """A holder's points times the asker's key, from the asker and to that holder."""

    points: Annotated[memoryview, Seen("evaluated IDs")]  # 32 bytes each
    signature: Annotated[Signature, Seen("evaluated IDs")]


class PartBound(Message, frozen=True):
    """A power of two above all of a client's parts."""

    bound: Annotated[Bound, Seen("bounds")]


class PartsRequest(Message, frozen=True):
    """Ask for parts of margins, and for the number of cells in them."""

    grid: OnGrid
    cells_grid: OnGrid


class ScoreParts(Message, frozen=True):
    """A client's parts, for the rows that the asker also holds."""

    margins: Annotated[SealedVector, Seen("score parts")]
    cells: Annotated[SealedVector, Seen("cell counts")]


class ScoresNotice(Message, frozen=True):
    """The sums over holders, for the asker alone; no reply."""

    margins: Annotated[Sums, Seen("scores")]
    cells: Annotated[Sums, Seen("cell counts")]


class RefusedNotice(Message, frozen=True):
    """Why an asker gets nothing; no reply."""

    reason: Annotated[
        str, msgspec.Meta(max_length=LONGEST_REASON), Seen("prediction refusal")
    ]


# A prediction may be refused at any of its phases; the next one then begins.
_ANSWERED = (
    *("introduce", "request", "consider", "refused"),
    *("rows", *PLACED, "cells", "hints"),
    *("arrange", "part bound", "parts", "scores"),
)

# The requested rows are known now; without blinding, already after ``consider``.
_FOUND = ("request", "evaluate", "consider", "recognise")

PHASES: Phases = {
    "introduce": Phase(Message, (Introduction,), (START,)),
    "request": Phase(Message, (Asked, Declined), _ANSWERED),
    "consider": Phase(ConsiderRequest, (Consent, Declined), _ANSWERED),
    # How holders find the requested rows, if their IDs are blinded
    "blind": Phase(Message, (BlindedIds,), ("consider", "recognise")),
    "evaluate": Phase(EvaluateRequest, (EvaluatedIds,), ("request", "evaluate")),
    "recognise": Phase(EvaluatedIds, (Message,), ("blind",)),
    # Alignment of the requested rows, then the sums
    **ALIGNMENT,
    "rows": replace(ALIGNMENT["rows"], after=_FOUND),
    "arrange": Phase(Arrangements, after=(*PLACED, "cells")),
    "part bound": Phase(Message, (PartBound,), ("arrange",)),
    "parts": Phase(PartsRequest, (ScoreParts,), ("part bound",)),
    "scores": Phase(ScoresNotice, after=("parts",)),
    "refused": Phase(RefusedNotice),
}

"""What an organisation saves about a study, and what it last heard about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hyfdca.protocol import checkpoint
from hyfdca.protocol.codec import RefusedError
from hyfdca.protocol.transcript import TranscriptState

T = TypeVar("T")

KEYS, PREPARATION = "keys", "preparation"  # in the store

Said = tuple[str, str, bytes]  # stage, phase and request


@dataclass(frozen=True, repr=False)
class ClientPreparation:
    """The requests before the first round, and the table's digest."""

    table: bytes
    said: list[Said]


@dataclass(frozen=True, repr=False)
class ClientRound:
    """The state after a round: the last phase answered, the half's own state."""

    last_phase: str
    half: bytes
    transcript: TranscriptState


class News(NamedTuple):
    """What the server last reported about the study as a whole."""

    round: int = 0
    gap: float | None = None
    present: Sequence[int] = ()


def read_record(kind: type[T], content: bytes) -> T:
    """Return a saved record; refuse it if it cannot be read."""
    try:
        return checkpoint.decode(kind, content)
    except checkpoint.CheckpointError as error:
        raise RefusedError(str(error).rstrip(".")) from None

"""Messages about a study as a whole: who is there, what is kept, when it is over."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hyfdca.protocol.messages import Message, Number

_MOST_ROUNDS = 2**40
Round = Annotated[int, msgspec.Meta(ge=0, le=_MOST_ROUNDS)]
Rank = Annotated[int, msgspec.Meta(ge=0, le=2**16)]
Version = Annotated[int, msgspec.Meta(ge=1, le=2**16)]
Hash = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class Hello(Message, frozen=True):
    """Ask who is there; everybody must have the very same study file and protocol."""

    study_hash: Hash
    protocol: Version


class Present(Message, frozen=True):
    """What a client brings from earlier: the study's keys, and rounds it has kept."""

    study_hash: Hash
    protocol: Version
    has_keys: bool
    kept: Annotated[list[Round], msgspec.Meta(max_length=16)]


class BeginRequest(Message, frozen=True):
    """Start anew; whatever is still under way, up to a number, is of no interest."""

    after: Number


class StartNotice(Message, frozen=True):
    """Training begins, with this algorithm; no answer."""

    algorithm: Annotated[str, msgspec.Meta(max_length=32)]


class KeepRequest(Message, frozen=True):
    """Ask to keep the state after a round, so that it can be gone back to.

    With what people like to see: how close the model is, and who is there.
    """

    round: Round
    relative_gap: float | None
    present: Annotated[list[Rank], msgspec.Meta(max_length=2**16)]


class ReturnRequest(Message, frozen=True):
    """Go back to the state after a round that was kept; forget all later ones.

    What is still under way, up to a number, was said in a round that is repeated.
    """

    round: Round
    after: Number


class FinishNotice(Message, frozen=True):
    """The study is over: the model, as a file; no answer."""

    model: Annotated[bytes, msgspec.Meta(max_length=2**30)]

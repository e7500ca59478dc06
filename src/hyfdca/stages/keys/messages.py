"""Messages with which clients agree on keys: envelopes and tags, never a key."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hyfdca.crypto.keys.envelope import OVERHEAD
from hyfdca.crypto.keys.study_keys import MAX_BYTES, TAG_BYTES
from hyfdca.protocol.messages import Message, Rank, Scheme, Seen
from hyfdca.protocol.phases import START, Phase, Phases

Envelope = Annotated[bytes, msgspec.Meta(max_length=MAX_BYTES + OVERHEAD)]
Public = Annotated[bytes, msgspec.Meta(max_length=4096)]
Tag = Annotated[bytes, msgspec.Meta(min_length=TAG_BYTES, max_length=TAG_BYTES)]


class Confirmation(Message, frozen=True):
    """A client's proof of the keys that it has."""

    tag: Annotated[Tag, Seen("key tags")]


class MadeKeys(Message, frozen=True):
    """The maker's answer: an envelope for each other client of its own roster.

    ``public`` is what the server must know of the schemes to add, by name.
    """

    envelopes: Annotated[dict[Rank, Envelope], Seen("keys")]
    tag: Annotated[Tag, Seen("key tags")]
    public: Annotated[dict[Scheme, Public], Seen("scheme parameters")]


class Parameters(Message, frozen=True):
    """What the server must know of the schemes to add, by name."""

    public: Annotated[dict[Scheme, Public], Seen("scheme parameters")]


class TakeKeys(Message, frozen=True):
    """An envelope to a client, and its alleged sealer."""

    sender: Annotated[Rank, Seen("numbers")]
    envelope: Annotated[Envelope, Seen("keys")]


class SealKeys(Message, frozen=True):
    """Ask a client that has the keys to seal them for one that comes later."""

    recipient: Annotated[Rank, Seen("numbers")]


class SealedKeys(Message, frozen=True):
    """The keys, sealed for a latecomer."""

    envelope: Annotated[Envelope, Seen("keys")]
    tag: Annotated[Tag, Seen("key tags")]


class CompareKeys(Message, frozen=True):
    """Proofs of clients, by rank, for a client to compare with its own keys."""

    tags: Annotated[dict[Rank, Tag], Seen("key tags")]


# Keys may be compared again, and a client may be admitted later.
_AGAIN = (START, "compare keys")

PHASES: Phases = {
    "make keys": Phase(Message, (MadeKeys,), _AGAIN),
    "seal keys": Phase(SealKeys, (SealedKeys,), _AGAIN),
    "take keys": Phase(TakeKeys, (Confirmation,), _AGAIN),
    "key tag": Phase(Message, (Confirmation,), (*_AGAIN, "make keys", "take keys")),
    "compare keys": Phase(
        CompareKeys, (Message,), ("make keys", "seal keys", "take keys", "key tag")
    ),
    "parameters": Phase(Message, (Parameters,), ("compare keys",)),
}

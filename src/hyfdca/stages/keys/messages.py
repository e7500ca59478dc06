"""What travels while clients agree on keys: envelopes and tags, never a key."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hyfdca.crypto.keys.envelope import OVERHEAD
from hyfdca.crypto.keys.study_keys import MAX_BYTES, TAG_BYTES
from hyfdca.protocol.messages import Message, Scheme

Rank = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Envelope = Annotated[bytes, msgspec.Meta(max_length=MAX_BYTES + OVERHEAD)]
Public = Annotated[bytes, msgspec.Meta(max_length=4096)]
Tag = Annotated[bytes, msgspec.Meta(min_length=TAG_BYTES, max_length=TAG_BYTES)]


class Confirmation(Message, frozen=True):
    """A client's proof of the keys that it has."""

    tag: Tag


class MadeKeys(Message, frozen=True):
    """The maker's answer: an envelope for each other client of its own roster.

    ``public`` is what the server must know of the schemes to add, by name.
    """

    envelopes: dict[Rank, Envelope]
    tag: Tag
    public: dict[Scheme, Public]


class Parameters(Message, frozen=True):
    """What the server must know of the schemes to add, by name."""

    public: dict[Scheme, Public]


class TakeKeys(Message, frozen=True):
    """An envelope to a client, and who is said to have sealed it."""

    sender: Rank
    envelope: Envelope


class SealKeys(Message, frozen=True):
    """Ask a client that has the keys to seal them for one that comes later."""

    recipient: Rank


class SealedKeys(Message, frozen=True):
    """The keys, sealed for a latecomer."""

    envelope: Envelope
    tag: Tag


class CompareKeys(Message, frozen=True):
    """Proofs of clients, by rank, for a client to compare with its own keys."""

    tags: dict[Rank, Tag]

"""A secret from one organisation to another, through a relay that must not read it.

Sealed by HPKE (RFC 9180: X25519, HKDF-SHA256, AES-256-GCM) to the recipient, which
says nothing about the sender; so the sender signs what it sealed. Both are bound to the
context: which study, which roster, who to whom, which epoch. The context travels in the
clear, to say what is wrong with an envelope that belongs elsewhere; it is never
believed, only compared with the recipient's own.

An envelope: its version, then context, sealed secret and signature, each behind its
length.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from hyfdca.crypto.keys.encoding import in_groups, pack_fields, unpack_fields
from hyfdca.crypto.keys.identity import Identity, PublicIdentity

_VERSION = b"hyfdca envelope 1\n"
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_EPOCH = struct.Struct("<Q")

HASH_BYTES = 32
MAX_NAME_BYTES = 1000
OVERHEAD = 4096  # an envelope has at most this many bytes more than the secret in it


class EnvelopeError(ValueError):
    """An envelope that must not be used; the message is one plain sentence."""


@dataclass(frozen=True)
class Context:
    """Where an envelope belongs: contexts that differ in any of these are different."""

    study_hash: bytes
    roster_hash: bytes
    sender: str
    recipient: str
    epoch: int

    def __post_init__(self) -> None:
        if {len(self.study_hash), len(self.roster_hash)} != {HASH_BYTES}:
            raise ValueError(f"A hash has {HASH_BYTES} bytes.")
        names = (self.sender.encode(), self.recipient.encode())
        if max(map(len, names)) > MAX_NAME_BYTES:
            raise ValueError(f"A name has at most {MAX_NAME_BYTES} bytes.")
        if not 1 <= self.epoch < 2**63:
            raise ValueError("Epochs are numbered from 1.")

    def to_bytes(self) -> bytes:
        """Return bytes that are unique to this context."""
        return pack_fields(
            self.study_hash,
            self.roster_hash,
            self.sender.encode(),
            self.recipient.encode(),
            _EPOCH.pack(self.epoch),
        )

    @classmethod
    def from_bytes(cls, payload: bytes) -> Context:
        """Return the context of these bytes, or raise ``ValueError``."""
        study, roster, sender, recipient, epoch = unpack_fields(payload, 5)
        if len(epoch) != _EPOCH.size:
            raise ValueError(f"An epoch has {_EPOCH.size} bytes.")
        number: int = _EPOCH.unpack(epoch)[0]
        return cls(study, roster, sender.decode(), recipient.decode(), number)

    def differences(self, expected: Context) -> list[str]:
        """Return what is not as expected, in words."""
        pairs = [
            (field.name, getattr(self, field.name), getattr(expected, field.name))
            for field in fields(self)
        ]
        return [
            f"{_WORDS[name]} {_shown(own)} instead of {_shown(other)}"
            for name, own, other in pairs
            if own != other
        ]


_WORDS = {
    "study_hash": "study",
    "roster_hash": "roster",
    "sender": "sender",
    "recipient": "recipient",
    "epoch": "epoch",
}


def seal_for(
    secret: bytes, context: Context, sender: Identity, recipient: PublicIdentity
) -> bytes:
    """Return an envelope that only the recipient opens and only the sender can make."""
    bound = _VERSION + context.to_bytes()
    sealed = _SUITE.encrypt(secret, recipient.sealing_key, info=bound)
    signature = sender.sign(_signed(context, sealed))
    return _VERSION + pack_fields(context.to_bytes(), sealed, signature)


def open_from(
    envelope: bytes, context: Context, recipient: Identity, sender: PublicIdentity
) -> bytes:
    """Return the secret inside.

    Raises
    ------
    EnvelopeError
        If it is not whole, not of this context, not signed by the sender or not
        sealed to the recipient.
    """
    claimed, sealed, signature = _parts(envelope, _shown(context.sender))
    differences = claimed.differences(context)
    if differences:
        raise EnvelopeError(
            f"The envelope of {_shown(context.sender)} belongs elsewhere: it is for "
            f"{', '.join(differences)}."
        )
    if not sender.has_signed(signature, _signed(context, sealed)):
        raise EnvelopeError(
            f"The envelope was not signed by {_shown(context.sender)}, or was changed "
            f"on its way: the signature is not of the key {sender.fingerprint}."
        )
    try:
        info = _VERSION + context.to_bytes()
        return _SUITE.decrypt(sealed, recipient.sealing_key, info=info)
    except InvalidTag:
        raise EnvelopeError(
            f"The envelope of {_shown(context.sender)} does not open with this "
            f"organisation's key {recipient.public.fingerprint}; it was sealed to "
            "another."
        ) from None


def _signed(context: Context, sealed: bytes) -> bytes:
    return _VERSION + pack_fields(context.to_bytes(), sealed)


def _parts(envelope: bytes, sender: str) -> tuple[Context, bytes, bytes]:
    if not envelope.startswith(_VERSION):
        raise EnvelopeError(
            f"The envelope of {sender} is not one of this version of hyfdca."
        )
    try:
        context, sealed, signature = unpack_fields(envelope[len(_VERSION) :], 3)
        return Context.from_bytes(context), sealed, signature
    except ValueError:
        raise EnvelopeError(
            f"The envelope of {sender} is cut short or garbled."
        ) from None


def _shown(value: Any) -> str:
    """Return a part of a context as text for a message."""
    if isinstance(value, bytes):
        return in_groups(value[:8])
    return repr(value if isinstance(value, int) else value[:60])

"""The secrets that the clients of a study share, and that its server never has."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hyfdca.crypto.keys.encoding import in_groups

MASTER_BYTES = 32
TAG_BYTES = 32
MAX_BYTES = 2**22  # of all keys together; a BFV key takes tens of kilobytes


class _Wire(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Study keys in serialised form."""

    master: Annotated[
        bytes, msgspec.Meta(min_length=MASTER_BYTES, max_length=MASTER_BYTES)
    ]
    scheme_keys: Annotated[
        dict[Annotated[str, msgspec.Meta(min_length=1, max_length=32)], bytes],
        msgspec.Meta(max_length=16),
    ]


_decoder = msgspec.msgpack.Decoder(_Wire)
_encoder = msgspec.msgpack.Encoder(order="deterministic")


@dataclass(frozen=True, repr=False)
class StudyKeys:
    """What the clients share.

    Parameters
    ----------
    master : bytes
        32 random bytes, from which keys for a purpose are derived.
    scheme_keys : mapping of str to bytes
        Secret keys by scheme, where a scheme makes its own.
    """

    master: bytes
    scheme_keys: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def generate(cls, scheme_keys: Mapping[str, bytes] | None = None) -> StudyKeys:
        """Return new keys, the master from the system's source of randomness."""
        return cls(secrets.token_bytes(MASTER_BYTES), dict(scheme_keys or {}))

    @classmethod
    def from_bytes(cls, payload: bytes) -> StudyKeys:
        """Return the keys that ``to_bytes`` gave.

        Raises
        ------
        ValueError
            If the bytes are invalid; the message repeats none of them.
        """
        if len(payload) > MAX_BYTES:
            raise ValueError(f"Study keys have at most {MAX_BYTES} bytes.")
        try:
            wire = _decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # msgspec quotes invalid input, which is secret here.
            raise ValueError("These bytes are not study keys.") from None
        keys = cls(wire.master, wire.scheme_keys)
        if keys.to_bytes() != payload:
            raise ValueError("These study keys are not in their canonical form.")
        return keys

    def to_bytes(self) -> bytes:
        """Return the secrets; equal keys give equal bytes."""
        return _encoder.encode(_Wire(self.master, dict(self.scheme_keys)))

    def derive(self, label: str, size: int = 32) -> bytes:
        """Return a key for one purpose; nothing about others follows from it.

        HKDF with SHA-256; the label is its info.
        """
        if not label:
            raise ValueError("Say by a label what the key is for.")
        return HKDF(SHA256(), size, None, label.encode()).derive(self.master)

    def of_run(self, number: int) -> StudyKeys:
        """Return the keys of a run of the study: each run has different keys.

        Keys that a scheme made itself stay the same: it seals with fresh randomness.
        """
        if number == 1:
            return self
        return StudyKeys(self.derive(f"hyfdca run {number}"), self.scheme_keys)

    def tag(self, statement: bytes) -> bytes:
        """Return a proof that its sender has all of these keys."""
        content = hashlib.sha256(self.to_bytes()).digest()
        key = self.derive("hyfdca key confirmation")
        return hmac.digest(key, content + statement, "sha256")

    def __repr__(self) -> str:
        fingerprint = in_groups(self.tag(b"fingerprint")[:8])
        return f"<StudyKeys {fingerprint}>"

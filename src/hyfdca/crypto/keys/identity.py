"""An organisation's own keys: X25519 to be sealed to, Ed25519 to sign with.

Only the public half leaves the organisation. It is one line of text that people paste
into a study file, so it carries a checksum: a letter lost on the way is noticed before
anything is sealed to a key that nobody has.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)

from hyfdca.crypto.keys.encoding import in_groups

_KEY_BYTES = 32
# With 5 bytes of checksum two keys fill whole letters of base64: there is one way only
# to write a key, and no padding.
_CHECKSUM_BYTES = 5
_PUBLIC, _SECRET = "hyfdca1", "hyfdca-secret1"
# Finding another key with a given fingerprint takes 2^96 tries.
_FINGERPRINT_BYTES = 12


@dataclass(frozen=True)
class PublicIdentity:
    """What others know of an organisation: two raw keys of 32 bytes.

    Raises
    ------
    ValueError
        If nothing can be sealed to the first key.
    """

    sealing: bytes
    verifying: bytes

    def __post_init__(self) -> None:
        if len(self.sealing) != _KEY_BYTES or len(self.verifying) != _KEY_BYTES:
            raise ValueError(f"A public key is two times {_KEY_BYTES} bytes.")
        try:
            # A few points give the same shared secret for every key of the other
            # side, so anybody could guess it.
            X25519PrivateKey.generate().exchange(self.sealing_key)
        except ValueError:
            raise ValueError("Nothing can be sealed to this public key.") from None

    @classmethod
    def parse(cls, text: str) -> PublicIdentity:
        """Return the identity of a line of text.

        Raises
        ------
        ValueError
            If it is not exactly such a line.
        """
        raw = _from_line(_PUBLIC, text)
        return cls(raw[:_KEY_BYTES], raw[_KEY_BYTES:])

    @property
    def text(self) -> str:
        """The line for the study file."""
        return _to_line(_PUBLIC, self.sealing + self.verifying)

    @property
    def fingerprint(self) -> str:
        """A short form for people to compare."""
        digest = hashlib.sha256(self.text.encode("ascii")).digest()
        return in_groups(digest[:_FINGERPRINT_BYTES])

    @property
    def sealing_key(self) -> X25519PublicKey:
        """The key that secrets are sealed to."""
        return X25519PublicKey.from_public_bytes(self.sealing)

    def has_signed(self, signature: bytes, message: bytes) -> bool:
        """Return whether the signature is this organisation's, of that message."""
        try:
            key = Ed25519PublicKey.from_public_bytes(self.verifying)
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def __str__(self) -> str:
        return self.text


class Identity:
    """An organisation's secret keys; its repr shows only the fingerprint."""

    def __init__(self, sealing: X25519PrivateKey, signing: Ed25519PrivateKey) -> None:
        self.sealing_key = sealing
        self._signing = signing

    @classmethod
    def generate(cls) -> Identity:
        """Return new keys, from the system's source of randomness."""
        return cls(X25519PrivateKey.generate(), Ed25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, payload: bytes) -> Identity:
        """Return the keys that ``to_bytes`` gave.

        Raises
        ------
        ValueError
            If the bytes are invalid or incomplete.
        """
        # Bytes that are not text become text that is not a key.
        raw = _from_line(_SECRET, payload.decode("ascii", errors="replace"))
        return cls(
            X25519PrivateKey.from_private_bytes(raw[:_KEY_BYTES]),
            Ed25519PrivateKey.from_private_bytes(raw[_KEY_BYTES:]),
        )

    def to_bytes(self) -> bytes:
        """Return the secret keys, to be kept where only their owner can read them."""
        raw = self.sealing_key.private_bytes_raw() + self._signing.private_bytes_raw()
        return _to_line(_SECRET, raw).encode("ascii")

    @cached_property
    def public(self) -> PublicIdentity:
        """The half that others may know."""
        return PublicIdentity(
            self.sealing_key.public_key().public_bytes_raw(),
            self._signing.public_key().public_bytes_raw(),
        )

    def sign(self, message: bytes) -> bytes:
        """Return a signature of 64 bytes."""
        return self._signing.sign(message)

    def __repr__(self) -> str:
        return f"<Identity {self.public.fingerprint}>"


def _to_line(prefix: str, raw: bytes) -> str:
    body = base64.urlsafe_b64encode(raw + _checksum(prefix, raw))
    return f"{prefix}:{body.decode('ascii')}"


def _from_line(prefix: str, text: str) -> bytes:
    """Return the two keys of a line; no message repeats any of it."""
    if not text.startswith(f"{prefix}:"):
        raise ValueError(f"A key of this kind begins with {prefix}:.")
    body = text.removeprefix(f"{prefix}:")
    n_letters = (2 * _KEY_BYTES + _CHECKSUM_BYTES) * 4 // 3
    if not re.fullmatch(r"[A-Za-z0-9_-]*", body):
        raise ValueError("The key has characters that no key has.")
    if len(body) != n_letters:
        raise ValueError(
            f"The key has {len(body)} letters after its colon instead of {n_letters}."
        )
    whole = base64.urlsafe_b64decode(body)
    raw, checksum = whole[:-_CHECKSUM_BYTES], whole[-_CHECKSUM_BYTES:]
    if checksum != _checksum(prefix, raw):
        raise ValueError("The key has a typing error: its checksum does not fit.")
    return raw


def _checksum(prefix: str, raw: bytes) -> bytes:
    return hashlib.sha256(prefix.encode("ascii") + raw).digest()[:_CHECKSUM_BYTES]

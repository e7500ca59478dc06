"""Notes between the clients of a study, passed on by a server that cannot read them.

AES-256-GCM under a key derived from one that all clients have. Unlike an envelope, a
note says nothing about its sender: any client could have written it.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_PERSON = b"hyfdca note"
_NONCE_BYTES = 12


class NoteError(ValueError):
    """A note that was damaged, or belongs elsewhere."""


def seal_note(content: bytes, place: bytes, key: bytes) -> bytes:
    """Return a sealed note.

    Parameters
    ----------
    place : bytes
        Where the note belongs; it can be opened nowhere else.
    """
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + _cipher(key).encrypt(nonce, content, place)


def open_note(note: bytes | memoryview, place: bytes, key: bytes) -> bytes:
    """Return the content of a note.

    Raises
    ------
    NoteError
    """
    sealed = bytes(note)
    try:
        return _cipher(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place)
    except (InvalidTag, ValueError):  # a nonce that is too short is a ValueError
        raise NoteError("a note was changed, or belongs elsewhere") from None


def _cipher(key: bytes) -> AESGCM:
    return AESGCM(blake2b(key=key, digest_size=32, person=_PERSON).digest())

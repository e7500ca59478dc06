"""Several byte strings as one, so that no two lists of them give the same bytes.

What is signed, hashed or bound to a ciphertext goes through here: each field has its
length before it, so ("ab", "c") and ("a", "bc") differ.
"""

from __future__ import annotations

import struct

_LENGTH = struct.Struct("<I")


def pack_fields(*fields: bytes) -> bytes:
    """Return the fields one after another, each behind its length."""
    return b"".join(_LENGTH.pack(len(field)) + field for field in fields)


def unpack_fields(payload: bytes, n_fields: int) -> list[bytes]:
    """Return exactly this many fields, or raise ``ValueError``."""
    fields, start = [], 0
    for _ in range(n_fields):
        if start + _LENGTH.size > len(payload):
            raise ValueError("a field is missing")
        (length,) = _LENGTH.unpack_from(payload, start)
        start += _LENGTH.size
        if length > len(payload) - start:
            raise ValueError("a field is cut short")
        fields.append(payload[start : start + length])
        start += length
    if start != len(payload):
        raise ValueError("something follows the last field")
    return fields


def in_groups(digest: bytes) -> str:
    """Return bytes as people compare them: hexadecimal, in groups of four."""
    digits = digest.hex()
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))

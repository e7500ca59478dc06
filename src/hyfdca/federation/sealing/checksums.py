"""Checksums of totals, which show their opener that it was handed something else.

The checksum of a row of numbers m is Σ r_j m_j modulo 2^64 with secret random words r
that all clients of the study have, so that sums of checksums are those of sums. It is
sealed as one number more. What was not sealed as totals of this kind and width
opens to noise, of which one in 2^64 has the right checksum.

This does not prove that the server changed nothing: it keeps clients from reporting
noise, or numbers that never were totals.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from hyfdca.arrays import IntArray
from hyfdca.crypto.keys.set_secrets import derived
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.stream import StreamSealer


class CheckedSealer:
    """Seals and opens totals with a checksum at the end of each row."""

    is_packed = False

    def __init__(self, sealer: StreamSealer, key: bytes, kind: str) -> None:
        self._sealer, self._key, self._kind = sealer, key, kind
        self._factors: dict[int, NDArray[np.uint64]] = {}  # by width

    def seal(
        self,
        numbers: IntArray,
        arrangement: Arrangement,
        items: IntArray | None = None,
        rest: IntArray | None = None,
    ) -> memoryview:
        """Return the sealed form of numbers and checksums."""
        sums = _checksums(numbers, self._factors_of(numbers.shape[1]))
        checked = np.column_stack([numbers, sums])
        return self._sealer.seal(checked, arrangement, items)

    def open(
        self,
        payload: memoryview,
        width: int,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> IntArray:
        """Return the numbers inside, or raise ``ValueError``."""
        rows = self._sealer.open(payload, width + 1, arrangement, items)
        return _checked(rows, self._factors_of(width))

    def pads(
        self, nonce: bytes, width: int, arrangement: Arrangement
    ) -> NDArray[np.uint64]:
        """Return the pads of a vector's numbers, without those of its checksums."""
        return self._sealer.pads(nonce, width + 1, arrangement)[:, :width]

    def _factors_of(self, width: int) -> NDArray[np.uint64]:
        if width not in self._factors:
            self._factors = {width: _factors(self._key, self._kind, width)}
        return self._factors[width]


def with_checksums(numbers: IntArray, key: bytes, kind: str) -> IntArray:
    """Return rows of numbers with the checksum of each at its end."""
    factors = _factors(key, kind, numbers.shape[1])
    return np.column_stack([numbers, _checksums(numbers, factors)])


def without_checksums(rows: IntArray, key: bytes, kind: str) -> IntArray:
    """Return rows of numbers whose checksums are right.

    Raises
    ------
    ValueError
        If one is not.
    """
    return _checked(rows, _factors(key, kind, rows.shape[1] - 1))


def _checked(rows: IntArray, factors: NDArray[np.uint64]) -> IntArray:
    numbers, found = rows[:, :-1], rows[:, -1]
    if np.any(_checksums(numbers, factors) != found):
        raise ValueError("it is not a sum of totals of this kind")
    return numbers


def _checksums(numbers: IntArray, factors: NDArray[np.uint64]) -> IntArray:
    words = np.ascontiguousarray(numbers).view(np.uint64)
    sums: NDArray[np.uint64] = (words * factors).sum(axis=1, dtype=np.uint64)
    return sums.view(np.int64)


def _factors(key: bytes, kind: str, width: int) -> NDArray[np.uint64]:
    """Return the random words of rows of this width."""
    own = derived(key, b"checksums", kind.encode(), b"%d" % width)
    stream = Cipher(algorithms.AES(own), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * width)), np.uint64)

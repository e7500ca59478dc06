"""Paillier's scheme, several whole numbers in one ciphertext or one alone.

A block is (1 + m n) R mod n^2, where m holds a number in each of its 64-bit slots and
the blinding R is a random n-th power. Multiplying blocks adds their slots. A client
knows n = p q and so finds R, and m again, modulo p^2 and q^2, which is several times
as fast (P. Paillier, "Public-key cryptosystems based on composite degree residuosity
classes", EUROCRYPT 1999, section 7).

Laws (tested): opening a product gives the sums exactly, whatever the signs, as long
as each stays in its slot; a number, or an opened sum, beyond the limit raises
``ValueError``. The spare bits above the last slot are checked too: what is opened
with another key, or was damaged on the way, fails except with chances below 2^-60.

Powers are found with the interpreter's lock released: threads that seal or open rows
of their own run side by side. Their time depends on the key: do not seal or open
where others can time it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.fixedpoint import SUM_BITS
from hyfdca.crypto.schemes.paillier_blinding import BlindingPool
from hyfdca.crypto.schemes.paillier_keys import PublicKey, SecretKey

Blocks = NDArray[np.uint8]

SLOT_BITS = 64
LARGEST_SUM = 2 ** (SLOT_BITS - 1) - 1  # the most that a slot can hold
# Additions add no noise: the grid shares a slot's room among the summands.
CAPACITY = 2**31

_WORD = np.dtype("<u8")
_SIGN = np.uint64(1 << 63)


def packed_slots(bits: int) -> int:
    """Return how many slots fit below half of a modulus: 31 of 2048 bits, 47 of 3072.

    The half, because a sum may be negative.
    """
    return (bits - 2) // SLOT_BITS


class PaillierCipher:
    """A client's half: seals and opens rows of whole numbers.

    Parameters
    ----------
    key : the clients' shared secret
    packed : as many numbers per block as fit, or one
    limit : int
        The limit of numbers and sums in a slot; by default that of the fixed-point
        grid.
    """

    def __init__(
        self, key: SecretKey, *, packed: bool = True, limit: int = 2**SUM_BITS
    ) -> None:
        if not 0 < limit <= LARGEST_SUM:
            raise ValueError(f"a slot holds numbers up to {LARGEST_SUM}, not {limit}")
        self._public = key.public
        self.n_slots = packed_slots(self._public.bits) if packed else 1
        self.block_bytes = _block_bytes(self._public)
        self.pool = BlindingPool(key)
        self._limit = limit
        self._modulus = self._public.modulus
        self._squared = self._modulus**2
        self._roots = _Roots(key)
        # Added to all slots, it makes every one of them positive.
        words = np.full(self.n_slots, _SIGN, _WORD)
        self._offset = mpz.from_bytes(words.tobytes(), "little")

    def seal(self, numbers: IntArray, groups: IntArray | None = None) -> Blocks:
        """Return a block for each row of numbers; all groups have the same key.

        Raises
        ------
        ValueError
            If a number is beyond the limit.
        """
        self._check_numbers(numbers)
        words = numbers.view(np.uint64) ^ _SIGN
        rows = np.ascontiguousarray(words.astype(_WORD, copy=False)).view(np.uint8)
        blocks: Blocks = np.empty((len(numbers), self.block_bytes), np.uint8)
        blindings = self.pool.take(len(numbers))
        for block, number, blinding in zip(
            blocks, _numbers(rows), blindings, strict=True
        ):
            message = (number - self._offset) % self._modulus
            _write(block, (message * self._modulus + 1) * blinding % self._squared)
        return blocks

    def open(self, blocks: Blocks, groups: IntArray | None = None) -> IntArray:
        """Return the numbers inside, one row per block.

        Raises
        ------
        ValueError
            If a block is not a ciphertext, or does not hold a sum of sealed numbers.
        """
        _check_shape(blocks, self.block_bytes)
        ciphertexts = list(_numbers(blocks))
        _check_range(ciphertexts, self._squared)
        size = self.n_slots * SLOT_BITS // 8
        opened = bytearray()
        for message in self._roots.messages(ciphertexts):
            positive = message + self._offset
            if positive < 0 or positive.bit_length() > 8 * size:
                raise ValueError(
                    "a block holds no sum of sealed numbers: it was damaged, sealed "
                    "with another key, or a sum outgrew its slot"
                )
            opened += positive.to_bytes(size, "little")
        words = np.frombuffer(opened, _WORD).reshape(len(blocks), self.n_slots)
        numbers = (words.astype(np.uint64, copy=False) ^ _SIGN).view(np.int64)
        self._check_numbers(numbers)
        return numbers

    def _check_numbers(self, numbers: IntArray) -> None:
        if numbers.ndim != 2 or numbers.shape[1] != self.n_slots:
            raise ValueError(
                f"expected rows of {self.n_slots} numbers, got shape {numbers.shape}"
            )
        if numbers.dtype != np.int64:
            raise ValueError(f"expected whole numbers (int64), got {numbers.dtype}")
        if ((numbers > self._limit) | (numbers < -self._limit)).any():
            raise ValueError(f"a number exceeds the {self._limit} of its slot")

    def __repr__(self) -> str:
        return f"PaillierCipher({self.n_slots} slots, {self._public!r})"


class PaillierAddition:
    """The server's half: multiplies ciphertexts, which adds what is inside."""

    capacity = CAPACITY

    def __init__(self, key: PublicKey, *, packed: bool = True) -> None:
        self.n_slots = packed_slots(key.bits) if packed else 1
        self.block_bytes = _block_bytes(key)
        self._key = key
        self._modulus = key.modulus
        self._squared = key.modulus**2

    def load(self, blocks: Blocks) -> NDArray[np.object_]:
        """Return ciphertexts; ``ValueError`` if a row is not one under this modulus."""
        _check_shape(blocks, self.block_bytes)
        ciphertexts = list(_numbers(blocks))
        _check_range(ciphertexts, self._squared)
        # One greatest common divisor for all, as each costs more than an addition.
        product = mpz(1)
        for ciphertext in ciphertexts:
            product = product * ciphertext % self._modulus
        if gmpy2.gcd(product, self._modulus) != 1:
            raise ValueError("a block is not a ciphertext: it shares a factor with n")
        loaded = self.zeros(len(ciphertexts))
        loaded[:] = ciphertexts
        return loaded

    def dump(self, ciphertexts: NDArray[np.object_]) -> Blocks:
        """Return ciphertexts as rows of bytes."""
        blocks: Blocks = np.empty((len(ciphertexts), self.block_bytes), np.uint8)
        for row, ciphertext in zip(blocks, ciphertexts.tolist(), strict=True):
            _write(row, ciphertext)
        return blocks

    def zeros(self, n_blocks: int) -> NDArray[np.object_]:
        """Return ciphertexts of zero that hide nothing."""
        return np.full(n_blocks, mpz(1), object)

    def add(
        self,
        total: NDArray[np.object_],
        where: IntArray,
        ciphertexts: NDArray[np.object_],
    ) -> None:
        """Add to rows of ``total``, which it changes."""
        total[where] = total[where] * ciphertexts % self._squared

    def __repr__(self) -> str:
        return f"PaillierAddition({self.n_slots} slots, {self._key!r})"


class _Roots:
    """Finds what is inside ciphertexts, modulo p and modulo q."""

    def __init__(self, key: SecretKey) -> None:
        self._p, self._q = key.p, key.q
        self._modulus = key.p * key.q
        # (1 + m n)^(p-1) = 1 + m n (p-1) = 1 - m q p modulo p^2
        self._unscale_p = gmpy2.invert(-key.q, key.p)
        self._unscale_q = gmpy2.invert(-key.p, key.q)
        self._inverse = gmpy2.invert(key.q, key.p)

    def messages(self, ciphertexts: list[mpz]) -> Iterator[mpz]:
        """Return the messages, between -n/2 and n/2."""
        by_p = _logarithms(ciphertexts, self._p, self._unscale_p)
        by_q = _logarithms(ciphertexts, self._q, self._unscale_q)
        for mod_p, mod_q in zip(by_p, by_q, strict=True):
            message = mod_q + self._q * ((mod_p - mod_q) * self._inverse % self._p)
            negative = 2 * message > self._modulus
            yield message - self._modulus if negative else message


def _logarithms(ciphertexts: list[mpz], prime: mpz, unscale: mpz) -> Iterator[mpz]:
    """Return messages modulo a prime p, from ciphertexts modulo its square."""
    square = prime**2
    bases = [ciphertext % square for ciphertext in ciphertexts]
    for power in gmpy2.powmod_base_list(bases, prime - 1, square):
        multiple, rest = gmpy2.f_divmod(power - 1, prime)
        if rest != 0:  # by Fermat, the base is a multiple of the prime
            raise ValueError("a block is not a ciphertext: it shares a factor with n")
        yield multiple * unscale % prime


def _block_bytes(key: PublicKey) -> int:
    return 2 * key.bits // 8


def _check_shape(blocks: Blocks, block_bytes: int) -> None:
    if blocks.ndim != 2 or blocks.shape[1] != block_bytes or blocks.dtype != np.uint8:
        raise ValueError(
            f"expected blocks of {block_bytes} bytes, got {blocks.dtype} {blocks.shape}"
        )


def _check_range(ciphertexts: Iterable[mpz], modulus_squared: mpz) -> None:
    if not all(0 < ciphertext < modulus_squared for ciphertext in ciphertexts):
        raise ValueError("a block is not a ciphertext: it is not between 0 and n^2")


def _numbers(rows: NDArray[np.uint8]) -> Iterator[mpz]:
    """Return each row of little-endian bytes as a number."""
    for row in rows:
        yield mpz.from_bytes(row.tobytes(), "little")


def _write(row: NDArray[np.uint8], number: mpz) -> None:
    row[:] = np.frombuffer(number.to_bytes(row.size, "little"), np.uint8)

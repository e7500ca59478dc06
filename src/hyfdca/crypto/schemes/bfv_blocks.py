"""BFV on single blocks, by SEAL; imported by worker processes, so nothing heavy.

A block is one ciphertext of two polynomials, each a run of residues for each prime of
the ciphertext modulus. On the wire it is these residues alone, little-endian and
without the bytes that are always zero; what SEAL writes before them is the same for
all ciphertexts of a context.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from hyfdca.errors import StudyError

try:
    import seal
except ImportError:  # does not exist for some processors
    raise StudyError(
        'The encryption "bfv" needs the package seal-python, which is not installed, '
        'and does not exist for some processors; set encryption = "stream".'
    ) from None

_POLYNOMIALS = 2
_WORD = 8


@dataclass(frozen=True)
class BfvParameters:
    """Public parameters of BFV.

    Parameters
    ----------
    primes : tuple of int
        Of the ciphertext modulus.
    special_primes : tuple of int
        Needed by SEAL for security estimates of the key, dropped from ciphertexts.
    plaintext_modulus : int
        Sums of numbers must stay below half of it.
    capacity : int
        How many ciphertexts may be added before noise could reach a number.
    """

    ring_degree: int
    primes: tuple[int, ...]
    special_primes: tuple[int, ...]
    plaintext_modulus: int
    capacity: int

    @property
    def residue_bytes(self) -> int:
        """Bytes of a residue on the wire: whole pairs of bytes."""
        return max(-(-prime.bit_length() // 16) * 2 for prime in self.primes)

    @property
    def n_residues(self) -> int:
        """Residues of a block."""
        return _POLYNOMIALS * len(self.primes) * self.ring_degree

    @property
    def block_bytes(self) -> int:
        """Bytes of a block on the wire."""
        return self.n_residues * self.residue_bytes

    def room(self, n_blocks: int) -> int:
        """Return the bytes that these blocks take at most when written."""
        return n_blocks * self.block_bytes + _WORD

    def context(self) -> seal.SEALContext:
        """Return SEAL's context, which checks 128 bits of security."""
        given = seal.EncryptionParameters(seal.scheme_type.bfv)
        given.set_poly_modulus_degree(self.ring_degree)
        primes = (*self.primes, *self.special_primes)
        given.set_coeff_modulus([seal.Modulus(prime) for prime in primes])
        given.set_plain_modulus(seal.Modulus(self.plaintext_modulus))
        context = seal.SEALContext(given, False, seal.sec_level_type.tc128)
        if not context.parameters_set():
            raise ValueError(f"SEAL refuses: {context.parameter_error_message()}.")
        return context


# Sums below 2^58, and of thousands of summands (the noise of 10,000 leaves 19 bits).
FULL = BfvParameters(
    4096, (70368743587841, 70368743669761), (114689,), 1152921504606830593, 10_000
)
# Two thirds of the bytes and the time for sums below 2^42 of up to 1,000 summands.
COMPACT = BfvParameters(4096, (1152921504606830593,), (), 17592186028033, 1_000)


SEED_BYTES = 32


@cache
def _context(parameters: BfvParameters) -> seal.SEALContext:
    """Return the context that all keys of these parameters share."""
    return parameters.context()


def _secret_key(parameters: BfvParameters, seed: bytes) -> bytes:
    """Return the secret key of a seed, as SEAL writes one.

    A secret key is a polynomial with coefficients -1, 0 and 1, transformed modulo each
    prime of the key. SEAL transforms plaintexts in the same way, and writes both alike.
    """
    signs = _signs(seed, parameters.ring_degree)
    coefficients = ["0", "1", f"{parameters.plaintext_modulus - 1:X}"]  # the last is -1
    terms = [
        f"{coefficients[sign]}x^{place}" for place, sign in enumerate(signs) if sign
    ]
    polynomial = seal.Plaintext(" + ".join(reversed(terms)))
    context = _context(parameters)
    level = context.key_context_data().parms_id()
    seal.Evaluator(context).transform_to_ntt_inplace(polynomial, level)
    written: bytes = polynomial.to_bytes()
    return written


def _signs(seed: bytes, count: int) -> list[int]:
    """Return uniform numbers below 3, derived from a seed."""
    # One of 256 bytes is left out, so that three divides the rest; 2 % more suffice.
    drawn = np.frombuffer(hashlib.shake_256(seed).digest(count + count // 8), np.uint8)
    signs: list[int] = (drawn[drawn < 255][:count] % 3).tolist()
    if len(signs) < count:
        raise ValueError("this seed gives too few numbers; draw another one")
    return signs


class BfvBlocks:
    """Seals and opens blocks in this process, with the secret key of a seed."""

    def __init__(self, parameters: BfvParameters, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a key of BFV follows from {SEED_BYTES} bytes")
        self.parameters = parameters
        self._context = _context(parameters)
        key = self._context.from_secret_str(_secret_key(parameters, seed))
        self._encryptor = seal.Encryptor(self._context, key)
        self._decryptor = seal.Decryptor(self._context, key)
        self._encoder = seal.BatchEncoder(self._context)

    @cached_property
    def _header(self) -> bytes:
        """Return what SEAL writes before the residues."""
        empty = self._encoder.encode(np.zeros(1, np.int64))
        written: bytes = self._encryptor.encrypt_symmetric(empty).to_string()
        return written[: len(written) - self.parameters.n_residues * _WORD]

    def seal(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return ciphertexts, (blocks, block_bytes), of (blocks, slots) numbers."""
        room = np.empty(self.parameters.room(len(numbers)), np.uint8)
        return self.seal_into(room, numbers)

    def seal_into(
        self, room: NDArray[np.uint8], numbers: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """Return ciphertexts, written one after the other into ``room``."""
        size, first = self.parameters.block_bytes, len(self._header)
        for place, block in enumerate(numbers):
            cipher = self._encryptor.encrypt_symmetric(self._encoder.encode(block))
            residues = np.frombuffer(cipher.to_string(), np.uint64, offset=first)
            cut(residues, self.parameters.residue_bytes, room[place * size :])
        return room[: len(numbers) * size].reshape(-1, size)

    def open(self, sealed: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the numbers, (blocks, slots); raises on other bytes."""
        numbers = np.empty((len(sealed), self.parameters.ring_degree), np.int64)
        return self.open_into(numbers, sealed)

    def open_into(
        self, numbers: NDArray[np.int64], sealed: NDArray[np.uint8]
    ) -> NDArray[np.int64]:
        """Return the numbers, written into ``numbers``."""
        parameters, header = self.parameters, self._header
        written = bytearray(header) + bytearray(parameters.n_residues * _WORD)
        words = np.frombuffer(written, np.uint64, offset=len(header))
        for row, block in zip(numbers, sealed, strict=True):
            _expand(block, parameters.residue_bytes, words)
            try:
                cipher = self._context.from_cipher_str(written)
                row[:] = self._encoder.decode(self._decryptor.decrypt(cipher))
            except (RuntimeError, ValueError) as error:
                raise ValueError(f"this is not a ciphertext: {error}") from None
        return numbers


def cut(
    residues: NDArray[np.uint64], n_bytes: int, room: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return the low bytes of each residue, written into ``room``.

    Words are written one after the other at overlapping places: the zeros at the end
    of each are overwritten by the next, so the last needs some room to spare. Five
    times as fast as choosing bytes.
    """
    np.ndarray((len(residues),), np.uint64, room.data, 0, (n_bytes,))[:] = residues
    return room[: len(residues) * n_bytes]


def _expand(block: NDArray[np.uint8], n_bytes: int, words: NDArray[np.uint64]) -> None:
    """Write residues as words, the reverse of ``cut``."""
    spare = _WORD - n_bytes
    # A word that starts at the last residue would go beyond the end.
    n_safe = len(words) - (spare > 0)
    content = np.ascontiguousarray(block)
    words[:n_safe] = np.ndarray((n_safe,), np.uint64, content.data, 0, (n_bytes,))
    if spare:
        words[n_safe] = int.from_bytes(content[n_safe * n_bytes :].tobytes(), "little")
        words &= np.uint64(2 ** (8 * n_bytes) - 1)

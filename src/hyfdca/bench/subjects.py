"""What `hyfdca bench crypto` measures: our schemes, and libraries beside them.

To add a scheme that seals whole numbers in blocks, add one entry to ``SCHEMES``
that returns ``Blocks(cipher, addition)``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

import gmpy2
import numpy as np
from numpy.typing import NDArray

from hyfdca.crypto.base import raw_bytes
from hyfdca.crypto.fixedpoint import FloatArray, Grid, IntArray, decode, grid_for
from hyfdca.crypto.paillier import PaillierAddition, PaillierCipher
from hyfdca.crypto.paillier_keys import SecretKey
from hyfdca.crypto.plain import PlainAdder, PlainSealer

GRID = grid_for(bound=1.0, n_summands=1000)


class Subject(Protocol):
    """Something that seals reals into bytes, adds them unread, and opens them.

    What is measured is ``seal`` (quantise, encode, encrypt, serialise), ``open``
    (load, decrypt, decode) and ``add`` of vectors already loaded.
    """

    n_slots: int  # the vectors it is given are multiples of this long

    def prepare(self, n_values: int) -> None:
        """Do what may be done ahead of sealing that many values; not counted."""
        ...

    def seal(self, values: FloatArray) -> Any:
        """Return the bytes that would travel."""
        ...

    def open(self, payload: Any) -> FloatArray:
        """Return the reals inside such bytes."""
        ...

    def load(self, payload: Any) -> Any:
        """Return what ``add`` takes, free to be changed."""
        ...

    def add(self, total: Any, vector: Any) -> None:
        """Add to ``total``, in place."""
        ...

    def dump(self, total: Any) -> Any:
        """Return the bytes of a sum."""
        ...


class Plain:
    """No encryption, the same grid."""

    n_slots = 4096

    def __init__(self) -> None:
        self._sealer, self._adder = PlainSealer(), PlainAdder()

    def prepare(self, n_values: int) -> None:
        """Nothing can be done ahead."""

    def seal(self, values: FloatArray) -> memoryview:
        """Return whole numbers."""
        return self._sealer.seal(GRID.encode(values))

    def open(self, payload: memoryview) -> FloatArray:
        """Return reals."""
        numbers = self._sealer.open(payload, _one_column(payload))
        return decode(numbers, GRID.fraction_bits).reshape(-1)

    def load(self, payload: memoryview) -> IntArray:
        """Return a copy."""
        numbers: IntArray = self._adder.load(payload, _one_column(payload)).copy()
        return numbers

    def add(self, total: IntArray, vector: IntArray) -> None:
        """Add numbers."""
        self._adder.add(total, slice(None), vector)

    def dump(self, total: IntArray) -> memoryview:
        """Return numbers."""
        return self._adder.dump(total)


def _one_column(payload: memoryview) -> tuple[int, int]:
    return len(payload) // 8, 1


class BlockCipher(Protocol):
    """A client's half of a scheme that seals whole numbers in blocks."""

    n_slots: int
    block_bytes: int

    def seal(self, numbers: IntArray) -> NDArray[np.uint8]:
        """Return a block for each row of numbers."""
        ...

    def open(self, blocks: NDArray[np.uint8]) -> IntArray:
        """Return the rows of numbers."""
        ...


class BlockAddition(Protocol):
    """The server's half."""

    def check(self, blocks: NDArray[np.uint8]) -> None:
        """Raise ``ValueError`` if some row is no ciphertext."""
        ...

    def add(self, total: NDArray[np.uint8], blocks: NDArray[np.uint8]) -> None:
        """Add row by row, in place."""
        ...


class Blocks:
    """Any scheme of ours that seals whole numbers in blocks.

    Parameters
    ----------
    cipher, addition : the two halves of the scheme
    grid : the fixed point that its slots have room for
    fill : does ahead what can be done for a number of blocks, uncounted
    """

    def __init__(
        self,
        cipher: BlockCipher,
        addition: BlockAddition,
        grid: Grid = GRID,
        fill: Callable[[int], None] | None = None,
    ) -> None:
        self.n_slots = cipher.n_slots
        self._cipher, self._addition = cipher, addition
        self._grid, self._fill = grid, fill

    def prepare(self, n_values: int) -> None:
        """Fill the pool, if this is measured with one."""
        if self._fill is not None:
            self._fill(n_values // self.n_slots)

    def seal(self, values: FloatArray) -> memoryview:
        """Return the bytes of blocks."""
        numbers = self._grid.encode(values).reshape(-1, self.n_slots)
        return raw_bytes(self._cipher.seal(numbers))

    def open(self, payload: memoryview) -> FloatArray:
        """Return reals."""
        numbers = self._cipher.open(self._rows(payload))
        return decode(numbers, self._grid.fraction_bits).reshape(-1)

    def load(self, payload: memoryview) -> NDArray[np.uint8]:
        """Return checked blocks."""
        rows = self._rows(payload).copy()
        self._addition.check(rows)
        return rows

    def add(self, total: NDArray[np.uint8], vector: NDArray[np.uint8]) -> None:
        """Add blocks."""
        self._addition.add(total, vector)

    def dump(self, total: NDArray[np.uint8]) -> memoryview:
        """Return the bytes of blocks."""
        return raw_bytes(total)

    def _rows(self, payload: memoryview) -> NDArray[np.uint8]:
        return np.frombuffer(payload, np.uint8).reshape(-1, self._cipher.block_bytes)


class Phe:
    """python-paillier at 2048 bits, one value a ciphertext."""

    n_slots = 1
    _BITS = 2048

    def __init__(self) -> None:
        self._library = importlib.import_module("phe")
        keys = self._library.generate_paillier_keypair(n_length=self._BITS)
        self._public, self._secret = keys
        self._size = 2 * self._BITS // 8

    def prepare(self, n_values: int) -> None:
        """The library has no pool."""

    def seal(self, values: FloatArray) -> bytes:
        """Return ciphertexts one after the other."""
        numbers = map(self._public.encrypt, GRID.encode(values).tolist())
        return self.dump(list(numbers))

    def open(self, payload: bytes) -> FloatArray:
        """Return reals."""
        numbers = list(map(self._secret.decrypt, self.load(payload)))
        return decode(np.array(numbers, np.int64), GRID.fraction_bits)

    def load(self, payload: bytes) -> list[Any]:
        """Return the library's numbers."""
        return [
            self._library.EncryptedNumber(
                self._public, int.from_bytes(payload[i : i + self._size], "big")
            )
            for i in range(0, len(payload), self._size)
        ]

    def add(self, total: list[Any], vector: list[Any]) -> None:
        """Add one by one."""
        total[:] = [left + right for left, right in zip(total, vector, strict=True)]

    def dump(self, total: list[Any]) -> bytes:
        """Return ciphertexts one after the other, as they are."""
        numbers = (number.ciphertext(be_secure=False) for number in total)
        return b"".join(number.to_bytes(self._size, "big") for number in numbers)


class Tenseal:
    """BFV as TenSEAL has it, with 60-bit slots and secret-key encryption."""

    n_slots = 4096
    _COEFFICIENT_BITS = (46, 46, 17)

    def __init__(self) -> None:
        self._library = importlib.import_module("tenseal")
        self._context = self._library.context(
            self._library.SCHEME_TYPE.BFV,
            poly_modulus_degree=self.n_slots,
            plain_modulus=_batching_prime(self.n_slots, 60),
            coeff_mod_bit_sizes=list(self._COEFFICIENT_BITS),
            encryption_type=self._library.ENCRYPTION_TYPE.SYMMETRIC,
            n_threads=1,
        )

    def prepare(self, n_values: int) -> None:
        """Nothing can be done ahead."""

    def seal(self, values: FloatArray) -> list[bytes]:
        """Return a message for each vector."""
        rows = GRID.encode(values).reshape(-1, self.n_slots)
        make, context = self._library.bfv_vector, self._context
        return [make(context, row).serialize() for row in rows]

    def open(self, payload: list[bytes]) -> FloatArray:
        """Return reals."""
        numbers = [vector.decrypt() for vector in self.load(payload)]
        return decode(np.array(numbers, np.int64), GRID.fraction_bits).reshape(-1)

    def load(self, payload: list[bytes]) -> list[Any]:
        """Return the library's vectors."""
        return [self._library.bfv_vector_from(self._context, part) for part in payload]

    def add(self, total: list[Any], vector: list[Any]) -> None:
        """Add one by one."""
        for left, right in zip(total, vector, strict=True):
            left.add_(right)

    def dump(self, total: list[Any]) -> list[bytes]:
        """Return a message for each vector."""
        return [vector.serialize() for vector in total]


def _batching_prime(ring_degree: int, bits: int) -> int:
    """Return the largest prime of that length that gives a slot a coefficient."""
    step = 2 * ring_degree
    prime = (1 << bits) - step + 1
    while not gmpy2.is_prime(prime):
        prime -= step
    return prime


def _paillier(bits: int, packed: bool = True, pooled: bool = False) -> Subject:
    key = SecretKey.generate(bits)
    cipher = PaillierCipher(key, packed=packed)
    addition = PaillierAddition(key.public, packed=packed)
    return Blocks(cipher, addition, fill=cipher.pool.fill if pooled else None)


SCHEMES: dict[str, Callable[[], Subject]] = {
    "none": Plain,
    "paillier-3072": lambda: _paillier(3072),
    "paillier-3072-pooled": lambda: _paillier(3072, pooled=True),
    "paillier-3072-unpacked": lambda: _paillier(3072, packed=False),
    "paillier-2048": lambda: _paillier(2048),
    "paillier-2048-unpacked": lambda: _paillier(2048, packed=False),
}

LIBRARIES: dict[str, Callable[[], Subject]] = {"phe": Phe, "tenseal": Tenseal}

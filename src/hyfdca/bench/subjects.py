"""The subjects of `hyfdca bench crypto`: our schemes, and libraries to compare.

To add a scheme, add one entry to ``SCHEMES`` that returns ``Ours(sealer, adder)``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from secrets import token_bytes
from typing import Any, Protocol

import gmpy2
import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.crypto.keys.set_secrets import LocalSecrets
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.base import Adder, Sealer
from hyfdca.crypto.schemes.blocks import BlockAdder, BlockSealer
from hyfdca.crypto.schemes.fixedpoint import Grid, decode, grid_for
from hyfdca.crypto.schemes.paillier import PaillierAddition, PaillierCipher
from hyfdca.crypto.schemes.paillier_keys import SecretKey
from hyfdca.crypto.schemes.registry import (
    Adders,
    Encryption,
    Precision,
    SchemeName,
    Sealers,
    new_keys,
    public_parameters,
)
from hyfdca.federation.sealing.kinds import VectorKind
from hyfdca.federation.sealing.vector_keys import OwnerKeys

GRID = grid_for(bound=1.0, n_summands=1000)
_LONG = 4096  # length of vectors that have no blocks


class Subject(Protocol):
    """Something that seals reals into bytes, adds them unread, and opens them.

    The benchmark measures ``seal`` (quantise, encode, encrypt, serialise), ``open``
    (load, decrypt, decode) and ``add`` of vectors already loaded.
    """

    n_slots: int  # lengths of vectors are multiples of this

    def prepare(self, n_values: int) -> None:
        """Do the work that can precede sealing that many values; not measured."""
        ...

    def seal(self, values: FloatArray) -> Any:
        """Return the bytes that would be sent."""
        ...

    def open(self, payload: Any) -> FloatArray:
        """Return the reals inside such bytes."""
        ...

    def load(self, payload: Any) -> Any:
        """Return a vector for ``add``, which may change it."""
        ...

    def add(self, total: Any, vector: Any) -> None:
        """Add to ``total``, in place."""
        ...

    def dump(self, total: Any) -> Any:
        """Return the bytes of a sum."""
        ...


class Ours:
    """One of our schemes, as studies use it.

    Parameters
    ----------
    grid : Grid
        A fixed point that fits the scheme's slots.
    fill : callable
        Prepares the given number of blocks, unmeasured.

    Attributes
    ----------
    n_slots : int
        Numbers per block, if the scheme has blocks.
    """

    def __init__(
        self,
        sealer: Sealer,
        adder: Adder,
        grid: Grid = GRID,
        fill: Callable[[int], None] | None = None,
    ) -> None:
        self.n_slots = adder.n_slots or _LONG
        self._sealer, self._adder = sealer, adder
        self._grid, self._fill = grid, fill
        self._n_values = 0

    def prepare(self, n_values: int) -> None:
        """Fill the pool, if there is one."""
        if self._fill is not None:
            self._fill(n_values // self.n_slots)

    def seal(self, values: FloatArray) -> memoryview:
        """Return sealed numbers on the grid."""
        self._n_values = len(values)
        numbers = self._grid.encode(values).reshape(-1, 1)
        return self._sealer.seal(numbers, Arrangement.together(len(values)))

    def open(self, payload: memoryview) -> FloatArray:
        """Return reals."""
        arrangement = Arrangement.together(self._n_values)
        # A single client's payload is read as a sum of one.
        numbers = self._sealer.open(payload, 1, arrangement)
        return decode(numbers, self._grid.fraction_bits).reshape(-1)

    def load(self, payload: memoryview) -> Any:
        """Return the payload as a sum of one."""
        adder = self._adder
        n_units = -(-self._n_values // (adder.n_slots or 1))
        total = adder.zeros((n_units, 1))
        adder.add(total, slice(None), adder.load(payload, (n_units, 1)))
        return total

    def add(self, total: Any, vector: Any) -> None:
        """Add vectors."""
        self._adder.add(total, slice(None), vector)

    def dump(self, total: Any) -> memoryview:
        """Return the bytes of a sum."""
        return self._adder.dump(total)


class Phe:
    """python-paillier at 2048 bits, one value per ciphertext."""

    n_slots = 1
    _BITS = 2048

    def __init__(self) -> None:
        self._library = importlib.import_module("phe")
        keys = self._library.generate_paillier_keypair(n_length=self._BITS)
        self._public, self._secret = keys
        self._size = 2 * self._BITS // 8

    def prepare(self, n_values: int) -> None:
        """Do nothing: the library has no pool."""

    def seal(self, values: FloatArray) -> bytes:
        """Return concatenated ciphertexts."""
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
        """Return concatenated ciphertexts, without blinding them again."""
        numbers = (number.ciphertext(be_secure=False) for number in total)
        return b"".join(number.to_bytes(self._size, "big") for number in numbers)


class Tenseal:
    """TenSEAL's BFV, with 60-bit slots and secret-key encryption."""

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
        """Do nothing: the library has nothing to prepare."""

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
    """Return the largest prime of that length with one slot per coefficient."""
    step = 2 * ring_degree
    prime = (1 << bits) - step + 1
    while not gmpy2.is_prime(prime):
        prime -= step
    return prime


_KIND = VectorKind("samples", "margins")


def _study(scheme: SchemeName, precision: Precision = "full") -> Subject:
    encryption = Encryption(scheme, precision)
    keys, alone = new_keys(encryption), LocalSecrets(token_bytes(32), 0, 1)
    return Ours(
        Sealers(encryption, keys, alone).named(
            scheme, OwnerKeys(_KIND, {0: (0,)}, alone)
        ),
        Adders(encryption, public_parameters(keys)).named(scheme),
        grid_for(1.0, 1000, encryption.sum_bits),
    )


def _paillier(bits: int, packed: bool = True, pooled: bool = False) -> Subject:
    key = SecretKey.generate(bits)
    cipher = PaillierCipher(key, packed=packed)
    adder = BlockAdder(PaillierAddition(key.public, packed=packed))
    return Ours(BlockSealer(cipher), adder, fill=cipher.pool.fill if pooled else None)


SCHEMES: dict[str, Callable[[], Subject]] = {
    "none": lambda: _study("none"),
    "stream": lambda: _study("stream"),
    "bfv": lambda: _study("bfv"),
    "bfv-compact": lambda: _study("bfv", "compact"),
    "paillier-3072": lambda: _paillier(3072),
    "paillier-3072-pooled": lambda: _paillier(3072, pooled=True),
    "paillier-3072-unpacked": lambda: _paillier(3072, packed=False),
    "paillier-2048": lambda: _paillier(2048),
    "paillier-2048-unpacked": lambda: _paillier(2048, packed=False),
}

LIBRARIES: dict[str, Callable[[], Subject]] = {"phe": Phe, "tenseal": Tenseal}

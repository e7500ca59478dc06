"""Schemes that pack many numbers in one ciphertext: vectors as rows of blocks.

On the wire a vector is a bit for each block that says whether it is there, one more bit
that is set and so shows how many blocks there are, and then the blocks. A block
without summands is absent: it is zero, which is not a secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import ByteArray, IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement


class BlockCipher(Protocol):
    """A client's half of a packed scheme; it has the secret key."""

    @property
    def n_slots(self) -> int:
        """Numbers in a block."""
        ...

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        ...

    def seal(self, numbers: IntArray, groups: IntArray) -> ByteArray:
        """Return (blocks, block_bytes) of (blocks, slots) numbers, by owner group."""
        ...

    def open(self, blocks: ByteArray, groups: IntArray) -> IntArray:
        """Return (blocks, slots) numbers, or raise ``ValueError``."""
        ...


class BlockAddition(Protocol):
    """The server's half of a packed scheme; it has public parameters only."""

    @property
    def n_slots(self) -> int:
        """Numbers in a block."""
        ...

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        ...

    @property
    def capacity(self) -> int:
        """How many blocks may be added up."""
        ...

    def load(self, blocks: ByteArray) -> NDArray[Any]:
        """Return ciphertexts as they are added; ``ValueError`` if a row is not one."""
        ...

    def dump(self, ciphertexts: NDArray[Any]) -> ByteArray:
        """Return the bytes of ciphertexts, the reverse of ``load``."""
        ...

    def zeros(self, n_blocks: int) -> NDArray[Any]:
        """Return room for ciphertexts."""
        ...

    def add(
        self, total: NDArray[Any], where: IntArray, ciphertexts: NDArray[Any]
    ) -> None:
        """Add ciphertexts to rows of ``total``, which it changes."""
        ...


class BlockSealer:
    """Puts numbers into blocks, which it has sealed."""

    is_packed = True

    def __init__(self, cipher: BlockCipher) -> None:
        self._cipher = cipher

    def seal(
        self,
        numbers: IntArray,
        arrangement: Arrangement,
        items: IntArray | None = None,
        rest: IntArray | None = None,
        more: IntArray | None = None,
    ) -> memoryview:
        """Return the sealed blocks that have these items."""
        if more is not None:
            numbers = np.concatenate([numbers, more])
        blocks = arrangement.blocks(numbers.shape[1], self._cipher.n_slots)
        groups = blocks.groups_of(blocks.covering(items))
        sealed = self._cipher.seal(blocks.fill(numbers, items, rest), groups)
        return _dump(np.ones(len(sealed), np.bool_), sealed)

    def open(
        self,
        payload: memoryview,
        width: int,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> IntArray:
        """Return the numbers of these items."""
        cipher = self._cipher
        blocks = arrangement.blocks(width, cipher.n_slots)
        covering = blocks.covering(items)
        n_blocks = len(covering)
        is_there, sealed = _load(payload, n_blocks, cipher.block_bytes)
        if not is_there.any():
            n_items = arrangement.n_items if items is None else len(items)
            return np.zeros((n_items, width), np.int64)
        filled = cipher.open(sealed, blocks.groups_of(covering)[is_there])
        if not is_there.all():
            opened, filled = filled, np.zeros((n_blocks, cipher.n_slots), np.int64)
            filled[is_there] = opened
        return blocks.read(filled, items)


@dataclass
class Blocks:
    """A sealed vector: one ciphertext per row, where there is one."""

    is_there: NDArray[np.bool_]
    rows: NDArray[Any]


class BlockAdder:
    """Adds vectors block by block."""

    def __init__(self, addition: BlockAddition) -> None:
        self._addition = addition
        self.n_slots, self.capacity = addition.n_slots, addition.capacity
        self.unit_bytes = addition.block_bytes

    def load(self, payload: memoryview, shape: tuple[int, int]) -> Blocks:
        """Return a client's blocks, all of which must be there."""
        is_there, rows = _load(payload, shape[0], self._addition.block_bytes)
        if not is_there.all():
            raise ValueError("a block is missing")
        return Blocks(is_there, self._addition.load(rows))

    def zeros(self, shape: tuple[int, int]) -> Blocks:
        """Return blocks that are not there."""
        return Blocks(np.zeros(shape[0], np.bool_), self._addition.zeros(shape[0]))

    def add(self, total: Blocks, where: Any, vector: Blocks) -> None:
        """Add in place."""
        if vector.is_there.all() and not total.is_there[where].any():
            total.rows[where], total.is_there[where] = vector.rows, True
            return
        places = np.arange(len(total.rows))[where]
        is_new = vector.is_there & ~total.is_there[places]
        total.rows[places[is_new]] = vector.rows[is_new]
        total.is_there[places[is_new]] = True
        is_more = vector.is_there & ~is_new
        rows = vector.rows if is_more.all() else vector.rows[is_more]
        self._addition.add(total.rows, places[is_more], rows)

    def put(self, total: Blocks, where: Any, vector: Blocks) -> None:
        """Replace in place."""
        total.rows[where], total.is_there[where] = vector.rows, vector.is_there

    def take(self, total: Blocks, where: Any) -> Blocks:
        """Return some of the blocks."""
        return Blocks(total.is_there[where], total.rows[where])

    def dump(self, vector: Blocks) -> memoryview:
        """Return the bytes of a sum."""
        is_there, rows = vector.is_there, vector.rows
        return _dump(
            is_there, self._addition.dump(rows if is_there.all() else rows[is_there])
        )


def _dump(is_there: NDArray[np.bool_], rows: ByteArray) -> memoryview:
    bits = np.packbits(np.append(is_there, True))
    return np.concatenate([bits, rows.reshape(-1)]).data


def _load(
    payload: memoryview, n_blocks: int, block_bytes: int
) -> tuple[NDArray[np.bool_], ByteArray]:
    content = np.frombuffer(payload, np.uint8)
    first = n_blocks // 8 + 1
    bits = np.unpackbits(content[:first]).astype(np.bool_)
    is_there, end = bits[:n_blocks], bits[n_blocks:]
    size = int(is_there.sum()) * block_bytes
    if len(content) != first + size or not end[0] or end[1:].any():
        raise ValueError(
            f"expected {n_blocks} blocks of {block_bytes} bytes, "
            f"got {len(content)} bytes"
        )
    return is_there, content[first:].reshape(-1, block_bytes)

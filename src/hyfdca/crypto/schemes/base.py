"""What every scheme provides: a sealer for clients, an adder for the server.

The server's half cannot be given a key: an ``Adder`` only adds. Its vectors have
*units*, the least that can be added by itself: an item in schemes whose numbers can be
addressed one by one, else a block of numbers of one owner group.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement

UNLIMITED = 2**62


def raw_bytes(values: NDArray[Any]) -> memoryview:
    """Return the bytes of an array without copying them where possible."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


class VectorKeys(Protocol):
    """The keys of one kind of vector, 32 bytes each."""

    @property
    def by_group(self) -> bool:
        """Whether each owner group has a key of its own."""
        ...

    def of(self, group: int, sealer: bytes = b"") -> bytes:
        """Return the key for items of a group that were sealed by some sealer.

        Raises ``ValueError`` if the client does not have it.
        """
        ...


class Sealer(Protocol):
    """A client's half: seals and opens vectors of whole numbers."""

    @property
    def is_packed(self) -> bool:
        """Whether several items share a block, and are sent together."""
        ...

    def seal(
        self,
        numbers: IntArray,
        arrangement: Arrangement,
        items: IntArray | None = None,
        rest: IntArray | None = None,
    ) -> memoryview:
        """Return the sealed form of (items, width) whole numbers.

        Parameters
        ----------
        items : array, optional
            Which items of the arrangement these are; by default all.
        rest : array (all items, width), optional
            The values that a scheme sends for items in between, if it cannot leave
            them out, with the numbers in place; zeros by default.
        """
        ...

    def open(
        self,
        payload: memoryview,
        width: int,
        arrangement: Arrangement,
        items: IntArray | None = None,
    ) -> IntArray:
        """Return the numbers inside, (items, width), or raise ``ValueError``."""
        ...


class JoiningSealer(Sealer, Protocol):
    """Seals vectors whose last items may be in another array, without a copy."""

    def seal(
        self,
        numbers: IntArray,
        arrangement: Arrangement,
        items: IntArray | None = None,
        rest: IntArray | None = None,
        more: IntArray | None = None,
    ) -> memoryview:
        """Return the sealed form of numbers and, after them, ``more`` rows of them."""
        ...


class Adder(Protocol):
    """The server's half: adds sealed vectors without reading them."""

    @property
    def n_slots(self) -> int | None:
        """Numbers in a unit; None where a unit is an item."""
        ...

    @property
    def capacity(self) -> int:
        """How many summands a sum may have before it must be sealed again."""
        ...

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit of one number, or of a block."""
        ...

    def load(self, payload: memoryview, shape: tuple[int, int]) -> Any:
        """Return a client's sealed vector of that shape, or raise ``ValueError``."""
        ...

    def zeros(self, shape: tuple[int, int]) -> Any:
        """Return a sealed vector of zeros."""
        ...

    def add(self, total: Any, where: Any, vector: Any) -> None:
        """Add ``vector`` to the units ``where`` of ``total``; changes ``total``."""
        ...

    def put(self, total: Any, where: Any, vector: Any) -> None:
        """Set the units ``where`` of ``total`` to ``vector``; changes ``total``."""
        ...

    def take(self, total: Any, where: Any) -> Any:
        """Return the sealed vector at the units ``where`` of ``total``."""
        ...

    def dump(self, vector: Any) -> memoryview:
        """Return the bytes of a sealed sum."""
        ...

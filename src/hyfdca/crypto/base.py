"""What every scheme provides: a sealer for clients, an adder for the server.

The server's half cannot be given a key: an ``Adder`` only adds.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hyfdca.crypto.fixedpoint import IntArray


def raw_bytes(values: NDArray[Any]) -> memoryview:
    """Return the bytes of an array without copying them where possible."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


class Sealer(Protocol):
    """A client's half: seals and opens vectors of whole numbers."""

    def seal(self, numbers: IntArray) -> memoryview:
        """Return the sealed form of whole numbers."""
        ...

    def open(self, payload: memoryview, shape: tuple[int, int]) -> IntArray:
        """Return the numbers inside, items by outputs, or raise ``ValueError``."""
        ...


class Adder(Protocol):
    """The server's half: adds sealed vectors without reading them."""

    def load(self, payload: memoryview, shape: tuple[int, int]) -> Any:
        """Return a sealed vector of that shape, or raise ``ValueError``."""
        ...

    def zeros(self, shape: tuple[int, int]) -> Any:
        """Return a sealed vector of zeros."""
        ...

    def add(self, total: Any, where: Any, vector: Any) -> None:
        """Add ``vector`` to the places ``where`` of ``total``; changes ``total``."""
        ...

    def put(self, total: Any, where: Any, vector: Any) -> None:
        """Set the places ``where`` of ``total`` to ``vector``; changes ``total``."""
        ...

    def take(self, total: Any, where: Any) -> Any:
        """Return the sealed vector at the places ``where`` of ``total``."""
        ...

    def dump(self, vector: Any) -> memoryview:
        """Return the bytes of a sealed vector."""
        ...

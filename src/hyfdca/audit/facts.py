"""What the server of a study knows anyway, and how to read vectors by force."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.path import Path
from hyfdca.holdings.layout import Layout
from hyfdca.protocol import messages as m


@dataclass(frozen=True)
class Facts:
    """Public facts of a study.

    Parameters
    ----------
    bias : float or None
        The value of every cell of the last feature, if that is the bias.
    free_intercept : bool
        Whether planes have balances instead.
    path : Path, optional
        The fits among which λ is chosen.
    """

    layout: Layout
    n_outputs: int
    l2_scale: float
    bias: float | None
    free_intercept: bool = False
    path: Path | None = None

    def n_samples(self, client: int) -> int:
        """Return how many samples a client holds."""
        return len(self.layout.samples.items[client])

    def n_features(self, client: int) -> int:
        """Return how many features a client holds, including the bias."""
        return len(self.layout.features.items[client])

    def bias_place(self, client: int) -> int | None:
        """Return where the bias is among a client's features, if it has it."""
        features = self.layout.features
        items = features.items[client]
        has_it = len(items) and items[-1] == features.n_items - 1
        return len(items) - 1 if self.bias is not None and has_it else None


def forced(vectors: list[m.Sealed], shape: tuple[int, int]) -> FloatArray | None:
    """Read the last words of vectors as plain numbers, sealed or not, and add them.

    If nothing is sealed, these are the true numbers; otherwise they are the best guess
    of a server without the key. Returns None if a vector has too few words.
    """
    total = np.zeros(shape)
    size = 8 * shape[0] * shape[1]
    for vector in vectors:
        if len(vector.payload) < size:
            return None
        words = np.frombuffer(vector.payload[len(vector.payload) - size :], "<i8")
        total += np.ldexp(words.astype(np.float64), -vector.fraction_bits).reshape(
            shape
        )
    return total


def rows_of(positions: memoryview | None, n_held: int) -> IntArray:
    """Return the rows that a message names; None means all."""
    if positions is None:
        return np.arange(n_held)
    return np.frombuffer(positions, "<u4").astype(np.int64)


def reals_of(content: memoryview, shape: tuple[int, ...]) -> FloatArray:
    """Return reals that were sent unsealed."""
    return np.frombuffer(content, "<f8").reshape(shape)

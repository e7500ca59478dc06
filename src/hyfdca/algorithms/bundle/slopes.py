"""The slopes of cutting planes, as a holder of features or the server keeps them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.maths.kernels import add_weighted

Array3 = NDArray[np.float64]  # planes by features (or planes) by outputs


@dataclass(frozen=True, repr=False)
class SlopesState:
    """What a checkpoint keeps of slopes."""

    parts: list[FloatArray]
    numbers: list[IntArray]


class Slopes:
    """The slopes σ of numbered planes on some features, in the order of arrival.

    Stored as they arrived, one array per delivery: there may be a million features.
    """

    def __init__(self, n_features: int, n_outputs: int) -> None:
        self._empty = np.zeros((n_features, n_outputs))
        self._parts: list[Array3] = []
        self._take_numbers([])

    def state(self) -> SlopesState:
        """Return what a checkpoint keeps."""
        return SlopesState(self._parts, self._numbers)

    def restore(self, state: SlopesState) -> None:
        """Take a state."""
        self._parts = list(state.parts)
        self._take_numbers(list(state.numbers))

    def _take_numbers(self, by_part: list[IntArray]) -> None:
        self._numbers = by_part
        # Of all planes, ascending
        self.numbers: IntArray = np.concatenate([*by_part, np.empty(0, np.int64)])

    def append(self, first: int, slopes: Array3) -> None:
        """Add planes with numbers from ``first``; slopes are (planes, features, C)."""
        self._parts.append(slopes)
        new = np.arange(first, first + len(slopes))
        self._take_numbers([*self._numbers, new])

    def of_planes(self, kept: BoolArray) -> Slopes:
        """Return the slopes of some planes."""
        own = Slopes(*self._empty.shape)
        if len(kept):
            own._parts = [self.matrix()[kept]]
            own._take_numbers([self.numbers[kept]])
        return own

    def keep(self, numbers: IntArray) -> None:
        """Forget all planes but these."""
        kept = [np.isin(own, numbers) for own in self._numbers]
        zipped = list(zip(self._parts, self._numbers, kept, strict=True))
        self._parts = [p if k.all() else p[k] for p, _, k in zipped if k.any()]
        self._take_numbers([n[k] for _, n, k in zipped if k.any()])

    def combine(self, plane_weights: FloatArray) -> FloatArray:
        """Return Σ_s b_s σ_s, (features, outputs); one addition per plane, in order."""
        mixed: FloatArray = self.combine_each(plane_weights[None])[0]
        return mixed

    def combine_each(self, plane_weights: Array3) -> Array3:
        """Return the same for several mixtures, (mixtures, features, outputs)."""
        weights = np.ascontiguousarray(plane_weights)
        totals = np.zeros((len(weights), *self._empty.shape))
        first = 0
        for part in self._parts:
            add_weighted(part, weights, first, totals)
            first += len(part)
        return totals

    def products(self, n_new: int, counted: BoolArray | slice) -> Array3:
        """Return σ·σ' of the newest planes with all, over some of the features."""
        newest = self.matrix(n_new)[:, counted]
        columns = [
            [
                newest[:, :, c] @ part[:, counted, c].T
                for c in range(self._empty.shape[1])
            ]
            for part in self._parts
        ]
        return np.concatenate([np.stack(c, axis=-1) for c in columns], axis=1)

    def matrix(self, n_newest: int | None = None) -> Array3:
        """Return the slopes of all planes, or of the newest, as one array."""
        if n_newest is not None and len(self._parts[-1]) == n_newest:
            return self._parts[-1]
        if n_newest is None and len(self._parts) == 1:
            return self._parts[0]
        whole = np.concatenate(self._parts)
        return whole if n_newest is None else whole[len(whole) - n_newest :]


def by_plane(columns: FloatArray, n_outputs: int) -> FloatArray:
    """Return (items, planes * outputs) as (planes, items, outputs)."""
    n_items, width = columns.shape  # of which the first may be 0
    apart = columns.reshape(n_items, width // n_outputs, n_outputs)
    return np.ascontiguousarray(apart.transpose(1, 0, 2))

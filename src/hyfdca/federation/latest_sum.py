"""Sums over the last participants, for methods that keep no old parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyfdca.federation.sums import RunningSum, StoredVector, VectorLayout, taken_by_each
from hyfdca.protocol.messages import Sealed, Sums


@dataclass(frozen=True, repr=False)
class LatestSumState:
    """What a checkpoint keeps of a latest sum."""

    totals: dict[int, StoredVector]


class LatestSum:
    """A sum over the last participants, unit by unit.

    A unit without a holder among them keeps its sum, as FedAvg's server keeps the
    weights of features that no active client holds.
    """

    def __init__(self, layout: VectorLayout) -> None:
        self._layout, self._axis, self._adder = layout, layout.axis, layout.adder
        self._totals: dict[int, Any] = {}
        self._taken: dict[int, Sums] = {}  # by place: many clients have the same items

    def state(self) -> LatestSumState:
        """Return what a checkpoint keeps."""
        return LatestSumState(self._totals)

    def restore(self, state: LatestSumState) -> None:
        """Take a state."""
        self._totals, self._taken = dict(state.totals), {}

    def update(self, parts: Mapping[int, Sealed]) -> None:
        """Replace the sum wherever one of these clients holds something."""
        self._taken = {}
        fresh = RunningSum(self._layout)
        fresh.add_all(parts)
        new = fresh.state().totals
        is_held = np.zeros(self._axis.n_items, np.bool_)
        for client in parts:
            is_held[self._axis.places[client]] = True
        units = np.flatnonzero(is_held)
        if len(units) == np.count_nonzero(self._axis.counts):
            self._totals = new
            return
        adder, shape = self._adder, (len(units), self._layout.width)
        for bits in {**self._totals, **new}:
            total = self._totals.get(bits)
            if total is None:
                total = adder.zeros((self._axis.n_items, self._layout.width))
                self._totals[bits] = total
            part = adder.take(new[bits], units) if bits in new else adder.zeros(shape)
            adder.put(total, units, part)

    def take(self, client: int) -> Sums:
        """Return the sum at a client's units, and at no others."""
        own = taken_by_each(
            self._axis, self._adder, self._totals, [client], self._taken
        )
        return own[client]

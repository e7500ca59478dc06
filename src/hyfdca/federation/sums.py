"""Sums over holders, by sample or by feature, as the server keeps them: sealed.

A sum may stand on several grids at once (a client that has been away since the grid
was made coarser still counts with its old part); it then travels as one vector a grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement, BlockMap
from hyfdca.crypto.schemes.base import UNLIMITED, Adder, Sealer
from hyfdca.crypto.schemes.fixedpoint import decode
from hyfdca.crypto.schemes.plain import PlainSealer
from hyfdca.holdings.axis import Axis
from hyfdca.protocol.checkpoint import Kept
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Sealed, Sums

EVERYWHERE = slice(None)


class RunningSum(Kept):
    """A sum that only grows: changes of duals, or parts that come once each."""

    kept: ClassVar[tuple[str, ...]] = ("_totals", "_n_summands")

    def __init__(self, space: Space) -> None:
        self._space, self._axis, self._adder = space, space.axis, space.adder
        self._totals: dict[int, Any] = {}
        self._n_summands = np.zeros(space.axis.n_items, np.int64)
        self._wears = space.adder.capacity < UNLIMITED

    def add(self, client: int, part: Sealed, positions: IntArray | None) -> None:
        """Add a client's part at its positions (none: all it holds)."""
        units = self._space.units(client, positions)
        where = _places(self._axis, client, units)
        shape = (_size(self._axis, client, units), self._space.width)
        vector = load(self._adder, part, shape)
        self._adder.add(self._total(part.fraction_bits), where, vector)
        if self._wears:
            self._n_summands[where] += 1

    @property
    def is_worn(self) -> bool:
        """Whether more was added somewhere than the scheme takes in the long run."""
        return self._wears and self._n_summands.max() >= self._adder.capacity

    def replace(
        self, client: int, anew: Sequence[Sealed], positions: IntArray | None
    ) -> None:
        """Take the same numbers, sealed anew, at a client's positions."""
        if [part.fraction_bits for part in anew] != list(self._totals):
            raise RemoteProtocolError("what is sealed anew stands on other grids")
        units = self._space.units(client, positions)
        where = _places(self._axis, client, units)
        shape = (_size(self._axis, client, units), self._space.width)
        vectors = [load(self._adder, part, shape) for part in anew]
        for total, vector in zip(self._totals.values(), vectors, strict=True):
            self._adder.put(total, where, vector)
        self._n_summands[where] = 1

    def _total(self, fraction_bits: int) -> Any:
        if fraction_bits not in self._totals:
            shape = (self._axis.n_items, self._space.width)
            self._totals[fraction_bits] = self._adder.zeros(shape)
        return self._totals[fraction_bits]

    def take(self, client: int, positions: IntArray | None) -> Sums:
        """Return the sum at a client's positions, and at no others."""
        where = _places(self._axis, client, self._space.units(client, positions))
        return [
            Sealed(bits, self._adder.dump(self._adder.take(total, where)))
            for bits, total in self._totals.items()
        ]

    def take_all(self) -> Sums:
        """Return the sum over the whole axis, for those who may see it."""
        return [Sealed(b, self._adder.dump(t)) for b, t in self._totals.items()]


class CachedSum(Kept):
    """A sum over holders of each client's latest part.

    The parts of absent clients stay, as the paper's ip_{k,i} and ŵ_{0,k,m} do.
    """

    kept: ClassVar[tuple[str, ...]] = ("_parts", "_borrowed")
    passing: ClassVar[tuple[str, ...]] = ("_totals", "_taken")

    def __init__(self, space: Space) -> None:
        self._space, self._axis, self._adder = space, space.axis, space.adder
        self._parts: dict[int, tuple[int, Any]] = {}
        self._borrowed: set[int] = set()  # whose part is the message it came in
        self._totals: dict[int, Any] | None = None
        self._taken: dict[int, Sums] = {}  # by where: many clients have the same items

    def put_back(self, values: Mapping[str, Any]) -> None:
        """Take a state; what was added up of another is forgotten."""
        super().put_back(values)
        self._totals, self._taken = None, {}

    def fraction_bits(self, client: int) -> int | None:
        """Return the grid of a client's part, or none if there is no part."""
        part = self._parts.get(client)
        return part[0] if part else None

    def put(self, client: int, part: Sealed, positions: IntArray | None = None) -> None:
        """Replace a client's part (at some positions; none: all)."""
        self._totals, self._taken = None, {}
        units = self._space.units(client, positions)
        shape = (_size(self._axis, client, units), self._space.width)
        vector = load(self._adder, part, shape)
        if units is None:
            self._parts[client] = (part.fraction_bits, vector)
            self._borrowed.add(client)
            return
        bits, held = self._parts.get(client, (part.fraction_bits, None))
        if bits != part.fraction_bits:
            raise RemoteProtocolError("a part on two grids cannot be added")
        if held is None or client in self._borrowed:
            held = self._own_copy(client, held)
            self._parts[client] = (bits, held)
            self._borrowed.discard(client)
        self._adder.put(held, units, vector)

    def _own_copy(self, client: int, held: Any) -> Any:
        """Return a part that may be changed, which a received message may not."""
        copy = self._adder.zeros((len(self._axis.items[client]), self._space.width))
        if held is not None:
            self._adder.add(copy, EVERYWHERE, held)
        return copy

    def take(self, client: int, positions: IntArray | None = None) -> Sums:
        """Return the sum at a client's positions, and at no others.

        With positions the cost follows their number.
        """
        units = self._space.units(client, positions)
        if units is not None:
            return self._dumped(self._some(self._axis.items[client][units]))
        where = self._axis.places[client]
        if id(where) not in self._taken:
            totals = {b: self._adder.take(t, where) for b, t in self._all().items()}
            self._taken[id(where)] = self._dumped(totals)
        return self._taken[id(where)]

    def _dumped(self, totals: dict[int, Any]) -> Sums:
        return [Sealed(bits, self._adder.dump(total)) for bits, total in totals.items()]

    def take_all(self) -> Sums:
        """Return the sum over the whole axis, for those who may see it."""
        return [Sealed(b, self._adder.dump(t)) for b, t in self._all().items()]

    def _all(self) -> dict[int, Any]:
        if self._totals is None:
            self._totals = {}
            for (_, bits), clients in self._alike().items():
                total = self._level(self._totals, bits, self._axis.n_items)
                together = self._parts[clients[0]][1]
                if len(clients) > 1:
                    size = len(self._axis.items[clients[0]])
                    together = self._adder.zeros((size, self._space.width))
                    for client in clients:
                        self._adder.add(together, EVERYWHERE, self._parts[client][1])
                self._adder.add(total, self._axis.places[clients[0]], together)
        return self._totals

    def _alike(self) -> dict[tuple[int, int], list[int]]:
        """Return clients by the items they have and the grid of their parts.

        Those with the very same items are added up in a row, which is fast.
        """
        alike: dict[tuple[int, int], list[int]] = {}
        for client, (bits, _) in sorted(self._parts.items()):
            alike.setdefault((id(self._axis.places[client]), bits), []).append(client)
        return alike

    def _some(self, items: IntArray) -> dict[int, Any]:
        which, clients, positions = self._axis.holders_of(items)
        totals: dict[int, Any] = {}
        for client in np.unique(clients).tolist():
            if client in self._parts:
                bits, vector = self._parts[client]
                of_client = clients == client
                total = self._level(totals, bits, len(items))
                part = self._adder.take(vector, positions[of_client])
                self._adder.add(total, which[of_client], part)
        return totals

    def _level(self, totals: dict[int, Any], bits: int, size: int) -> Any:
        if bits not in totals:
            totals[bits] = self._adder.zeros((size, self._space.width))
        return totals[bits]


def sum_of(parts: list[Sealed], count: int, adder: Adder) -> Sums:
    """Add up vectors of so many numbers that every sender has in full: totals."""
    if len({part.fraction_bits for part in parts}) != 1:
        raise RemoteProtocolError("parts of one sum stand on different grids")
    everybody = Axis(1, (np.zeros(1, np.int64),))
    total = RunningSum(space_of(everybody, np.zeros(1, np.int64), count, adder))
    for part in parts:
        total.add(0, part, None)
    return total.take_all()


def open_sum(
    sums: Sums,
    width: int,
    sealer: Sealer,
    arrangement: Arrangement,
    items: IntArray | None = None,
) -> FloatArray:
    """Return the reals of a sum over holders; an empty sum is zero."""
    try:
        parts = [
            decode(
                sealer.open(vector.payload, width, arrangement, items),
                vector.fraction_bits,
            )
            for vector in sums
        ]
    except ValueError as error:
        raise RemoteProtocolError(f"a sum does not open: {error}") from None
    n_items = arrangement.n_items if items is None else len(items)
    return reduce(np.add, parts) if parts else np.zeros((n_items, width))


def read_sum(sums: Sums, shape: tuple[int, int]) -> FloatArray:
    """Return the reals of a sum that is not sealed."""
    return open_sum(sums, shape[1], PlainSealer(), Arrangement.together(shape[0]))


def load(adder: Adder, part: Sealed, shape: tuple[int, int]) -> Any:
    """Return the sealed vector of a message, checked."""
    try:
        return adder.load(part.payload, shape)
    except ValueError as error:
        raise RemoteProtocolError(f"a sealed vector does not load: {error}") from None


def _places(axis: Axis, client: int, positions: IntArray | None) -> Any:
    if positions is None:
        return axis.places[client]
    return axis.items[client][positions]


def _size(axis: Axis, client: int, positions: IntArray | None) -> int:
    return len(axis.items[client]) if positions is None else len(positions)


@dataclass(frozen=True)
class Space:
    """A kind of vector: who has which units of it, and what adds them.

    Parameters
    ----------
    axis : Axis
        The units: the items, or blocks of them.
    width : int
        Numbers of a unit that is an item; 1 for a block.
    """

    axis: Axis
    width: int
    adder: Adder
    _items: Axis
    _blocks: BlockMap | None = None

    def units(self, client: int, positions: IntArray | None) -> IntArray | None:
        """Return the client's units that have its items at these positions."""
        if positions is None or self._blocks is None:
            return positions
        covering = self._blocks.covering(self._items.items[client][positions])
        return np.searchsorted(self.axis.items[client], covering)


def space_of(axis: Axis, groups: IntArray, width: int, adder: Adder) -> Space:
    """Return the space for so many numbers an item.

    Parameters
    ----------
    groups : array (items,)
        The owner group of each item.
    """
    if adder.n_slots is None:
        return Space(axis, width, adder, axis)
    blocks = Arrangement(groups).blocks(width, adder.n_slots)
    # Clients with the very same items keep the very same blocks.
    held = {id(items): blocks.covering(items) for items in axis.items}
    units = Axis(blocks.n_blocks, tuple(held[id(items)] for items in axis.items))
    return Space(units, 1, adder, axis, blocks)

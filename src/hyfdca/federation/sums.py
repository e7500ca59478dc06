"""Sums over holders, by sample or by feature, as the server keeps them: sealed.

A sum may be on several grids at once: a client that has been away since the grid was
made coarser still counts with its old part. It then travels as one vector per grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.arrangement import Arrangement, BlockMap
from hyfdca.crypto.schemes.base import UNLIMITED, Adder
from hyfdca.crypto.schemes.blocks import Blocks
from hyfdca.crypto.schemes.fixedpoint import decode
from hyfdca.crypto.schemes.plain import PlainAdder
from hyfdca.crypto.schemes.stream_sums import Padded
from hyfdca.federation.check_items import CheckItems, with_check_items
from hyfdca.holdings.axis import Axis
from hyfdca.protocol.messages import Sealed, Sums
from hyfdca.protocol.server_session import BadReplyError

EVERYWHERE = slice(None)
OTHER_GRID = "it answers on another grid"
UNREADABLE = (ValueError, ArithmeticError)  # raised if a sealed vector does not load


# A sealed vector as the server stores it, in the form of its scheme.
StoredVector = IntArray | Blocks | Padded


@dataclass(frozen=True)
class VectorLayout:
    """How the server stores one kind of vector: by item, or by block.

    Packed schemes add whole blocks. A block has items of one owner group, so it has the
    holders of its items, and the blocks are an axis like the samples or features are.

    Parameters
    ----------
    axis : Axis
        The units: the items, or blocks of them.
    width : int
        Numbers in a unit that is an item; 1 for a block.
    """

    axis: Axis
    width: int
    adder: Adder
    _items: Axis
    _blocks: BlockMap | None = None
    _checks: CheckItems | None = None

    def units(self, client: int, positions: IntArray | None) -> IntArray | None:
        """Return the client's units that have its items at these positions.

        The check rows of their owner groups come with them.
        """
        if positions is None:
            return None
        if self._checks is not None:
            positions = self._checks.with_checks(client, positions)
        if self._blocks is None:
            return positions
        covering = self._blocks.covering(self._items.items[client][positions])
        return np.searchsorted(self.axis.items[client], covering)

    def where(
        self, client: int, positions: IntArray | None
    ) -> tuple[Any, tuple[int, int]]:
        """Return the places of a client's units on the axis, and its vector's shape."""
        units = self.units(client, positions)
        items = self.axis.items[client]
        if units is None:
            return self.axis.places[client], (len(items), self.width)
        return items[units], (len(units), self.width)


def layout_for(axis: Axis, groups: IntArray, width: int, adder: Adder) -> VectorLayout:
    """Return the layout of vectors with ``width`` numbers per item.

    Parameters
    ----------
    groups : array (items,)
        The owner group of each item.
    """
    if adder.n_slots is None:
        return VectorLayout(axis, width, adder, axis)
    blocks = Arrangement(groups).blocks(width, adder.n_slots)
    # Clients with identical items keep identical blocks.
    held = {id(items): blocks.covering(items) for items in axis.items}
    units = Axis(blocks.n_blocks, tuple(held[id(items)] for items in axis.items))
    return VectorLayout(units, 1, adder, axis, blocks)


def checked_layout(checks: CheckItems, width: int, adder: Adder) -> VectorLayout:
    """Return the layout of vectors that have check rows."""
    layout = layout_for(checks.axis, checks.groups, width, adder)
    return replace(layout, _checks=checks)


def whole_layout(
    axis: Axis, groups: IntArray, width: int, adder: Adder
) -> VectorLayout:
    """Return the layout of vectors whose owner groups stay whole.

    They have check rows, unless the server reads their numbers.
    """
    if isinstance(adder, PlainAdder):
        return layout_for(axis, groups, width, adder)
    return checked_layout(with_check_items(axis, groups), width, adder)


@dataclass(frozen=True, repr=False)
class RunningSumState:
    """What a checkpoint keeps of a running sum."""

    totals: dict[int, StoredVector]
    n_summands: IntArray


class RunningSum:
    """A sum that only grows: changes of duals, or parts that come once each."""

    def __init__(self, layout: VectorLayout) -> None:
        self._layout, self._axis, self._adder = layout, layout.axis, layout.adder
        self._totals: dict[int, Any] = {}
        self._n_summands = np.zeros(layout.axis.n_items, np.int64)
        self._wears = layout.adder.capacity < UNLIMITED

    def state(self) -> RunningSumState:
        """Return what a checkpoint keeps."""
        return RunningSumState(self._totals, self._n_summands)

    def restore(self, state: RunningSumState) -> None:
        """Take a state."""
        self._totals, self._n_summands = dict(state.totals), state.n_summands

    def add(self, client: int, part: Sealed, positions: IntArray | None) -> None:
        """Add a client's part at its positions (None: all it holds)."""
        self._add({client: part}, [self._layout.where(client, positions)])

    def add_all(self, parts: Mapping[int, Sealed]) -> None:
        """Add a part of each of some clients, of all that it holds."""
        self._add(parts, [self._layout.where(client, None) for client in parts])

    def _add(
        self, parts: Mapping[int, Sealed], wheres: Sequence[tuple[Any, tuple[int, int]]]
    ) -> None:
        adder, shape = self._adder, (self._axis.n_items, self._layout.width)
        for (client, part), (where, own) in zip(parts.items(), wheres, strict=True):
            try:
                vector = adder.load(part.payload, own)
            except UNREADABLE as error:
                raise unreadable(client, error) from None
            total = self._totals.get(part.fraction_bits)
            if total is None:
                total = self._totals[part.fraction_bits] = adder.zeros(shape)
            adder.add(total, where, vector)
            if self._wears:
                self._n_summands[where] += 1

    @property
    def is_worn(self) -> bool:
        """Whether some unit has more summands than the scheme allows for long."""
        return self._wears and self._n_summands.max() >= self._adder.capacity

    def replace(
        self, client: int, again: Sequence[Sealed], positions: IntArray | None
    ) -> None:
        """Take the same numbers, resealed, at a client's positions."""
        where, shape = self._layout.where(client, positions)
        if [part.fraction_bits for part in again] != list(self._totals):
            reason = "resealed numbers are on other grids"
            raise BadReplyError("", client, reason)
        try:
            vectors = [self._adder.load(part.payload, shape) for part in again]
        except UNREADABLE as error:
            raise unreadable(client, error) from None
        for total, vector in zip(self._totals.values(), vectors, strict=True):
            self._adder.put(total, where, vector)
        self._n_summands[where] = 1

    def take(self, client: int, positions: IntArray | None) -> Sums:
        """Return the sum at a client's positions, and at no others."""
        where, _ = self._layout.where(client, positions)
        return [
            Sealed(bits, self._adder.dump(self._adder.take(total, where)))
            for bits, total in self._totals.items()
        ]

    def take_each(self, clients: Iterable[int]) -> dict[int, Sums]:
        """Return the sum at all items of each client; the same items are read once."""
        return taken_by_each(self._axis, self._adder, self._totals, clients, {})

    def take_all(self) -> Sums:
        """Return the sum over the whole axis, for those who may see it."""
        return [Sealed(b, self._adder.dump(t)) for b, t in self._totals.items()]

    def read(self) -> FloatArray:
        """Return the reals of a sum that is not sealed."""
        if not self._totals:
            return np.zeros((self._axis.n_items, self._layout.width))
        return reduce(np.add, [decode(t, bits) for bits, t in self._totals.items()])


@dataclass(frozen=True, repr=False)
class CachedSumState:
    """What a checkpoint keeps of a cached sum: parts with their grids, by client."""

    parts: dict[int, tuple[int, StoredVector]]
    borrowed: set[int]


class CachedSum:
    """A sum over holders of each client's latest part.

    The parts of absent clients stay, as the paper's ip_{k,i} and ŵ_{0,k,m} do.
    """

    def __init__(self, layout: VectorLayout) -> None:
        self._layout, self._axis, self._adder = layout, layout.axis, layout.adder
        self._parts: dict[int, tuple[int, Any]] = {}
        self._borrowed: set[int] = set()  # whose part is the message it came in
        self._totals: dict[int, Any] | None = None
        self._taken: dict[int, Sums] = {}  # by place: many clients have the same items

    def state(self) -> CachedSumState:
        """Return what a checkpoint keeps."""
        return CachedSumState(self._parts, self._borrowed)

    def restore(self, state: CachedSumState) -> None:
        """Take a state; totals of another one are forgotten."""
        self._parts, self._borrowed = dict(state.parts), set(state.borrowed)
        self._totals, self._taken = None, {}

    def fraction_bits(self, client: int) -> int | None:
        """Return the grid of a client's part, or none if there is no part."""
        part = self._parts.get(client)
        return part[0] if part else None

    def update(self, parts: Mapping[int, Sealed]) -> None:
        """Replace the parts of some clients."""
        self._totals, self._taken = None, {}
        items, width = self._axis.items, self._layout.width
        for client, part in parts.items():
            try:
                vector = self._adder.load(part.payload, (len(items[client]), width))
            except UNREADABLE as error:
                raise unreadable(client, error) from None
            self._parts[client] = (part.fraction_bits, vector)
            self._borrowed.add(client)

    def put(self, client: int, part: Sealed, positions: IntArray | None = None) -> None:
        """Replace a client's part (at some positions; None: all)."""
        units = self._layout.units(client, positions)
        if units is None:
            self.update({client: part})
            return
        self._totals, self._taken = None, {}
        try:
            vector = self._adder.load(part.payload, (len(units), self._layout.width))
        except UNREADABLE as error:
            raise unreadable(client, error) from None
        bits, held = self._parts.get(client, (part.fraction_bits, None))
        if bits != part.fraction_bits:
            raise BadReplyError("", client, "a part on two grids cannot be added")
        if held is None or client in self._borrowed:
            held = self._own_copy(client, held)
            self._parts[client] = (bits, held)
            self._borrowed.discard(client)
        self._adder.put(held, units, vector)

    def _own_copy(self, client: int, held: Any) -> Any:
        """Return a part that may be changed, which a received message may not."""
        copy = self._adder.zeros((len(self._axis.items[client]), self._layout.width))
        if held is not None:
            self._adder.add(copy, EVERYWHERE, held)
        return copy

    def take(self, client: int, positions: IntArray | None = None) -> Sums:
        """Return the sum at a client's positions, and at no others.

        With positions the cost follows their number.
        """
        if positions is not None:
            units = self._layout.units(client, positions)
            some = self._some(self._axis.items[client][units])
            return [Sealed(b, self._adder.dump(t)) for b, t in some.items()]
        return self.take_each([client])[client]

    def take_each(self, clients: Iterable[int]) -> dict[int, Sums]:
        """Return the sum at all items of each client; the same items are read once."""
        if self._totals is None and (separate := self._separate()):
            return {client: self._taken_alone(client, separate) for client in clients}
        return taken_by_each(self._axis, self._adder, self._all(), clients, self._taken)

    def _separate(self) -> dict[int, tuple[int, list[int]]]:
        """Return grid and senders of the sum at each place, if places do not overlap.

        Then nothing is gained by putting the sums side by side, which are large. Such
        a sum is sent with as many contributors per item as the largest has. So it
        returns none where places have different numbers of contributors.
        """
        axis, alike = self._axis, self._alike()
        n_places = len(set(map(id, axis.places)))
        if not axis.is_separate or len(alike) < n_places or not self._are_received:
            return {}
        if len({(bits, len(own)) for (_, bits), own in alike.items()}) > 1:
            return {}
        return {place: (bits, own) for (place, bits), own in alike.items()}

    @property
    def _are_received(self) -> bool:
        """Whether all parts are as they came, as a whole."""
        return self._borrowed.issuperset(self._parts)

    def _taken_alone(
        self, client: int, separate: Mapping[int, tuple[int, list[int]]]
    ) -> Sums:
        """Return the sum at all items of a client, which no other place overlaps."""
        place = id(self._axis.places[client])
        if place not in self._taken:
            bits, senders = separate[place]
            payload = self._adder.dump(self._together(senders))
            self._taken[place] = [Sealed(bits, payload)]
        return self._taken[place]

    def take_all(self) -> Sums:
        """Return the sum over the whole axis, for those who may see it."""
        return [Sealed(b, self._adder.dump(t)) for b, t in self._all().items()]

    def _all(self) -> dict[int, Any]:
        if self._totals is None:
            self._totals = {}
            for (_, bits), clients in self._alike().items():
                total = self._level(self._totals, bits, self._axis.n_items)
                where = self._axis.places[clients[0]]
                self._adder.add(total, where, self._together(clients))
        return self._totals

    def _together(self, clients: Sequence[int]) -> Any:
        """Return the sum of the parts of clients with identical items."""
        if len(clients) == 1:
            return self._parts[clients[0]][1]
        size = len(self._axis.items[clients[0]])
        together = self._adder.zeros((size, self._layout.width))
        for client in clients:
            self._adder.add(together, EVERYWHERE, self._parts[client][1])
        return together

    def _alike(self) -> dict[tuple[int, int], list[int]]:
        """Return clients by the items they have and the grid of their parts.

        Those with identical items are added up in a row, which is fast.
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
            totals[bits] = self._adder.zeros((size, self._layout.width))
        return totals[bits]


def taken_by_each(
    axis: Axis,
    adder: Adder,
    totals: Mapping[int, Any],
    clients: Iterable[int],
    known: dict[int, Sums],
) -> dict[int, Sums]:
    """Return the sum at all items of each client; adds to what is known by place."""
    sums = {}
    for client in clients:
        where = axis.places[client]
        if id(where) not in known:
            known[id(where)] = [
                Sealed(bits, adder.dump(adder.take(total, where)))
                for bits, total in totals.items()
            ]
        sums[client] = known[id(where)]
    return sums


def unreadable(client: int, error: Exception) -> BadReplyError:
    """Return the error that blames a client for a vector that does not load."""
    reason = str(error)
    if isinstance(error, ValueError):
        reason = f"a sealed vector does not load: {error}"
    return BadReplyError("", client, reason)


def check_grid(client: int, part: Sealed, fraction_bits: int) -> None:
    """Refuse a client's part that is not on the grid that it was asked for."""
    if part.fraction_bits != fraction_bits:
        raise BadReplyError("", client, OTHER_GRID)

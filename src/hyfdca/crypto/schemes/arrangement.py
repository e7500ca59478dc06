"""Where the numbers of a vector are in its sealed form.

The items of a vector (samples, features, totals) have *owner groups*: those of a group
are held by exactly the same clients. All holders have the items of a group in the same
order, so a place is a group and a rank in it, and no client learns of other groups.
Packed schemes fill blocks with the numbers of one group only: the receiver of a block
can read every slot of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hyfdca.arrays import IntArray

_LARGEST_GROUP = 2**31 - 1


class Arrangement:
    """The items of a client's vector, or of all clients', by their owner groups."""

    def __init__(self, groups: IntArray) -> None:
        self.groups = groups
        self._blocks: dict[tuple[int, int], BlockMap] = {}

    @classmethod
    def together(cls, n_items: int) -> Arrangement:
        """Return items that everybody has, such as totals."""
        return cls(np.zeros(n_items, np.int64))

    @classmethod
    def apart(cls, n_items: int) -> Arrangement:
        """Return items that each form a group."""
        return cls(np.arange(n_items))

    def restricted(self, items: IntArray) -> Arrangement:
        """Return some items as a vector of their own."""
        return Arrangement(self.groups[items])

    @cached_property
    def with_checks(self) -> Arrangement:
        """The same items, and after them one more for each group.

        Groups are in the order of their first items, in which all holders have them.
        """
        return Arrangement(np.concatenate([self.groups, self.groups[self.first]]))

    @cached_property
    def first(self) -> IntArray:
        """The first item of each group, ascending."""
        return np.sort(self._first_by_group)

    @cached_property
    def appearing(self) -> IntArray:
        """The places of the distinct groups, in the order of their first items."""
        return np.argsort(self._first_by_group)

    @property
    def _first_by_group(self) -> IntArray:
        first: IntArray = self.order[np.cumsum(self.sizes) - self.sizes]
        return first

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.groups)

    @cached_property
    def _all_sorted(self) -> tuple[IntArray, IntArray, IntArray]:
        return _sorted(self.groups)

    @cached_property
    def ranks(self) -> IntArray:
        """The place of each item in its group."""
        if len(self.sizes) <= 1:
            return self.order
        ranks = np.empty(self.n_items, np.int64)
        starts = np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        ranks[self.order] = np.arange(self.n_items) - starts
        return ranks

    @property
    def order(self) -> IntArray:
        """The items by group."""
        return self._all_sorted[0]

    @property
    def distinct(self) -> IntArray:
        """The groups, ascending."""
        return self._all_sorted[1]

    @property
    def sizes(self) -> IntArray:
        """How many items each distinct group has."""
        return self._all_sorted[2]

    def starts(self, sizes: IntArray) -> IntArray:
        """Return for each item where its group starts if groups have these sizes."""
        starts = np.cumsum(sizes) - sizes
        if len(sizes) <= 1:
            return np.zeros(self.n_items, np.int64)
        return starts[np.searchsorted(self.distinct, self.groups)]

    def by_group(self, items: IntArray | None) -> Sorting:
        """Return these items sorted by group."""
        found = self._all_sorted if items is None else _sorted(self.groups[items])
        return Sorting(found[0], found[1].tolist(), found[2].tolist())

    def blocks(self, width: int, n_slots: int) -> BlockMap:
        """Return the blocks for ``width`` numbers per item."""
        key = (width, n_slots)
        if key not in self._blocks:
            self._blocks[key] = BlockMap(self, width, n_slots)
        return self._blocks[key]


class Sorting(NamedTuple):
    """Items by group: their order, the groups, and how many items each has."""

    order: IntArray
    groups: list[int]
    sizes: list[int]


def _sorted(groups: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the items by group, the distinct groups, and how many items each has."""
    n_items = len(groups)
    if not n_items or groups.min() == groups.max():
        return np.arange(n_items), groups[:1], np.array([n_items][:n_items], np.int64)
    found, sizes = np.unique(groups, return_counts=True)
    # Numbers of 16 bits are sorted in linear time.
    places = np.searchsorted(found, groups).astype(np.min_scalar_type(len(found)))
    return np.argsort(places, kind="stable"), found, sizes


def opaque_groups(groups: IntArray, secret: bytes, name: str) -> IntArray:
    """Return groups under numbers that reveal nothing about their order or count.

    They come from a secret of the server, not from the study's seed, which clients
    know. Repeating a set-up with the same secret gives the same numbers.

    Parameters
    ----------
    name : str
        The kind of the groups; other kinds get other numbers.
    """
    numbers, inverse = np.unique(groups, return_inverse=True)
    source = hashlib.shake_256(secret + name.encode())
    n_words = len(numbers)
    drawn = np.empty(0, np.int64)
    while len(drawn) < len(numbers):
        words = np.frombuffer(source.digest(8 * n_words), "<i8") & _LARGEST_GROUP
        first = np.unique(words, return_index=True)[1]
        drawn = words[np.sort(first)]  # each once, in the order drawn
        n_words *= 2
    return drawn[: len(numbers)][inverse]


@dataclass(frozen=True)
class BlockMap:
    """Which numbers are in which slot of which block, groups never in one block."""

    arrangement: Arrangement
    width: int
    n_slots: int

    @cached_property
    def _of_groups(self) -> IntArray:
        """How many blocks each group has."""
        return -(-self.arrangement.sizes * self.width // self.n_slots)

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return int(self._of_groups.sum())

    @cached_property
    def first(self) -> IntArray:
        """The slot of each item's first number, counted over all blocks."""
        arrangement = self.arrangement
        starts = arrangement.starts(self._of_groups) * self.n_slots
        return starts + arrangement.ranks * self.width

    @cached_property
    def is_one_run(self) -> bool:
        """Whether the numbers are in their slots as they are in the vector."""
        return len(self._of_groups) <= 1

    def groups_of(self, blocks: IntArray) -> IntArray:
        """Return the owner group of each of these blocks."""
        return np.repeat(self.arrangement.distinct, self._of_groups)[blocks]

    def covering(self, items: IntArray | None) -> IntArray:
        """Return the blocks with numbers of these items, ascending."""
        if items is None:
            return np.arange(self.n_blocks)
        starts = self.first[items]
        last = (starts + self.width - 1) // self.n_slots
        n_between = (self.width - 1) // self.n_slots  # blocks that a wide item fills
        reached = [starts // self.n_slots + j for j in range(n_between + 1)]
        return np.unique(np.concatenate([*reached, last]))

    def fill(
        self, numbers: IntArray, items: IntArray | None, rest: IntArray | None = None
    ) -> IntArray:
        """Return the covering blocks with these numbers, (blocks, slots).

        The other slots of these blocks have zeros, or the ``rest``: a vector of all
        items that already includes the numbers.
        """
        if items is None and self.is_one_run:
            filled = np.empty((self.n_blocks, self.n_slots), np.int64)
            flat = filled.reshape(-1)
            flat[: numbers.size], flat[numbers.size :] = numbers.reshape(-1), 0
            return filled
        blocks = self.covering(items)
        filled = np.zeros((len(blocks), self.n_slots), np.int64)
        if rest is not None:
            places = self._contents[blocks]
            filled[places >= 0] = rest.reshape(-1)[places[places >= 0]]
        else:
            filled.reshape(-1)[self._slots(items, blocks)] = numbers
        return filled

    def read(self, filled: IntArray, items: IntArray | None) -> IntArray:
        """Return the numbers of these items, (items, width), from covering blocks."""
        if items is None and self.is_one_run:
            size = self.arrangement.n_items * self.width
            return filled.reshape(-1)[:size].reshape(-1, self.width)
        numbers: IntArray = filled.reshape(-1)[self._slots(items, self.covering(items))]
        return numbers

    def _slots(self, items: IntArray | None, blocks: IntArray) -> IntArray:
        """Return the places of items' numbers among these blocks, (items, width)."""
        starts = self.first if items is None else self.first[items]
        slots = starts[:, None] + np.arange(self.width)
        if items is None:
            return slots
        places = np.searchsorted(blocks, slots // self.n_slots)
        return places * self.n_slots + slots % self.n_slots

    @cached_property
    def _contents(self) -> IntArray:
        """The place in the vector of each slot's number, (blocks, slots), or -1."""
        contents = np.full(self.n_blocks * self.n_slots, -1)
        n_numbers = self.arrangement.n_items * self.width
        contents[self._slots(None, self.covering(None)).reshape(-1)] = np.arange(
            n_numbers
        )
        return contents.reshape(-1, self.n_slots)

"""The samples or the features of a table, and which clients hold each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class Axis:
    """The items (samples or features) of a table, and which clients hold each.

    ``items[k]`` are the sorted items of client k; a *position* is an index into it.
    """

    n_items: int
    items: tuple[IntArray, ...]

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray, IntArray]:
        """Where each item starts, and all (client, position) pairs by item, client."""
        sizes = [len(items) for items in self.items]
        every = np.concatenate([*self.items, np.empty(0, np.int64)])
        clients = np.repeat(np.arange(len(sizes)), sizes)
        positions = np.concatenate([np.arange(n) for n in [*sizes, 0]])
        order = np.argsort(every, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.counts)])
        return starts, clients[order], positions[order]

    @cached_property
    def counts(self) -> IntArray:
        """How many clients hold each item."""
        return self.counts_among(range(len(self.items)))

    @cached_property
    def places(self) -> tuple[slice | IntArray, ...]:
        """Where each client's items are on the axis: a slice if contiguous."""
        # Clients with identical items share one object, so sums are read once.
        places = {id(items): _as_slice(items) for items in self.items}
        return tuple(places[id(items)] for items in self.items)

    @cached_property
    def is_separate(self) -> bool:
        """Whether any two clients have either one object of items or none in common."""
        sizes = {id(items): len(items) for items in self.items}
        return sum(sizes.values()) == np.count_nonzero(self.counts)

    def positions_of(self, items: IntArray) -> dict[int, IntArray]:
        """Return the positions of ``items`` at each client that holds some of them.

        The cost grows with the number of ``items``, not with the size of the axis.
        """
        clients, positions = self.holders_of(items)[1:]
        order = np.lexsort((positions, clients))
        clients, positions = clients[order], positions[order]
        found, first = np.unique(clients, return_index=True)
        parts = np.split(positions, first)[1:]
        return dict(zip(found.tolist(), parts, strict=True))

    def holders_of(self, items: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return (index into ``items``, client, position) for every holder of each."""
        starts, clients, positions = self._pairs
        sizes = self.counts[items]
        which = np.repeat(np.arange(len(items)), sizes)
        within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        pairs = starts[items][which] + within
        return which, clients[pairs], positions[pairs]

    def counts_among(self, clients: Sequence[int]) -> IntArray:
        """Return how many of these clients hold each item."""
        held = [self.items[client] for client in clients]
        every = np.concatenate([*held, np.empty(0, np.int64)])
        return np.bincount(every, minlength=self.n_items)

    def expanded(self, widths: IntArray) -> Axis:
        """Return the axis on which each item is replaced by several items.

        Parameters
        ----------
        widths : array (n_items,)
            How many items replace each; 0 leaves it out.
        """
        starts = np.cumsum(widths) - widths
        # Clients with identical items keep identical ones.
        own = {id(i): spans(starts[i], widths[i]) for i in self.items}
        return Axis(int(widths.sum()), tuple(own[id(i)] for i in self.items))

    def first_holders(self, eligible: Sequence[bool]) -> IntArray:
        """Return each item's lowest-ranked eligible client, or -1."""
        first = np.full(self.n_items, -1)
        for client in reversed(range(len(self.items))):
            if eligible[client]:
                first[self.items[client]] = client
        return first


def owner_groups(axis: Axis) -> IntArray:
    """Return the owner group of each item, numbered in the order of the holders."""
    groups = np.zeros(axis.n_items, np.int64)
    n_groups = 1
    for items in axis.items:
        # The items of a group that the client holds become a separate group.
        numbers = renumbered(groups[items])
        groups[items] = n_groups + numbers
        n_groups += int(numbers.max(initial=-1)) + 1
    return renumbered(groups)


def spans(starts: IntArray, sizes: IntArray) -> IntArray:
    """Return the numbers of several spans, one span after the other."""
    before = np.cumsum(sizes) - sizes
    numbers: IntArray = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
    return numbers


def group_holders(axis: Axis, groups: IntArray) -> BoolArray:
    """Return which clients hold each owner group, (groups, clients)."""
    n_groups = int(groups.max(initial=-1)) + 1
    is_holder = np.zeros((n_groups, len(axis.items)), dtype=bool)
    for client, items in enumerate(axis.items):
        is_holder[groups[items], client] = True
    return is_holder


def shared_counts(axis: Axis) -> IntArray:
    """Return how many items each pair of clients has in common, (clients, clients)."""
    groups = owner_groups(axis)
    is_holder = group_holders(axis, groups)
    held = sp.csr_array(is_holder.astype(np.int64))
    sizes = sp.csr_array(is_holder * np.bincount(groups)[:, None])
    return np.asarray((held.T @ sizes).toarray(), dtype=np.int64)


def renumbered(numbers: IntArray) -> IntArray:
    """Return each number's rank among those that occur, in linear time."""
    places = np.cumsum(np.bincount(numbers) > 0) - 1
    return places[numbers]


def is_same_partition(first: IntArray, second: IntArray) -> bool:
    """Return whether two numberings put the same items together."""
    pairs = np.unique(np.stack([first, second]), axis=1).shape[1]
    return bool(pairs == len(np.unique(first)) == len(np.unique(second)))


def _as_slice(items: IntArray) -> slice | IntArray:
    if len(items) and items[-1] - items[0] == len(items) - 1:
        return slice(int(items[0]), int(items[-1]) + 1)
    return items

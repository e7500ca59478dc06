"""Rows that clients share, and how many columns the others add to their margins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.holdings.axis import Axis, group_holders, owner_groups
from hyfdca.holdings.layout import Layout


@dataclass(frozen=True)
class Exposure:
    """Rows whose margins a client may receive, and what others add to these margins.

    Parameters
    ----------
    others : tuple of int
        Who else holds the rows.
    n_columns : int
        How many columns the others count in them. The margins are known to be linear
        in this many cells per row.
    n_own : int
        How many of these columns the client has itself in these rows.
    """

    client: int
    others: tuple[int, ...]
    n_rows: int
    n_columns: int
    n_own: int = 0

    @property
    def has_unknown(self) -> bool:
        """Whether the client lacks any of these columns."""
        return self.n_own < self.n_columns


def has_nothing_to_find(layout: Layout) -> set[tuple[int, tuple[int, ...]]]:
    """Return clients and other holders of rows, whose columns it has all itself."""
    return {
        (one.client, one.others) for one in exposures(layout) if not one.has_unknown
    }


def exposures(layout: Layout) -> list[Exposure]:
    """Return the shared rows of all clients with labels, by their other holders."""
    groups = owner_groups(layout.samples)
    sizes = np.bincount(groups)
    found: list[Exposure] = []
    for group, is_holder in enumerate(group_holders(layout.samples, groups)):
        holders = np.flatnonzero(is_holder).tolist()
        found += _of_group(layout, holders, int(sizes[group]))
    return sorted(found, key=lambda one: (one.client, -one.n_rows, one.others))


def _of_group(layout: Layout, holders: list[int], n_rows: int) -> Iterator[Exposure]:
    first = _first_holders(layout.features, holders)
    for client in holders:
        others = tuple(other for other in holders if other != client)
        if others and layout.labelled[client]:
            by_others = np.isin(first, others)
            n_own = int(np.sum(by_others[layout.features.items[client]]))
            yield Exposure(client, others, n_rows, int(by_others.sum()), n_own)


def counted_columns(features: Axis, holders: Sequence[int]) -> dict[int, int]:
    """Return how many columns each holder of a row counts there.

    Of a cell that several of them hold, the lowest-ranked holder's counts.
    """
    first = _first_holders(features, holders)
    return {client: int(np.sum(first == client)) for client in sorted(holders)}


def _first_holders(features: Axis, holders: Sequence[int]) -> IntArray:
    """Return the lowest-ranked of these holders of each column; -1 without any."""
    first = np.full(features.n_items, -1, dtype=np.int64)
    for client in sorted(holders, reverse=True):
        first[features.items[client]] = client
    return first

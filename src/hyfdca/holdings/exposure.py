"""Rows that clients share, and how many columns the others add to their margins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

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
        in this many unknown cells per row.
    """

    client: int
    others: tuple[int, ...]
    n_rows: int
    n_columns: int


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
    counted = counted_columns(layout.features, holders)
    for client in holders:
        others = tuple(other for other in holders if other != client)
        if others and layout.labelled[client]:
            n_columns = sum(counted[other] for other in others)
            yield Exposure(client, others, n_rows, n_columns)


def counted_columns(features: Axis, holders: Sequence[int]) -> dict[int, int]:
    """Return how many columns each holder of a row counts there.

    Of a cell that several of them hold, the lowest-ranked holder's counts.
    """
    is_counted = np.zeros(features.n_items, np.bool_)
    counts = {}
    for client in sorted(holders):
        own = features.items[client]
        counts[client] = int(np.sum(~is_counted[own]))
        is_counted[own] = True
    return counts

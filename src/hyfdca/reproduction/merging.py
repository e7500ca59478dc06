"""Fewer clients with the same history: those of a bucket are merged into one.

The bundle method sees samples only by bucket: a plane is a sum over a bucket's samples,
no matter who holds them. Beyond ``max_buckets`` it puts neighbouring groups of samples
into one bucket. Clients of a bucket that hold the same features can then be merged, and
P and D of every step stay the same except for rounding: every client rounds its part of
P up, which with 20,000 clients adds 4e-8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.algorithms.bundle.buckets import buckets_of, open_groups
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.arrays import IntArray
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.partition import Holding, Partition


@dataclass(frozen=True)
class MergedPartition:
    """A partition, and how many clients of another one each client represents."""

    partition: Partition
    stands_for: IntArray

    @property
    def n_clients(self) -> int:
        """How many clients there are in the other partition."""
        return int(self.stands_for.sum())


def unmerged(partition: Partition) -> MergedPartition:
    """Return a partition in which every client represents itself."""
    return MergedPartition(partition, np.ones(partition.n_clients, np.int64))


def merged_by_bucket(partition: Partition, settings: Bundle) -> MergedPartition:
    """Merge the clients of each bucket that hold the same features.

    Nothing is merged where every group of samples has a bucket of its own, or where
    clients' cells do not form rectangles.
    """
    layout = layout_of(partition)
    groups = open_groups(layout, settings.sub_groups, settings.min_group_size)
    buckets = buckets_of(layout, groups, settings.max_buckets)
    is_merged = int(groups.max(initial=0)) >= buckets.n_buckets
    if not is_merged or partition.cell_owners is not None:
        return unmerged(partition)
    members: dict[tuple[bytes, bytes], list[Holding]] = {}
    for holding, own in zip(partition.holdings, buckets.of_client, strict=True):
        alike = own.tobytes(), holding.features.tobytes()
        members.setdefault(alike, []).append(holding)
    return MergedPartition(
        Partition(
            partition.n_samples,
            partition.n_features,
            tuple(map(_joined, members.values())),
            partition.is_disjoint,
        ),
        np.array([len(own) for own in members.values()]),
    )


def _joined(holdings: list[Holding]) -> Holding:
    """Return what clients with the same features hold together."""
    samples = np.unique(np.concatenate([holding.samples for holding in holdings]))
    return Holding(samples, holdings[0].features)

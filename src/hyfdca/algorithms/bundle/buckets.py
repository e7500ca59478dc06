"""Buckets of samples, each with its own cutting plane in a bundle method.

The finer the buckets, the fewer the rounds. What limits them is what a slope shows:
in the open profile the server sees each client's part of it, in the sealed profile a
holder of a feature sees the sum over the clients that contribute to the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.holdings.axis import Axis, owner_groups, renumbered
from hyfdca.holdings.layout import Layout


@dataclass(frozen=True)
class Buckets:
    """A bucket for every sample; ``of_client[k]`` are those client k has samples in."""

    of_sample: IntArray
    of_client: tuple[IntArray, ...]
    n_buckets: int

    def local(self, samples: Axis, client: int) -> IntArray:
        """Return the bucket of each sample held, as a place in ``of_client``."""
        return renumbered(self.of_sample[samples.items[client]])

    def contributors(self, layout: Layout) -> IntArray:
        """Return, by feature, how many (client, bucket) pairs add to its slopes."""
        counts = np.zeros(layout.features.n_items, np.int64)
        for items, buckets in zip(layout.features.items, self.of_client, strict=True):
            counts[items] += len(buckets)
        return counts


def buckets_of(layout: Layout, groups: IntArray, most: int = 1) -> Buckets:
    """Return one bucket per group; merge neighbours down to ``most`` buckets."""
    sizes = np.bincount(groups)
    if len(sizes) > most:
        joined = (np.cumsum(sizes) - sizes) * most // sizes.sum()
        groups = renumbered(joined[groups])
    of_client = tuple(
        np.flatnonzero(np.bincount(groups[items])) for items in layout.samples.items
    )
    return Buckets(groups, of_client, int(groups.max(initial=0)) + 1)


def open_groups(layout: Layout, sub_groups: int, min_size: int) -> IntArray:
    """Return the owner group of each sample, or the equal part it is in.

    Parts have at least ``min_size`` samples.
    """
    groups = owner_groups(layout.samples)
    sizes = np.bincount(groups)
    parts = np.clip(sizes // min_size, 1, sub_groups)
    # Dealt one by one, so that parts are alike even where the order means something.
    order = np.argsort(groups, kind="stable")
    turn = np.empty_like(groups)
    starts = np.cumsum(sizes) - sizes
    turn[order] = np.arange(len(groups)) - starts[groups[order]]
    first = np.cumsum(parts) - parts
    return first[groups] + turn % parts[groups]


def sealed_groups(layout: Layout, min_contributors: int) -> IntArray:
    """Return the union of owner groups that each sample is in.

    In a union enough clients contribute to each feature: ``min_contributors``, or all
    that have the feature if they are fewer.
    """
    groups = owner_groups(layout.samples)
    holders = layout.features.counts
    enough = np.minimum(holders, min_contributors)
    bucket_of = np.zeros(int(groups.max(initial=0)) + 1, np.int64)
    inside: set[int] = set()
    missing, n_full = enough.copy(), 0
    for group, clients in enumerate(_clients_of_groups(layout.samples, groups)):
        bucket_of[group] = n_full
        for client in set(clients) - inside:
            inside.add(client)
            missing[layout.features.items[client]] -= 1
        if missing.max(initial=0) <= 0:
            inside, missing, n_full = set(), enough.copy(), n_full + 1
    # The rest is too small for a separate bucket.
    return np.minimum(bucket_of, max(n_full - 1, 0))[groups]


def _clients_of_groups(samples: Axis, groups: IntArray) -> Iterable[list[int]]:
    first = np.unique(groups, return_index=True)[1]
    which, clients, _ = samples.holders_of(first)
    return (clients[which == group].tolist() for group in range(len(first)))

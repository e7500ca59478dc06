"""The layout of a consortium: who holds what, who has labels, and who counts what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.holdings.axis import Axis, owner_groups
from hyfdca.holdings.partition import Partition


@dataclass(frozen=True)
class Layout:
    """The layout of the whole consortium: the two axes and who has labels.

    The feature axis may have one item more than the data has columns: the bias.
    """

    samples: Axis
    features: Axis
    labelled: tuple[bool, ...]

    @property
    def n_clients(self) -> int:
        """How many clients there are."""
        return len(self.labelled)

    @cached_property
    def is_horizontal(self) -> bool:
        """Whether every sample has one holder, which then has its whole margin."""
        return bool(np.all(self.samples.counts == 1))

    @cached_property
    def is_row_split(self) -> bool:
        """Whether each client has its own rows and all columns."""
        return self.is_horizontal and _are_whole(self.features)

    @cached_property
    def is_column_split(self) -> bool:
        """Whether each client has its own columns and all rows."""
        owned = bool(np.all(self.features.counts == 1))
        return owned and _are_whole(self.samples)

    @cached_property
    def is_grid(self) -> bool:
        """Whether row groups times column groups are one client each."""
        rows, columns = self.row_groups, self.column_groups
        if rows is None or columns is None:
            return False
        cells = set(zip(rows, columns, strict=True))
        return len(cells) == self.n_clients == len(set(rows)) * len(set(columns))

    @cached_property
    def row_groups(self) -> list[int] | None:
        """Each client's row group; None if groups overlap partly."""
        return _groups(self.samples)

    @cached_property
    def column_groups(self) -> list[int] | None:
        """Each client's column group; None if groups overlap partly."""
        return _groups(self.features)

    @property
    def is_wide(self) -> bool:
        """Whether there are more features than samples."""
        return self.features.n_items > self.samples.n_items

    @cached_property
    def sample_designees(self) -> IntArray:
        """Who counts each sample's loss: its lowest-ranked labelled holder, or -1."""
        return self.samples.first_holders(self.labelled)

    @cached_property
    def feature_designees(self) -> IntArray:
        """Who counts each feature's weight: its lowest-ranked holder, or -1."""
        return self.features.first_holders([True] * self.n_clients)

    @cached_property
    def bias_designee(self) -> int:
        """Who counts the weight of the bias, if there is one: its lowest holder."""
        return int(self.sample_designees.min(initial=self.n_clients))

    @cached_property
    def label_counts(self) -> IntArray:
        """How many labelled clients hold each sample; at least 1."""
        counts = np.zeros(self.samples.n_items, np.int64)
        for items, has_labels in zip(self.samples.items, self.labelled, strict=True):
            counts[items] += has_labels
        return np.maximum(counts, 1)

    def counts_samples(self, client: int) -> BoolArray:
        """Return which of its samples a client is designated for."""
        return np.equal(self.sample_designees[self.samples.items[client]], client)

    def counts_features(self, client: int) -> BoolArray:
        """Return which of its features a client is designated for."""
        return np.equal(self.feature_designees[self.features.items[client]], client)


def _are_whole(axis: Axis) -> bool:
    """Return whether every client has every item."""
    return bool(np.all(axis.counts == len(axis.items)))


def _groups(axis: Axis) -> list[int] | None:
    """Return each client's group of items; None if groups overlap partly."""
    numbers = owner_groups(axis)
    sizes = np.bincount(numbers, minlength=1)
    first = [int(numbers[items[0]]) if len(items) else -1 for items in axis.items]
    for items, group in zip(axis.items, first, strict=True):
        if len(items) and (
            len(items) != sizes[group] or np.any(numbers[items] != group)
        ):
            return None
    return first


def layout_of(
    partition: Partition, labelled: Sequence[bool] | None = None, bias: bool = False
) -> Layout:
    """Return the layout of a partition.

    Parameters
    ----------
    labelled : sequence of bool, optional
        Which clients have the labels of their samples; all by default.
    bias : bool
        Add the bias as the last feature. A sample's bias cell belongs to the sample's
        designated holder.
    """
    labelled = (
        tuple(labelled) if labelled is not None else (True,) * partition.n_clients
    )
    if len(labelled) != partition.n_clients:
        raise ValueError(
            f"There are {partition.n_clients} clients, but labelled has "
            f"{len(labelled)} entries; give one entry per client."
        )
    layout = Layout(partition.samples, partition.features, labelled)
    unlabelled = int(np.sum(layout.sample_designees < 0))
    if unlabelled:
        raise ValueError(
            f"{unlabelled} of {partition.n_samples} samples have no holder with a "
            "label; give at least one holder of each sample its label."
        )
    return with_bias(layout) if bias else layout


def with_bias(layout: Layout) -> Layout:
    """Return a layout with the bias added as the last feature."""
    last = layout.features.n_items
    features = tuple(
        np.append(items, last) if layout.counts_samples(client).any() else items
        for client, items in enumerate(layout.features.items)
    )
    return Layout(layout.samples, Axis(last + 1, features), layout.labelled)

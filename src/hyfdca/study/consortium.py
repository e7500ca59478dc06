"""Organisations brought together: who holds what, and what each counts of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from hyfdca.federation.problem import Block
from hyfdca.holdings.layout import append_bias
from hyfdca.holdings.partition import Holding, Partition
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.alignment.server import Alignment


@dataclass(frozen=True)
class Consortium:
    """Who holds what of which problem.

    Parameters
    ----------
    alignment : Alignment
        What the server knows.
    """

    names: tuple[str, ...]
    alignment: Alignment = field(repr=False)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, in the order of the partition."""
        return self.alignment.features

    @property
    def classes(self) -> tuple[str, ...]:
        """Empty for regression; negative and positive class where there are two."""
        return self.alignment.classes

    @property
    def labelled(self) -> tuple[bool, ...]:
        """Which organisations have labels."""
        return self.alignment.layout.labelled

    @cached_property
    def partition(self) -> Partition:
        """Each organisation's samples and features."""
        samples, features = (
            self.alignment.layout.samples,
            self.alignment.layout.features,
        )
        holdings = map(Holding, samples.items, features.items)
        return Partition(samples.n_items, features.n_items, tuple(holdings))


def block_of(table: AlignedTable, X: sp.csr_array, bias: float | None) -> Block:
    """Return an organisation's block, from what it knows itself."""
    counted = table.counts_feature
    if bias is not None and table.counts_sample.any():
        X = append_bias(X, table.counts_sample, bias)
        counted = np.append(counted, table.counts_bias)
    return Block(X, table.labels, table.counts_sample, counted)

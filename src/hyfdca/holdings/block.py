"""One client's share of the problem: its samples by its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import BoolArray, FloatArray, IntArray
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.layout import Layout
from hyfdca.holdings.partition import Partition


@dataclass(frozen=True, repr=False)
class Block:
    """A client's own data: its samples by its features, owned cells only.

    There is no repr, because the contents must not reach a log.

    Parameters
    ----------
    labels : array (samples held, n_outputs) or None
    sample_weights : array (samples held, n_outputs) or None
        None counts every sample once.
    offsets : array (samples held, n_outputs) or None
        Added to the margins of the samples, regardless of weights.
    counts_sample, counts_feature : arrays of bool
        The samples and features that this client is designated for.
    row_groups : array of int, optional
        The owner group of each sample, as the alignment found them.
    feature_groups : array of int, optional
        Likewise that of each feature, without the bias.
    folds : array of int, optional
        The fold of each sample, where λ is chosen by cross-validation.
    """

    X: sp.csr_array
    labels: FloatArray | None
    counts_sample: BoolArray
    counts_feature: BoolArray
    sample_weights: FloatArray | None = None
    offsets: FloatArray | None = None
    row_groups: IntArray | None = None
    feature_groups: IntArray | None = None
    folds: IntArray | None = None


def split_blocks(
    X: sp.csr_array,
    labels: FloatArray,
    partition: Partition,
    layout: Layout,
    bias: float | None = None,
    sample_weights: FloatArray | None = None,
) -> list[Block]:
    """Split a table that is all in one place into the clients' blocks."""
    blocks = []
    for client, part in enumerate(partition.split(X)):
        rows, counted = layout.samples.items[client], layout.counts_samples(client)
        blocks.append(
            Block(
                X=part if bias is None else append_bias(part, counted, bias),
                labels=labels[rows] if layout.labelled[client] else None,
                counts_sample=counted,
                counts_feature=layout.counts_features(client),
                sample_weights=None if sample_weights is None else sample_weights[rows],
            )
        )
    return blocks


def with_offsets(
    blocks: Sequence[Block], layout: Layout, offsets: FloatArray
) -> list[Block]:
    """Return blocks in which label holders have the offsets of their samples."""
    return [
        replace(block, offsets=offsets[items] if has_labels else None)
        for block, items, has_labels in zip(
            blocks, layout.samples.items, layout.labelled, strict=True
        )
    ]


def with_folds(blocks: Sequence[Block], layout: Layout, folds: IntArray) -> list[Block]:
    """Return blocks in which every client has the folds of its samples."""
    return [
        replace(block, folds=folds[items])
        for block, items in zip(blocks, layout.samples.items, strict=True)
    ]


def pooled_cells(
    parts: Sequence[sp.csr_array], samples: Axis, features: Axis
) -> sp.csr_array:
    """Put the clients' own cells into one table; stored zeros stay stored."""
    rows, columns, values = [], [], []
    for client, part in enumerate(parts):
        own = part.tocoo()
        rows.append(samples.items[client][own.row])
        columns.append(features.items[client][own.col])
        values.append(own.data)
    places = np.concatenate(rows), np.concatenate(columns)
    shape = (samples.n_items, features.n_items)
    return sp.coo_array((np.concatenate(values), places), shape=shape).tocsr()


def append_bias(block: sp.csr_array, counted: BoolArray, value: float) -> sp.csr_array:
    """Return a client's block with its bias cells, if any, as a last column.

    ``counted`` are the samples that the client is designated for.
    """
    if not counted.any():
        return block
    column = sp.csr_array(np.where(counted, value, 0.0).reshape(-1, 1))
    return sp.csr_array(sp.hstack([block, column], format="csr"))

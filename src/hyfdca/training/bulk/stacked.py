"""A table that is spread over clients, as compiled rounds read it.

A *row* here is one client's part of one sample. Rows that are read together are stored
together: for HyFDCA those of a sample, for local gradient steps those of a client. The
table itself is then not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.layout import Layout, layout_of
from hyfdca.holdings.partition import Partition, with_small_indices
from hyfdca.maths.kernels import row_norms, unsigned
from hyfdca.maths.losses import Loss
from hyfdca.maths.objective import Measurement

Indices = NDArray[np.int32]
Order = Literal["samples", "clients"]


@dataclass(frozen=True, repr=False)
class StackedBlocks:
    """The blocks of all clients.

    Parameters
    ----------
    by : {"samples", "clients"}
        The order of the rows.
    rows : CSR array (rows, n_features)
        Features are those of the table.
    row_samples, row_clients : arrays (rows,)
        The sample and the client of each row.
    labels : array (n_samples,)
        -1 and 1, or targets.
    layout : Layout
        Who holds what.
    """

    by: Order
    rows: sp.csr_array
    row_samples: Indices
    row_clients: Indices
    labels: FloatArray
    layout: Layout

    @property
    def n_samples(self) -> int:
        """How many samples there are."""
        return self.layout.samples.n_items

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return self.layout.features.n_items

    @property
    def n_clients(self) -> int:
        """How many clients there are."""
        return self.layout.n_clients

    @cached_property
    def csr(self) -> tuple[Any, Any, Any]:
        """The rows as kernels take them."""
        return unsigned(self.rows.indptr), unsigned(self.rows.indices), self.rows.data

    @cached_property
    def sample_starts(self) -> IntArray:
        """Where each sample's rows start, if they are by sample; then their number."""
        return _starts_of(self.layout.samples.counts)

    @cached_property
    def client_starts(self) -> IntArray:
        """Where each client's rows start in ``client_rows``, and their number."""
        return _starts_of([len(items) for items in self.layout.samples.items])

    @property
    def n_held(self) -> IntArray:
        """How many samples each client has."""
        return np.diff(self.client_starts)

    @property
    def n_features_held(self) -> IntArray:
        """How many features each client has."""
        return np.diff(self.feature_starts)

    @cached_property
    def client_rows(self) -> Indices:
        """The rows of each client in turn, by sample."""
        return np.argsort(self.row_clients, kind="stable").astype(np.int32)

    @cached_property
    def feature_starts(self) -> IntArray:
        """Where each client's features start in ``features``, and their number."""
        return _starts_of([len(items) for items in self.layout.features.items])

    @cached_property
    def features(self) -> Indices:
        """The features of each client in turn."""
        every = np.concatenate([*self.layout.features.items, np.empty(0, np.int64)])
        return every.astype(np.int32)

    @cached_property
    def client_columns(self) -> NDArray[np.uint32]:
        """For each stored value, the number of its feature among its client's."""
        cell_clients = np.repeat(self.row_clients, np.diff(self.rows.indptr))
        clients = np.repeat(np.arange(self.n_clients), np.diff(self.feature_starts))
        held = clients * self.n_features + self.features
        wanted = cell_clients.astype(np.int64) * self.n_features + self.rows.indices
        found = np.searchsorted(held, wanted) - self.feature_starts[cell_clients]
        return found.astype(np.uint32)

    @cached_property
    def squared_norms(self) -> FloatArray:
        """||x_i||² of whole samples."""
        norms = np.empty((len(self.row_samples), 1))
        row_norms(*self.csr, norms)
        return self._summed(norms[:, 0])

    def margins(self, weights: FloatArray) -> FloatArray:
        """Return x_i·w of whole samples."""
        return self._summed(np.asarray(self.rows @ weights))

    def combined(self, coefficients: FloatArray) -> FloatArray:
        """Return Σ_i coefficients_i x_i."""
        return np.asarray(self.rows.T @ coefficients[self.row_samples])

    def measured(
        self,
        loss: Loss,
        l2: float,
        weights: FloatArray,
        duals: FloatArray,
        *,
        margins: FloatArray | None = None,
        own: FloatArray | None = None,
    ) -> Measurement:
        """Return P of weights and D of duals, whose own weights may differ.

        Parameters
        ----------
        margins, own : array, optional
            The margins of the weights, and the weights of the duals, if known: each
            saves a pass over the data.
        """
        if margins is None:
            margins = self.margins(weights)
        if own is None:
            own = self.combined(duals) / (l2 * self.n_samples)
        losses = loss.value(margins, self.labels).mean()
        conjugates = loss.conjugate(duals, self.labels).mean()
        primal = 0.5 * l2 * float(weights @ weights) + losses
        return Measurement(primal, -0.5 * l2 * float(own @ own) - conjugates)

    def _summed(self, values: FloatArray) -> FloatArray:
        """Add up values of rows, sample by sample."""
        sums = np.bincount(self.row_samples, values, self.n_samples)
        return sums.astype(np.float64, copy=False)  # whole numbers if there are no rows


def stacked(
    X: sp.csr_array, labels: FloatArray, partition: Partition, by: Order
) -> StackedBlocks:
    """Return the blocks of a table, as a partition spreads it.

    Parameters
    ----------
    labels : array (n_samples,)
    """
    layout = layout_of(partition)
    n_samples, n_clients = layout.samples.n_items, layout.n_clients
    row_samples, row_clients, _ = layout.samples.holders_of(np.arange(n_samples))
    if by == "clients":
        order = np.argsort(row_clients, kind="stable")
        row_samples, row_clients = row_samples[order], row_clients[order]

    def key_of(samples: IntArray, clients: IntArray) -> IntArray:
        if by == "samples":
            return samples * n_clients + clients
        return clients * n_samples + samples

    cells = _cells_of(sp.csr_array(X), partition, layout)
    row_keys = key_of(row_samples, row_clients)
    cell_rows = np.searchsorted(row_keys, key_of(cells.samples, cells.clients))
    shape = (len(row_keys), X.shape[1])
    rows = sp.coo_array((cells.values, (cell_rows, cells.features)), shape=shape)
    return StackedBlocks(
        by,
        with_small_indices(sp.csr_array(rows)),
        row_samples.astype(np.int32),
        row_clients.astype(np.int32),
        np.ascontiguousarray(labels, dtype=np.float64),
        layout,
    )


class _Cells(NamedTuple):
    """Stored values, and who counts them."""

    samples: IntArray
    features: IntArray
    clients: IntArray
    values: FloatArray


def _cells_of(X: sp.csr_array, partition: Partition, layout: Layout) -> _Cells:
    samples = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    features = X.indices.astype(np.int64)
    clients = partition.cell_owners
    if clients is None and layout.is_grid:
        clients = _grid_clients(partition, layout, samples, features)
    if clients is not None:
        return _Cells(samples, features, clients, X.data)
    # Cells may be held twice: each client leaves out those that others count.
    parts = []
    for client, block in enumerate(partition.split(X)):
        held, own = partition.holdings[client], block.tocoo()
        cells = held.samples[own.row], held.features[own.col]
        parts.append(_Cells(*cells, np.full(own.nnz, client), own.data))
    return _Cells(*map(np.concatenate, zip(*parts, strict=True)))


def _grid_clients(
    partition: Partition, layout: Layout, samples: IntArray, features: IntArray
) -> IntArray:
    """Return the client of each cell of a grid."""
    row_groups, column_groups = layout.row_groups or [], layout.column_groups or []
    clients = np.full((max(row_groups) + 1, max(column_groups) + 1), -1)
    clients[row_groups, column_groups] = np.arange(layout.n_clients)
    of_samples = _group_of(partition.samples, row_groups)
    of_features = _group_of(partition.features, column_groups)
    return np.asarray(clients[of_samples[samples], of_features[features]])


def _group_of(axis: Axis, groups: list[int]) -> IntArray:
    """Return the group of each item of an axis."""
    found = np.zeros(axis.n_items, np.int64)
    for items, group in zip(axis.items, groups, strict=True):
        found[items] = group
    return found


def _starts_of(sizes: Sequence[int] | IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)])

"""Who holds which samples and features, and who counts cells held more than once.

A cell (sample, feature) held by several clients is *owned* by the lowest-ranked one;
the others count it as zero, otherwise the wrong problem would be solved. A cell that
nobody holds is zero, a feature that nobody holds gets the weight zero, and a sample
that nobody holds is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.errors import counted
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.ownership import CellHolders, OwnCells, cell_holders
from hyfdca.maths.seeds import stream

QUADRANTS = 4


@dataclass(frozen=True)
class Holding:
    """One client's samples and features, as sorted indices into the whole table."""

    samples: IntArray
    features: IntArray


@dataclass(frozen=True)
class Partition:
    """A table of ``n_samples`` by ``n_features`` spread over clients.

    Parameters
    ----------
    holdings : tuple of Holding
        In order of rank.
    is_disjoint : bool
        Whether no cell is held twice, so that nobody needs to look for such cells.
    cell_owners : array (stored values,), optional
        The client of each stored value of one particular matrix, in CSR order, if the
        clients' cells do not form rectangles (``deal_nonzeros``).
    pattern : int
        Checksum of the positions of that matrix's stored values.
    """

    n_samples: int
    n_features: int
    holdings: tuple[Holding, ...]
    is_disjoint: bool = False
    cell_owners: IntArray | None = None
    pattern: int = 0

    @property
    def n_clients(self) -> int:
        """How many clients there are, including empty ones."""
        return len(self.holdings)

    @cached_property
    def samples(self) -> Axis:
        """The sample axis."""
        return Axis(self.n_samples, tuple(h.samples for h in self.holdings))

    @cached_property
    def features(self) -> Axis:
        """The feature axis."""
        return Axis(self.n_features, tuple(h.features for h in self.holdings))

    def split(self, X: sp.csr_array) -> list[sp.csr_array]:
        """Return each client's block of ``X``: its samples by its features.

        Cells that a lower-ranked client owns are zero.
        """
        if X.shape != (self.n_samples, self.n_features):
            raise ValueError(
                f"The partition is for a table of {self.n_samples} samples by "
                f"{self.n_features} features, but X is {X.shape[0]} by {X.shape[1]}; "
                "pass that table, or give grid a rule for any rows, by_column or "
                "by_function of hyfdca.holdings.rules, as cross_val_score needs."
            )
        if self.cell_owners is not None:
            blocks = _split_cells(X, self.holdings, self.cell_owners, self.pattern)
        else:
            blocks = [X[h.samples][:, h.features] for h in self.holdings]
            blocks = [self.own_cells(k).of(block) for k, block in enumerate(blocks)]
        return [with_small_indices(block) for block in blocks]

    def own_cells(self, client: int) -> OwnCells:
        """Return which cells of its block the client counts."""
        if self.is_disjoint:
            mine = self.holdings[client]
            rows, columns = np.zeros_like(mine.samples), np.zeros_like(mine.features)
            return OwnCells(rows, columns, np.ones((1, 1), dtype=bool))
        return self._cell_holders[client].own_cells(client)

    @cached_property
    def _cell_holders(self) -> list[CellHolders]:
        return cell_holders(self.samples, self.features)


def from_holdings(
    n_samples: int,
    n_features: int,
    holdings: Iterable[tuple[ArrayLike, ArrayLike]],
) -> Partition:
    """Return the partition of arbitrary holdings, which may overlap.

    Parameters
    ----------
    holdings : iterable of (samples, features)
        Lists of numbers or boolean masks per client, in order of rank. A client may
        hold nothing. ``hyfdca.holdings.frames`` takes names instead.
    """
    checked = tuple(
        Holding(
            _indices(samples, n_samples, f"samples of client {client}"),
            _indices(features, n_features, f"features of client {client}"),
        )
        for client, (samples, features) in enumerate(holdings)
    )
    partition = Partition(n_samples, n_features, checked)
    unheld = int(np.sum(partition.samples.counts == 0))
    if unheld:
        raise ValueError(
            f"No client holds {unheld} of {n_samples} samples; give each sample "
            "to a client or leave it out of the data."
        )
    return partition


def grid(
    n_samples: int, n_features: int, shape: tuple[int, int], seed: int | None = None
) -> Partition:
    """Return a grid of K sample groups by Q feature groups, one client per cell.

    With a ``seed``, samples and features are shuffled first; otherwise each group is
    contiguous. Client k Q + q has the sample group k and the feature group q.
    """
    n_rows, n_columns = shape
    samples = _groups(n_samples, n_rows, seed, "samples")
    features = _groups(n_features, n_columns, seed, "features")
    holdings = tuple(Holding(rows, columns) for rows in samples for columns in features)
    return Partition(n_samples, n_features, holdings, is_disjoint=True)


def horizontal(
    n_samples: int, n_features: int, n_clients: int, seed: int | None = None
) -> Partition:
    """Return a partition where each client has all features of some samples."""
    return grid(n_samples, n_features, (n_clients, 1), seed)


def vertical(
    n_samples: int, n_features: int, n_clients: int, seed: int | None = None
) -> Partition:
    """Return a partition where each client has some features of all samples."""
    return grid(n_samples, n_features, (1, n_clients), seed)


def image_quadrants(
    n_samples: int, n_sample_groups: int, seed: int | None = None, side: int = 28
) -> Partition:
    """Return the paper's MNIST partition: image quadrants, the bias in the fourth.

    The table has ``side * side`` pixels and, as its last feature, the bias (the paper
    gives it the value 10). The first ``n_sample_groups`` clients have the first
    quadrant, the next ones the second, and so on.
    """
    pixel = np.arange(side * side)
    lower = pixel // side >= side // 2
    right = pixel % side >= side // 2
    quadrant = np.append(2 * lower + right, QUADRANTS - 1)
    samples = _groups(n_samples, n_sample_groups, seed, "samples")
    holdings = tuple(
        Holding(rows, np.flatnonzero(quadrant == q))
        for q in range(QUADRANTS)
        for rows in samples
    )
    return Partition(n_samples, side * side + 1, holdings, is_disjoint=True)


def deal_nonzeros(
    X: sp.csr_array, shape: tuple[int, int], seed: int | None = None
) -> Partition:
    """Return the paper's News20 and Covtype partition of ``X``.

    Samples are divided into K groups; the non-zeros of each *sample* are dealt evenly
    to the Q clients of its group. A client's features are those it has values for.
    """
    n_rows, n_columns = shape
    X = sp.csr_array(X)
    n_samples, n_features = X.shape
    samples = _groups(n_samples, n_rows, seed, "samples")
    group = np.empty(n_samples, np.int64)
    for number, rows in enumerate(samples):
        group[rows] = number
    random = stream(seed or 0, "deal")
    sizes = np.diff(X.indptr)
    row = np.repeat(np.arange(n_samples), sizes)
    shuffled = np.argsort(row + random.random(X.nnz))
    rank = np.empty(X.nnz, np.int64)
    rank[shuffled] = np.arange(X.nnz) - np.repeat(X.indptr[:-1], sizes)
    turn = random.integers(n_columns, size=n_samples)
    owners = group[row] * n_columns + (rank + turn[row]) % n_columns
    holdings = tuple(
        Holding(
            rows, np.unique(X.indices[owners == number * n_columns + q]).astype(int)
        )
        for number, rows in enumerate(samples)
        for q in range(n_columns)
    )
    return Partition(n_samples, n_features, holdings, True, owners, _pattern(X))


def _split_cells(
    X: sp.csr_array, holdings: Sequence[Holding], owners: IntArray, pattern: int
) -> list[sp.csr_array]:
    if pattern != _pattern(X):
        raise ValueError(
            "The partition was dealt from another matrix, with other stored values; "
            "deal the non-zeros of this one."
        )
    blocks = []
    for client, holding in enumerate(holdings):
        mine = owners == client
        # Dropping the others' values keeps rows sorted without a dense mask.
        kept = np.concatenate([[0], np.cumsum(mine)])[X.indptr]
        rows = sp.csr_array(
            (X.data[mine], X.indices[mine], kept), shape=X.shape, copy=False
        )[holding.samples]
        columns = np.searchsorted(holding.features, rows.indices).astype(np.int32)
        shape = (len(holding.samples), len(holding.features))
        blocks.append(sp.csr_array((rows.data, columns, rows.indptr), shape=shape))
    return blocks


def _pattern(X: sp.csr_array) -> int:
    """Return a checksum of the positions of a table's stored values."""
    small = with_small_indices(X)
    return zlib.crc32(small.indices.tobytes(), zlib.crc32(small.indptr.tobytes()))


def with_small_indices(X: sp.csr_array) -> sp.csr_array:
    """Return a CSR table with 32-bit indices if they fit; values are shared."""
    if X.nnz > np.iinfo(np.int32).max:
        return X
    indices, indptr = (a.astype(np.int32, copy=False) for a in (X.indices, X.indptr))
    return sp.csr_array((X.data, indices, indptr), shape=X.shape)


def _groups(n_items: int, n_groups: int, seed: int | None, what: str) -> list[IntArray]:
    if n_groups < 1:
        raise ValueError(f"There must be at least one group of {what}, got {n_groups}.")
    order = (
        np.arange(n_items) if seed is None else stream(seed, what).permutation(n_items)
    )
    return [np.sort(part) for part in np.array_split(order, n_groups)]


def _indices(values: ArrayLike, size: int, what: str) -> IntArray:
    given = np.asarray(values)
    if given.dtype == bool:
        return _masked(given, size, what)
    if given.size == 0:
        return np.empty(0, np.int64)
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        raise ValueError(
            f"The {what} must be a list of whole numbers or a boolean mask."
        )
    indices = np.unique(given.astype(np.int64))
    if len(indices) < len(given):
        raise ValueError(
            f"The {what} repeat {counted(len(given) - len(indices), 'number')}; give "
            "each once."
        )
    if indices[0] < 0 or indices[-1] >= size:
        raise ValueError(f"The {what} must lie between 0 and {size - 1}.")
    return indices


def _masked(mask: BoolArray, size: int, what: str) -> IntArray:
    if mask.shape != (size,):
        raise ValueError(
            f"The mask of the {what} must have {size} entries, got {mask.size}."
        )
    return np.flatnonzero(mask)

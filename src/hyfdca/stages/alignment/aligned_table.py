"""A client's table in the study's order, and tokens of shared cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import BoolArray, FloatArray, IntArray, TokenArray
from hyfdca.crypto.keys.pseudonyms import (
    AlignmentKeys,
    cell_tokens,
    feature_words,
    group_digests,
    level_words,
    number_words,
    start_tokens,
)
from hyfdca.data.expansion import Expansion
from hyfdca.data.targets import SampleLosses, Targets
from hyfdca.holdings.block import Block, append_bias
from hyfdca.holdings.ownership import OwnCells

_NO_CELL = np.uint64(0xFFFF_FFFF_FFFF_FFFE)  # bits of neither a number nor a start
_CHUNK = 1 << 20  # stored cells whose tokens are computed at a time


@dataclass(frozen=True, repr=False)
class AlignedTable:
    """A client's table in the study's order, and which parts the client counts.

    Parameters
    ----------
    cells : CSR array (samples held, features held)
        It includes cells that others count.
    targets : Targets or None
        Some may not be known yet; None without labels.
    counts_sample, counts_feature : arrays of bool
        The samples and features this client is designated for.
    counts_bias : bool
        Whether it is designated for the bias, if there is one.
    n_samples : int
        N, over all clients.
    levels : mapping of str to tuple of str
        By column that is a category: the client's own levels, numbered from 1 as its
        cells are.
    """

    features: tuple[str, ...]
    cells: sp.csr_array
    targets: Targets | None
    own: OwnCells
    counts_sample: BoolArray
    counts_feature: BoolArray
    counts_bias: bool
    classes: tuple[str, ...]
    n_samples: int
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def words(self) -> TokenArray:
        """The digest of each feature in tokens of cells."""
        return feature_words(self.features)

    @cached_property
    def categories(self) -> tuple[int, ...]:
        """The columns that are categories."""
        return tuple(c for c, name in enumerate(self.features) if name in self.levels)

    def cell_words(self, columns: IntArray, values: FloatArray) -> TokenArray:
        """Return the bits of cells in their tokens: of numbers or names of levels."""
        words = number_words(values)
        for column in self.categories:
            own = (columns == column) & ~np.isnan(values)
            levels = level_words(self.levels[self.features[column]])
            words[own] = levels[values[own].astype(np.int64) - 1]
        return words

    def features_of(
        self, scaled: sp.csr_array, expansion: Expansion
    ) -> tuple[sp.csr_array, BoolArray, IntArray]:
        """Return the client's owned features, which of them it counts, their groups.

        Parameters
        ----------
        scaled : CSR array (samples held, columns that are numbers)
            Owned cells.
        """
        X = scaled
        if expansion.places:
            X = expansion.join(scaled, self.own.of(self.cells))
        widths, groups = expansion.widths, self.own.column_groups
        return X, np.repeat(self.counts_feature, widths), np.repeat(groups, widths)

    def block(
        self,
        features: tuple[sp.csr_array, BoolArray, IntArray],
        bias: float | None,
        losses: SampleLosses,
    ) -> Block:
        """Return what the client trains on: its owned features, and the bias."""
        X, counted, feature_groups = features
        if bias is not None and self.counts_sample.any():
            X = append_bias(X, self.counts_sample, bias)
            counted = np.append(counted, self.counts_bias)
        counts = (self.counts_sample, counted)
        groups = self.own.row_groups, feature_groups
        return Block(X, losses.labels, *counts, losses.weights, losses.offsets, *groups)


def row_tokens(
    table: AlignedTable,
    groups: IntArray,
    pseudonyms: TokenArray,
    keys: AlignmentKeys,
    is_rounded: bool = False,
) -> TokenArray:
    """Return one token per row and column group, over all its cells there.

    It is the sum of their tokens, without those of zeros: so a sparse table costs no
    more than it stores, and the server does not learn which cells agree. The
    sum starts with a token of the row, or it would show rows of zeros. It is also of
    all columns of the group and of the rounding: the difference of two sums that do not
    have the same cells says nothing.
    """
    column_groups, words = table.own.column_groups, table.words
    about = f"row {is_rounded}"
    starts = group_digests(column_groups, words, about, keys.cells)[:, 0]
    tokens = np.empty((len(groups), len(pseudonyms)), np.uint64)
    place = np.full(len(starts), -1)
    for number, group in enumerate(groups):
        tokens[number] = start_tokens(pseudonyms, starts[group], keys)
        place[group] = number
    for rows in _chunks(table.cells):
        cells = table.cells[rows].tocoo()
        kept = (place[column_groups[cells.col]] >= 0) & (cells.data != 0.0)
        row, column = cells.row[kept] + rows.start, cells.col[kept]
        values = table.cell_words(column, cells.data[kept])
        own = cell_tokens(pseudonyms[row], words[column], values, keys)
        where = place[column_groups[column]] * len(pseudonyms) + row
        np.add.at(tokens.reshape(-1), where, own)
    return tokens


def column_tokens(
    table: AlignedTable,
    rectangles: tuple[IntArray, IntArray],
    pseudonyms: TokenArray,
    keys: AlignmentKeys,
    is_rounded: bool = False,
) -> TokenArray:
    """Return one token per column of each rectangle, over all its cells there.

    Parameters
    ----------
    rectangles : pair of arrays
        The row group and the column group of each.
    """
    own, n_columns = table.own, len(table.features)
    about = f"column {is_rounded}"
    starts = group_digests(own.row_groups, pseudonyms, about, keys.cells)
    row_groups = np.unique(rectangles[0])
    place = np.full(len(starts), -1)
    place[row_groups] = np.arange(len(row_groups))
    # As with rows, a token of no cell hides columns of zeros and what sums differ by.
    start = np.repeat(starts[row_groups], n_columns, axis=0)
    words = np.tile(table.words, len(row_groups))
    tokens = cell_tokens(start, words, np.full(len(words), _NO_CELL), keys).copy()
    for rows in _chunks(table.cells):
        cells = table.cells[rows].tocoo()
        row, column = cells.row + rows.start, cells.col
        kept = (place[own.row_groups[row]] >= 0) & (cells.data != 0.0)
        row, column = row[kept], column[kept]
        values = table.cell_words(column, cells.data[kept])
        each = cell_tokens(pseudonyms[row], table.words[column], values, keys)
        np.add.at(tokens, place[own.row_groups[row]] * n_columns + column, each)
    by_group = tokens.reshape(len(row_groups), n_columns)
    return np.concatenate(
        [
            by_group[place[row_group], own.column_groups == column_group]
            for row_group, column_group in zip(*rectangles, strict=True)
        ]
    )


def _chunks(cells: sp.csr_array) -> list[slice]:
    """Return slices of rows with about as many stored cells each."""
    n_rows = cells.shape[0]
    step = max(1, _CHUNK * n_rows // max(cells.nnz, 1))
    return [slice(start, start + step) for start in range(0, n_rows, step)]

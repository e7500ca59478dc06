"""Who counts a cell held by several clients, against a search through all holders."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from hyfdca.data.tables import stored_densely
from hyfdca.holdings.ownership import cell_holders
from hyfdca.holdings.partition import from_holdings, grid
from tests.support.holding_strategies import overlapping_holdings

N_SAMPLES, N_FEATURES = 7, 5


def holders(holdings, sample, feature):
    """Return the clients that hold a cell, by rank."""
    pairs = enumerate(holdings)
    return [k for k, (rows, columns) in pairs if sample in rows and feature in columns]


@given(overlapping_holdings(N_SAMPLES, N_FEATURES))
def test_the_lowest_ranked_holder_owns_a_cell(holdings):
    """Owners and shared cells match a search through all clients for every cell."""
    partition = from_holdings(N_SAMPLES, N_FEATURES, holdings)
    found = cell_holders(partition.samples, partition.features)
    for own, (rows, columns) in zip(found, holdings, strict=True):
        for i, sample in enumerate(rows):
            for j, feature in enumerate(columns):
                place = own.row_groups[i], own.column_groups[j]
                expected = holders(holdings, sample, feature)
                assert own.owners[place] == expected[0]
                assert own.is_shared[place] == (len(expected) > 1)


@given(overlapping_holdings(N_SAMPLES, N_FEATURES))
def test_own_cells_of_a_block(holdings):
    """A block keeps just the cells its client owns, stored zeros too, and counts them.

    Every cell that somebody holds is counted once.
    """
    partition = from_holdings(N_SAMPLES, N_FEATURES, holdings)
    total = np.zeros((N_SAMPLES, N_FEATURES), dtype=int)
    for client, (rows, columns) in enumerate(holdings):
        own = partition.own_cells(client)
        kept = own.of(stored_densely(np.zeros((len(rows), len(columns)))))
        kept.data += 1.0
        np.testing.assert_array_equal(kept.toarray().sum(axis=0), own.counts())
        total[np.ix_(rows, columns)] += kept.toarray().astype(int)
    held = np.zeros((N_SAMPLES, N_FEATURES), dtype=bool)
    for rows, columns in holdings:
        held[np.ix_(rows, columns)] = True
    np.testing.assert_array_equal(total, held)


@given(overlapping_holdings(N_SAMPLES, N_FEATURES))
def test_group_numbers_tell_nothing(holdings):
    """A client's groups are numbered by first appearance, without gaps."""
    partition = from_holdings(N_SAMPLES, N_FEATURES, holdings)
    for own in cell_holders(partition.samples, partition.features):
        for groups in (own.row_groups, own.column_groups):
            first_seen = list(dict.fromkeys(groups.tolist()))
            assert first_seen == list(range(len(first_seen)))


def test_nobody_shares_a_cell_of_a_grid():
    """If cells are disjoint, each client owns all it holds, without a search."""
    partition = grid(6, 4, (2, 2))
    for client, holding in enumerate(partition.holdings):
        own = partition.own_cells(client)
        assert own.owns.all()
        assert own.counts().tolist() == [3] * len(holding.features)

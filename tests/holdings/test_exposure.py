"""Rows that clients share, and the columns that others count there."""

from __future__ import annotations

from hyfdca.holdings.exposure import Exposure, counted_columns, exposures
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.partition import from_holdings

# Three clients; the first two share columns 2 and 3, all share rows 4 to 5.
PARTITION = from_holdings(
    10, 8, [(range(6), range(4)), (range(2, 10), range(2, 6)), ([4, 5, 9], [6, 7])]
)


def test_shared_rows_are_grouped_by_their_holders():
    """Each client has one entry per set of other holders, the largest first."""
    layout = layout_of(PARTITION)
    assert exposures(layout) == [
        Exposure(0, (1,), 2, 2),
        Exposure(0, (1, 2), 2, 2 + 2),
        Exposure(1, (0,), 2, 4, 2),
        Exposure(1, (0, 2), 2, 4 + 2, 2),
        Exposure(1, (2,), 1, 2),
        Exposure(2, (0, 1), 2, 4 + 2),
        Exposure(2, (1,), 1, 4),
    ]


def test_clients_without_labels_receive_no_margins():
    """A client without labels is not exposed to anything."""
    layout = layout_of(PARTITION, [True, True, False])
    assert {one.client for one in exposures(layout)} == {0, 1}


def test_a_cell_is_counted_by_its_first_holder():
    """Columns that several holders have count once."""
    features = PARTITION.features
    assert counted_columns(features, [1, 0]) == {0: 4, 1: 2}
    assert counted_columns(features, [1]) == {1: 4}

"""Who holds which items, who counts what, and where the bias is."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.holdings.axis import Axis, shared_counts
from hyfdca.holdings.block import append_bias
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.partition import (
    from_holdings,
    grid,
    horizontal,
    vertical,
)
from tests.support.holding_strategies import overlapping_holdings, subsets


@st.composite
def _axes(draw):
    n_items = draw(st.integers(1, 9))
    clients = draw(st.lists(subsets(n_items), max_size=5))
    return Axis(n_items, tuple(np.array(sorted(c), dtype=np.int64) for c in clients))


@given(axis=_axes(), data=st.data())
def test_holders_match_a_search_through_all_clients(axis, data):
    """All holders of the requested items are returned, with positions, by rank."""
    items = data.draw(st.lists(st.integers(0, axis.n_items - 1), max_size=8))
    expected = [
        (index, client, held.tolist().index(item))
        for index, item in enumerate(items)
        for client, held in enumerate(axis.items)
        if item in held
    ]
    found = axis.holders_of(np.array(items, dtype=np.int64))
    assert list(zip(*(part.tolist() for part in found), strict=True)) == expected
    assert axis.counts.tolist() == [
        sum(item in held for held in axis.items) for item in range(axis.n_items)
    ]


@given(axis=_axes(), data=st.data())
def test_positions_match_a_search_through_all_clients(axis, data):
    """Each client that holds some of the items has their positions, in its order."""
    items = data.draw(subsets(axis.n_items))
    expected = {
        client: [p for p, item in enumerate(held.tolist()) if item in items]
        for client, held in enumerate(axis.items)
    }
    expected = {client: where for client, where in expected.items() if where}
    found = axis.positions_of(np.array(items, dtype=np.int64))
    assert {client: where.tolist() for client, where in found.items()} == expected


@given(axis=_axes(), data=st.data())
def test_first_holders_match_a_search(axis, data):
    """The first holder is the lowest-ranked client that is eligible, or -1."""
    n_clients = len(axis.items)
    eligible = data.draw(
        st.lists(st.booleans(), min_size=n_clients, max_size=n_clients)
    )
    expected = [
        next((c for c in range(n_clients) if eligible[c] and i in axis.items[c]), -1)
        for i in range(axis.n_items)
    ]
    assert axis.first_holders(eligible).tolist() == expected


@given(axis=_axes())
def test_places_name_the_items(axis):
    """Places select exactly a client's items; contiguous items are a slice."""
    whole = np.arange(axis.n_items)
    for place, items in zip(axis.places, axis.items, strict=True):
        np.testing.assert_array_equal(whole[place], items)
        is_run = len(items) > 0 and items.tolist() == list(
            range(items[0], items[0] + len(items))
        )
        assert isinstance(place, slice) == is_run


LABELLED = st.lists(st.booleans(), min_size=5, max_size=5)


@given(holdings=overlapping_holdings(), flags=LABELLED, value=st.floats(0.1, 10))
def test_the_bias_is_counted_once_a_sample(holdings, flags, value):
    """Only a sample's lowest-ranked labelled holder has its bias cell."""
    partition = from_holdings(7, 5, holdings)
    labelled = flags[: partition.n_clients]
    designees = [
        next(
            (c for c, (held, _) in enumerate(holdings) if labelled[c] and s in held),
            None,
        )
        for s in range(7)
    ]
    if None in designees:
        missing = designees.count(None)
        with pytest.raises(ValueError, match=f"{missing} of 7 samples have no holder"):
            layout_of(partition, labelled, bias=True)
        return
    layout = layout_of(partition, labelled, bias=True)
    assert layout.sample_designees.tolist() == designees
    assert layout.features.n_items == 6
    total = np.zeros(7)
    for client, (samples, features) in enumerate(holdings):
        has_bias = client in designees
        expected = sorted(features) + [5] * has_bias
        assert layout.features.items[client].tolist() == expected
        block = sp.csr_array(np.ones((len(samples), len(features))))
        wider = append_bias(block, layout.counts_samples(client), value)
        assert wider.shape == (len(samples), len(expected))
        if has_bias:
            column = wider.toarray()[:, -1]
            mine = [designees[s] == client for s in sorted(samples)]
            assert column.tolist() == [value * counted for counted in mine]
            assert layout.counts_samples(client).tolist() == mine
            total[sorted(samples)] += column
    assert total.tolist() == [value] * 7


@given(holdings=overlapping_holdings())
def test_samples_and_features_are_counted_by_one_holder(holdings):
    """Over all clients, each sample and each held feature has one designee."""
    partition = from_holdings(7, 5, holdings)
    layout = layout_of(partition)
    assert layout.n_clients == len(holdings)
    samples, features = np.zeros(7, dtype=int), np.zeros(5, dtype=int)
    for client, holding in enumerate(partition.holdings):
        samples[holding.samples] += layout.counts_samples(client)
        features[holding.features] += layout.counts_features(client)
    assert samples.tolist() == [1] * 7
    assert features.tolist() == np.minimum(partition.features.counts, 1).tolist()
    lowest = [
        next((c for c, (_, held) in enumerate(holdings) if f in held), -1)
        for f in range(5)
    ]
    assert layout.feature_designees.tolist() == lowest


def test_a_layout_is_horizontal_where_samples_have_one_holder():
    """One holder per sample makes it horizontal, whatever the features."""
    assert layout_of(horizontal(6, 4, 3)).is_horizontal
    assert layout_of(from_holdings(2, 2, [([0], [0]), ([1], [1])])).is_horizontal
    assert not layout_of(vertical(6, 4, 2)).is_horizontal
    assert not layout_of(from_holdings(2, 1, [([0, 1], [0]), ([1], [])])).is_horizontal


def test_a_layout_without_bias_has_the_features_of_the_data():
    """Nothing is added unless requested."""
    layout = layout_of(vertical(6, 4, 2))
    assert layout.features.n_items == 4
    assert layout.labelled == (True, True)


@given(axis=_axes(), data=st.data())
def test_holders_among_some_clients_are_counted(axis, data):
    """Only the clients named count."""
    clients = range(len(axis.items))
    some = data.draw(
        st.lists(st.sampled_from(clients), unique=True) if clients else st.just([])
    )
    counts = axis.counts_among(some)
    for item in range(axis.n_items):
        assert counts[item] == sum(item in axis.items[c] for c in some)


SPLITS = {
    "rows": horizontal(12, 4, 3, seed=0),
    "columns": vertical(12, 4, 2, seed=0),
    "grid": grid(12, 4, (3, 2), seed=0),
    "one": grid(12, 4, (1, 1), seed=0),
    "overlapping": from_holdings(4, 2, [(range(3), range(2)), (range(1, 4), range(2))]),
    "missing cell": from_holdings(
        4, 2, [(range(2), [0]), (range(2), [1]), (range(2, 4), [0, 1])]
    ),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("rows", {"rows", "grid"}),
        ("columns", {"columns", "grid"}),
        ("grid", {"grid"}),
        ("one", {"rows", "columns", "grid"}),
        ("overlapping", set()),
        ("missing cell", set()),
    ],
)
def test_splits_are_distinguished(name, kinds, bias):
    """Split rows, split columns and grids, with the bias as a column too."""
    layout = layout_of(SPLITS[name], bias=bias)
    found = {
        "rows": layout.is_row_split,
        "columns": layout.is_column_split,
        "grid": layout.is_grid,
    }
    assert {kind for kind, is_so in found.items() if is_so} == kinds


@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=4))
def test_shared_counts_are_those_of_sets(held):
    """How many items two clients share is the size of the intersection."""
    axis = Axis(10, tuple(np.array(sorted(own), dtype=np.int64) for own in held))
    expected = [[len(one & other) for other in held] for one in held]
    assert shared_counts(axis).tolist() == expected

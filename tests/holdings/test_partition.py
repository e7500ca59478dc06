"""Who holds which cells, by every rule there is."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from hyfdca.holdings.partition import (
    Partition,
    deal_nonzeros,
    from_holdings,
    grid,
    horizontal,
    image_quadrants,
    vertical,
)
from hyfdca.maths.seeds import stream
from tests.support.holding_strategies import overlapping_holdings


def _put_back(partition, blocks):
    """Return the sum of the blocks at their places in the whole table."""
    total = np.zeros((partition.n_samples, partition.n_features))
    for holding, block in zip(partition.holdings, blocks, strict=True):
        assert block.shape == (len(holding.samples), len(holding.features))
        total[np.ix_(holding.samples, holding.features)] += block.toarray()
    return total


def _times_held(partition):
    """Return how many clients hold each cell."""
    times = np.zeros((partition.n_samples, partition.n_features), dtype=int)
    for holding in partition.holdings:
        times[np.ix_(holding.samples, holding.features)] += 1
    return times


MAKERS = {
    "grid": lambda seed: grid(11, 7, (3, 2), seed),
    "grid of one": lambda seed: grid(11, 7, (1, 1), seed),
    "horizontal": lambda seed: horizontal(11, 7, 4, seed),
    "vertical": lambda seed: vertical(11, 7, 3, seed),
    "quadrants": lambda seed: image_quadrants(11, 3, seed, side=4),
    "odd quadrants": lambda seed: image_quadrants(5, 2, seed, side=5),
    "more clients than items": lambda seed: grid(3, 2, (5, 4), seed),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_cell_is_held_once(maker, shuffled, seed):
    """Makers cover the table exactly once, with sorted indices and even groups."""
    partition = maker(seed if shuffled else None)
    assert np.all(_times_held(partition) == 1)
    assert partition.is_disjoint
    for holding in partition.holdings:
        for items in (holding.samples, holding.features):
            assert np.all(np.diff(items) > 0)
    shape = (partition.n_samples, partition.n_features)
    X = sp.csr_array(np.arange(1.0, 1 + np.prod(shape)).reshape(shape))
    np.testing.assert_array_equal(_put_back(partition, partition.split(X)), X.toarray())


def test_the_grid_numbers_its_clients_by_rows(seed):
    """Client k Q + q has the sample group k and the feature group q."""
    partition = grid(10, 6, (3, 2), seed)
    assert partition.n_clients == 6
    held = partition.holdings
    for k in range(3):
        for q in range(2):
            client = held[2 * k + q]
            np.testing.assert_array_equal(client.samples, held[2 * k].samples)
            np.testing.assert_array_equal(client.features, held[q].features)
            assert len(client.samples) in {3, 4}
            assert len(client.features) == 3


def test_groups_without_a_seed_are_runs():
    """Unshuffled groups are neighbouring rows and columns, in order."""
    holding = grid(6, 4, (3, 2)).holdings[3]
    assert holding.samples.tolist() == [2, 3]
    assert holding.features.tolist() == [2, 3]


def test_horizontal_and_vertical_are_grids_of_one_line():
    """One has all the features of some samples, the other the reverse."""
    for client in horizontal(9, 4, 3).holdings:
        assert client.features.tolist() == [0, 1, 2, 3]
    for client in vertical(9, 4, 3).holdings:
        assert client.samples.tolist() == list(range(9))


@pytest.mark.parametrize(
    "make",
    [
        grid,
        lambda n, m, shape, s: deal_nonzeros(sp.csr_array(np.ones((n, m))), shape, s),
    ],
    ids=["grid", "deal"],
)
def test_partitions_follow_from_their_seed(make, seed):
    """The same seed gives the same groups, another seed different ones."""
    first, again, other = (make(40, 20, (2, 2), s) for s in (seed, seed, seed + 1))
    samples = [[h.samples.tolist() for h in p.holdings] for p in (first, again, other)]
    assert samples[0] == samples[1] != samples[2]
    if first.cell_owners is not None:
        np.testing.assert_array_equal(first.cell_owners, again.cell_owners)
        assert not np.array_equal(first.cell_owners, other.cell_owners)


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (-1, 1)])
def test_a_grid_without_groups_is_refused(shape):
    """Each axis has at least one group."""
    with pytest.raises(ValueError, match=r"at least one group of (samples|features)"):
        grid(4, 4, shape)


@pytest.mark.parametrize("side", [4, 28])
def test_quadrants_are_the_quarters_of_an_image(side):
    """Upper left, upper right, lower left, lower right, with the bias in the last."""
    n_groups, half = 3, side // 2
    partition = image_quadrants(7, n_groups, side=side)
    assert partition.n_features == side * side + 1
    corners = [(0, 0), (0, half), (half, 0), (half, half)]
    for quadrant, (top, left) in enumerate(corners):
        image = np.zeros((side, side), dtype=bool)
        image[top : top + half, left : left + half] = True
        expected = np.flatnonzero(image.ravel()).tolist()
        if quadrant == 3:
            expected.append(side * side)
        for group in range(n_groups):
            holding = partition.holdings[quadrant * n_groups + group]
            assert holding.features.tolist() == expected
            same_rows = partition.holdings[group].samples
            np.testing.assert_array_equal(holding.samples, same_rows)


@pytest.fixture
def sparse_table(seed):
    random = stream(seed, "sparse")
    X = random.normal(size=(30, 25)) * (random.random((30, 25)) < 0.3)
    X[4] = 0.0
    return sp.csr_array(X)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (2, 9)])
def test_nonzeros_are_dealt_evenly_within_a_group(sparse_table, shape, seed):
    """Each sample's values go to the clients of its group, counts within one."""
    K, Q = shape
    partition = deal_nonzeros(sparse_table, shape, seed)
    blocks = partition.split(sparse_table)
    np.testing.assert_array_equal(_put_back(partition, blocks), sparse_table.toarray())
    assert sum(block.nnz for block in blocks) == sparse_table.nnz
    counts = np.zeros((30, Q), dtype=int)
    for k in range(K):
        rows = partition.holdings[k * Q].samples
        for q in range(Q):
            holding, block = partition.holdings[k * Q + q], blocks[k * Q + q]
            np.testing.assert_array_equal(holding.samples, rows)
            counts[rows, q] = np.diff(block.indptr)
            # A client's features are those it has values for.
            assert set(block.indices) == set(range(len(holding.features)))
    spread = counts.max(axis=1) - counts.min(axis=1)
    assert spread.max() <= 1
    np.testing.assert_array_equal(
        counts.sum(axis=1), np.count_nonzero(sparse_table.toarray(), axis=1)
    )
    if Q > 1:  # nobody is always first to be dealt to
        assert len(np.unique(counts.argmax(axis=1))) > 1


def test_a_dealt_partition_refuses_another_matrix(sparse_table, seed):
    """Cells were dealt one by one, so only that matrix can be split."""
    partition = deal_nonzeros(sparse_table, (2, 2), seed)
    fewer = sparse_table.copy()
    fewer.data[0] = 0.0
    fewer.eliminate_zeros()
    elsewhere = sparse_table.copy()
    elsewhere.indices = elsewhere.indices[::-1].copy()
    for other in (fewer, elsewhere):
        with pytest.raises(ValueError, match="dealt from another matrix"):
            partition.split(other)


@pytest.mark.parametrize("shape", [(10, 7), (7, 11), (0, 0)])
def test_a_table_of_another_shape_is_refused(shape):
    """The message names both shapes and the way out."""
    X = sp.csr_array(np.zeros(shape))
    sizes = f"{shape[0]} by {shape[1]}"
    expected = f"10 samples by 11 features, but X is {sizes}; .*by_column or by_func"
    with pytest.raises(ValueError, match=expected):
        grid(10, 11, (2, 2)).split(X)


@given(holdings=overlapping_holdings())
def test_cells_held_twice_are_counted_once(holdings):
    """Blocks put back give the table masked to held cells; the lowest rank owns."""
    X = np.arange(1.0, 36.0).reshape(7, 5)
    partition = from_holdings(7, 5, holdings)
    blocks = partition.split(sp.csr_array(X))
    held = _times_held(partition) > 0
    np.testing.assert_array_equal(_put_back(partition, blocks), np.where(held, X, 0))
    taken = np.zeros((7, 5), dtype=bool)
    for (samples, features), block in zip(holdings, blocks, strict=True):
        place = np.ix_(sorted(samples), sorted(features))
        expected = np.where(taken[place], 0.0, X[place])
        np.testing.assert_array_equal(block.toarray(), expected)
        assert block.nnz == np.count_nonzero(expected)
        taken[place] = True


def test_holdings_are_sorted_and_may_be_empty():
    """Index lists come in any order; a client may hold nothing at all."""
    partition = from_holdings(3, 2, [([2, 0, 1], [1, 0]), ([], []), ([1], [])])
    assert partition.holdings[0].samples.tolist() == [0, 1, 2]
    assert partition.holdings[0].features.tolist() == [0, 1]
    assert partition.n_clients == 3
    shapes = [block.shape for block in partition.split(sp.csr_array(np.ones((3, 2))))]
    assert shapes == [(3, 2), (0, 0), (1, 0)]


def test_features_nobody_holds_are_left_out():
    """A feature that nobody holds is in no block and has no holders."""
    partition = from_holdings(2, 3, [([0], [0]), ([1], [0, 2])])
    assert partition.features.counts.tolist() == [2, 0, 1]
    assert [b.nnz for b in partition.split(sp.csr_array(np.ones((2, 3))))] == [1, 2]


@pytest.mark.parametrize(
    ("holdings", "message"),
    [
        ([([0, 2], [0])], "No client holds 1 of 3 samples"),
        ([], "No client holds 3 of 3 samples"),
        ([([0, 1, 2], [0]), ([3], [])], "samples of client 1 must lie between 0 and 2"),
        ([([-1, 0, 1, 2], [0])], "samples of client 0 must lie between 0 and 2"),
        ([([0, 1, 2], [4])], "features of client 0 must lie between 0 and 3"),
        ([([0, 1, 2, 1], [0])], "samples of client 0 repeat 1 number;"),
        ([([0, 1, 2], [1, 1, 1])], "features of client 0 repeat 2 numbers"),
        ([([[0, 1, 2]], [0])], "samples of client 0 must be a list of whole numbers"),
        ([([0.0, 1.0, 2.0], [0])], "samples of client 0 must be a list of whole"),
        ([([True, True], [0])], "mask of the samples of client 0 must have 3 entries"),
        ([([0, 1, 2], ["a"])], "features of client 0 must be a list of whole"),
    ],
)
def test_bad_holdings_are_refused(holdings, message):
    """The message names the client and what is wrong with its lists."""
    with pytest.raises(ValueError, match=message):
        from_holdings(3, 4, holdings)


def test_an_empty_partition_has_empty_axes():
    """A table without clients has counts of zero, not an error."""
    partition = Partition(3, 2, ())
    assert partition.samples.counts.tolist() == [0, 0, 0]
    assert partition.features.places == ()

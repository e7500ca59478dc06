"""Where numbers stand in blocks, against brute force: no block mixes groups."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hyfdca.crypto.schemes.arrangement import Arrangement, opaque_groups
from hyfdca.crypto.schemes.plain import PlainAdder
from hyfdca.federation.sums import layout_for
from hyfdca.holdings.axis import Axis, owner_groups
from tests.support.holding_strategies import subsets

GROUPS = st.lists(st.integers(0, 3) | st.integers(0, 2**31 - 2), max_size=12)
WIDTHS = st.integers(1, 9)
SLOTS = st.integers(1, 7)


def blocks_of(groups, width, n_slots):
    """Return blocks by brute force: lists of (item, column), the groups in order."""
    blocks = []
    for group in sorted(set(groups)):
        items = [item for item, of in enumerate(groups) if of == group]
        numbers = list(itertools.product(items, range(width)))
        blocks += [numbers[i : i + n_slots] for i in range(0, len(numbers), n_slots)]
    return blocks


def arranged(groups):
    return Arrangement(np.array(groups, np.int64))


def filled_by_hand(blocks, table, n_slots):
    """Return blocks with the numbers of a map from (item, column), zeros elsewhere."""
    rows = [[table.get(number, 0) for number in block] for block in blocks]
    return [row + [0] * (n_slots - len(row)) for row in rows]


@given(GROUPS, WIDTHS, SLOTS, st.data())
def test_blocks_are_filled_as_by_hand(groups, width, n_slots, data):
    """All items, or some with zeros elsewhere, are where brute force puts them."""
    expected = blocks_of(groups, width, n_slots)
    blocks = arranged(groups).blocks(width, n_slots)
    assert blocks.n_blocks == len(expected)
    for items in (None, data.draw(subsets(len(groups)))):
        chosen = list(range(len(groups))) if items is None else items
        numbers = data.draw(
            arrays(np.int64, (len(chosen), width), elements=st.integers(1, 2**60))
        )
        table = {
            (item, c): int(numbers[row, c])
            for row, item in enumerate(chosen)
            for c in range(width)
        }
        covering = [b for b in expected if any(i in chosen for i, _ in b)]
        given_items = None if items is None else np.array(items, np.int64)
        filled = blocks.fill(numbers, given_items)
        assert filled.shape == (len(covering), n_slots)
        assert filled.tolist() == filled_by_hand(covering, table, n_slots)
        read = blocks.read(filled, given_items)
        assert read.shape == numbers.shape
        np.testing.assert_array_equal(read, numbers)


@given(GROUPS, WIDTHS, SLOTS, st.data())
def test_blocks_of_some_items_have_the_rest_between(groups, width, n_slots, data):
    """Where a whole vector is given, other items of these blocks have its numbers."""
    rest = data.draw(
        arrays(np.int64, (len(groups), width), elements=st.integers(1, 2**60))
    )
    items = np.array(data.draw(subsets(len(groups))), np.int64)
    table = {(i, c): int(rest[i, c]) for i, c in np.ndindex(*rest.shape)}
    covering = [
        block
        for block in blocks_of(groups, width, n_slots)
        if any(i in items for i, _ in block)
    ]
    blocks = arranged(groups).blocks(width, n_slots)
    filled = blocks.fill(rest[items], items, rest)
    assert filled.tolist() == filled_by_hand(covering, table, n_slots)
    np.testing.assert_array_equal(blocks.read(filled, items), rest[items])


@given(GROUPS, WIDTHS, SLOTS, st.data())
def test_covering_blocks_are_found(groups, width, n_slots, data):
    """They are those with a number of an item, ascending and each once."""
    expected = blocks_of(groups, width, n_slots)
    blocks = arranged(groups).blocks(width, n_slots)
    assert blocks.covering(None).tolist() == list(range(len(expected)))
    items = data.draw(subsets(len(groups)))
    covering = [
        place
        for place, block in enumerate(expected)
        if any(item in items for item, _ in block)
    ]
    assert blocks.covering(np.array(items, np.int64)).tolist() == covering


@given(GROUPS, WIDTHS, SLOTS)
def test_no_block_mixes_groups(groups, width, n_slots):
    """Numbered by their group, the items of a block have one number."""
    numbers = np.repeat(np.array(groups, np.int64)[:, None] + 1, width, axis=1)
    filled = arranged(groups).blocks(width, n_slots).fill(numbers, None)
    for block in filled.tolist():
        assert len({number for number in block if number}) == 1
    assert np.count_nonzero(filled) == numbers.size


@given(GROUPS)
def test_ranks_and_sizes(groups):
    """An item's rank is the number of items of its group before it."""
    arrangement = arranged(groups)
    ranks = [groups[:item].count(group) for item, group in enumerate(groups)]
    assert arrangement.ranks.tolist() == ranks
    assert arrangement.sizes.tolist() == [groups.count(g) for g in sorted(set(groups))]
    assert arrangement.n_items == len(groups)


@pytest.mark.parametrize("n_items", [0, 1, 4])
def test_together_and_apart(n_items):
    """Totals are one group, buckets a group each."""
    together, apart = Arrangement.together(n_items), Arrangement.apart(n_items)
    assert together.groups.tolist() == [0] * n_items
    assert apart.groups.tolist() == list(range(n_items))
    assert together.blocks(2, 100).n_blocks == min(n_items, 1)
    assert apart.blocks(2, 100).n_blocks == n_items


def test_no_items_are_no_blocks():
    """Without items there is nothing to seal."""
    blocks = Arrangement.together(0).blocks(3, 5)
    nothing = np.empty((0, 3), np.int64)
    assert blocks.n_blocks == 0
    for items in (None, np.empty(0, np.int64)):
        filled = blocks.fill(nothing, items)
        assert filled.shape == (0, 5)
        assert blocks.read(filled, items).shape == (0, 3)
        assert blocks.fill(nothing, items, nothing).shape == (0, 5)


@given(GROUPS, st.data())
def test_some_items_as_a_vector_of_their_own(groups, data):
    """They keep their groups and their ranks among themselves."""
    items = data.draw(subsets(len(groups)))
    apart = arranged(groups).restricted(np.array(items, np.int64))
    expected = arranged([groups[item] for item in items])
    assert apart.groups.tolist() == expected.groups.tolist()
    assert apart.ranks.tolist() == expected.ranks.tolist()


# The same on both sides


class Packed(PlainAdder):
    """An adder of blocks, as far as a layout needs it."""

    def __init__(self, n_slots):
        self.n_slots = n_slots


HOLDINGS = st.lists(subsets(12), min_size=1, max_size=4)


@given(HOLDINGS, WIDTHS, SLOTS, st.data())
def test_clients_and_server_number_blocks_alike(holdings, width, n_slots, data):
    """The blocks of a client are the server's blocks of its groups, in that order."""
    axis = Axis(12, tuple(np.array(items, np.int64) for items in holdings))
    groups = owner_groups(axis)
    layout = layout_for(axis, groups, width, Packed(n_slots))
    on_server = blocks_of(groups.tolist(), width, n_slots)
    assert layout.axis.n_items == len(on_server)
    for client, items in enumerate(holdings):
        own = blocks_of(groups[axis.items[client]].tolist(), width, n_slots)
        as_items = [[(items[place], c) for place, c in block] for block in own]
        units = layout.axis.items[client].tolist()
        assert [on_server[unit] for unit in units] == as_items
        assert units == [
            unit for unit, block in enumerate(on_server) if block[0][0] in items
        ]
        positions = data.draw(subsets(len(items)))
        found = layout.units(client, np.array(positions, np.int64)).tolist()
        arrangement = Arrangement(groups[axis.items[client]])
        covering = arrangement.blocks(width, n_slots).covering(
            np.array(positions, np.int64)
        )
        assert found == covering.tolist()
        wanted = {items[position] for position in positions}
        blocks = [on_server[units[place]] for place in found]
        assert all({i for i, _ in block} & wanted for block in blocks)
        assert wanted <= {i for block in blocks for i, _ in block}
        assert all(i in items for block in blocks for i, _ in block)


@given(HOLDINGS)
def test_an_owner_group_is_the_items_with_the_same_holders(holdings):
    """Two items have one number where exactly the same clients have them."""
    axis = Axis(12, tuple(np.array(items, np.int64) for items in holdings))
    groups = owner_groups(axis).tolist()
    owners = [
        tuple(k for k, items in enumerate(holdings) if item in items)
        for item in range(12)
    ]
    for one, other in itertools.combinations(range(12), 2):
        assert (groups[one] == groups[other]) == (owners[one] == owners[other])


@given(GROUPS, st.binary(min_size=32, max_size=32))
def test_numbers_of_groups_come_of_the_secret(groups, secret):
    """They tell groups apart, are the same again, and others elsewhere."""
    groups = np.array(groups, np.int64)
    opaque = opaque_groups(groups, secret, "samples")
    assert (opaque[:, None] == opaque).tolist() == (groups[:, None] == groups).tolist()
    again = opaque_groups(groups, secret, "samples")
    np.testing.assert_array_equal(again, opaque)
    other = bytes(byte ^ 1 for byte in secret)
    for others in [(other, "samples"), (secret, "features")]:
        assert not np.any(opaque_groups(groups, *others) == opaque)


def test_many_groups_have_distinct_numbers():
    """If numbers are drawn twice, more are drawn."""
    numbers = opaque_groups(np.arange(200_000), bytes(32), "samples")
    assert len(np.unique(numbers)) == 200_000
    assert 0 <= numbers.min() <= numbers.max() < 2**31

"""Which samples share a cutting plane, against a search through all holders."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.algorithms.bundle.buckets import (
    buckets_of,
    open_groups,
    owner_groups,
    sealed_groups,
)
from hyfdca.holdings import partition as parts
from hyfdca.holdings.layout import layout_of
from tests.support.holding_strategies import overlapping_holdings

MOST = 125


def one_bucket(layout):
    return buckets_of(layout, np.zeros(layout.samples.n_items, np.int64))


def open_buckets(layout, sub_groups, min_size):
    return buckets_of(layout, open_groups(layout, sub_groups, min_size), MOST)


def sealed_buckets(layout, min_contributors):
    return buckets_of(layout, sealed_groups(layout, min_contributors), MOST)


@st.composite
def _layouts(draw, n_samples=12, n_features=4):
    """Draw the layout of overlapping holdings."""
    holdings = draw(overlapping_holdings(n_samples, n_features, max_clients=6))
    return layout_of(parts.from_holdings(n_samples, n_features, holdings))


def _grid_layout(shape, n_samples=400, n_features=6):
    return layout_of(parts.grid(n_samples, n_features, shape, seed=0))


def _holders(axis):
    """Return the set of holders of each item."""
    return [
        frozenset(c for c, items in enumerate(axis.items) if item in items)
        for item in range(axis.n_items)
    ]


def _members(of_sample):
    """Return the samples of each bucket or group, by its number."""
    return [np.flatnonzero(of_sample == n).tolist() for n in range(of_sample.max() + 1)]


def _contributing(layout, buckets, bucket, feature):
    """Return how many holders of a feature have a sample of the bucket."""
    return sum(
        feature in features and bucket in buckets.of_sample[samples]
        for samples, features in zip(
            layout.samples.items, layout.features.items, strict=True
        )
    )


def _are_enough(layout, buckets, min_contributors):
    """Return, by bucket, whether enough clients contribute to every feature."""
    return [
        all(
            _contributing(layout, buckets, bucket, feature)
            >= min(min_contributors, holders)
            for feature, holders in enumerate(layout.features.counts)
        )
        for bucket in range(buckets.n_buckets)
    ]


@given(_layouts())
def test_an_owner_group_is_the_samples_with_the_same_holders(layout):
    """Two samples share a group exactly if the same clients hold them."""
    holders = _holders(layout.samples)
    groups = owner_groups(layout.samples)
    numbers = {holders[sample]: group for sample, group in enumerate(groups.tolist())}
    assert [numbers[h] for h in holders] == groups.tolist()
    assert sorted(numbers.values()) == list(range(len(set(holders))))


@pytest.mark.parametrize("kind", ["one", "open", "sealed"])
@given(layout=_layouts(), size=st.integers(1, 4))
def test_every_sample_is_in_one_bucket(kind, layout, size):
    """Buckets are numbered without gaps, and clients know those they are in."""
    makers = {
        "one": one_bucket,
        "open": lambda given: open_buckets(given, size, size),
        "sealed": lambda given: sealed_buckets(given, size),
    }
    buckets = makers[kind](layout)
    assert len(buckets.of_sample) == layout.samples.n_items
    assert set(buckets.of_sample.tolist()) == set(range(buckets.n_buckets))
    for client, samples in enumerate(layout.samples.items):
        own = buckets.of_client[client]
        assert own.tolist() == sorted(set(buckets.of_sample[samples].tolist()))
        local = buckets.local(layout.samples, client)
        assert own[local].tolist() == buckets.of_sample[samples].tolist()


@given(_layouts(), st.integers(1, 5), st.integers(1, 5))
def test_an_open_bucket_is_part_of_one_owner_group(layout, sub_groups, min_size):
    """A group is one bucket, or several even parts that are large enough."""
    buckets = open_buckets(layout, sub_groups, min_size)
    groups = owner_groups(layout.samples)
    parts_of = {group: [] for group in set(groups.tolist())}
    for samples in _members(buckets.of_sample):
        [group] = set(groups[samples].tolist())
        parts_of[group].append(len(samples))
    for group, sizes in parts_of.items():
        most = min(sub_groups, np.sum(groups == group) // min_size)
        assert len(sizes) == max(most, 1)
        assert len(sizes) == 1 or min(sizes) >= min_size
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("n_groups", [MOST, MOST + 1, 3 * MOST])
def test_there_are_not_too_many_buckets(profile, n_groups):
    """Beyond the largest number neighbouring groups are put together, evenly."""
    layout = _grid_layout((n_groups, 1))
    made = (
        open_buckets(layout, 1, 20) if profile == "open" else sealed_buckets(layout, 1)
    )
    sizes = np.bincount(made.of_sample)
    groups = owner_groups(layout.samples)
    whole = [set(groups[samples].tolist()) for samples in _members(made.of_sample)]
    assert MOST / 2 < made.n_buckets <= MOST
    assert all(max(first) < min(second) for first, second in pairwise(whole))
    assert sizes.max() <= 2 * np.ceil(layout.samples.n_items / MOST)


@given(_layouts(), st.integers(1, 4))
def test_a_sealed_bucket_hides_every_client(layout, min_contributors):
    """Enough clients contribute to every feature in each bucket.

    Where not even all samples together are enough, they are one bucket. Groups that
    are left over are part of the last bucket.
    """
    buckets = sealed_buckets(layout, min_contributors)
    if all(_are_enough(layout, one_bucket(layout), min_contributors)):
        assert all(_are_enough(layout, buckets, min_contributors))
    else:
        assert buckets.n_buckets == 1
    groups = owner_groups(layout.samples)
    for group in _members(groups):
        assert len(set(buckets.of_sample[group].tolist())) == 1


@pytest.mark.parametrize(
    ("shape", "min_contributors", "expected"),
    [
        ((6, 2), 1, 6),
        ((6, 2), 3, 2),
        ((7, 2), 3, 2),  # the last group joins the second bucket
        ((6, 2), 4, 1),
        ((6, 2), 100, 1),  # all six holders of a feature are as many as there are
        ((2, 3), 3, 1),
    ],
)
def test_sealed_buckets_of_a_grid(shape, min_contributors, expected):
    """Each row of clients is a group, and as many rows as wanted make a bucket."""
    layout = _grid_layout(shape)
    buckets = sealed_buckets(layout, min_contributors)
    assert buckets.n_buckets == expected
    assert all(_are_enough(layout, buckets, min_contributors))


def test_one_bucket_where_a_holder_has_no_samples():
    """A feature whose holders can never all contribute leaves a single bucket."""
    holdings = [(range(6), range(2)), (range(6, 12), range(2)), ([], range(2))]
    layout = layout_of(parts.from_holdings(12, 2, holdings))
    assert sealed_buckets(layout, 3).n_buckets == 1
    assert sealed_buckets(layout, 1).n_buckets == 2


@given(_layouts(), st.integers(1, 4))
def test_contributors_are_counted(layout, min_contributors):
    """The parts that add up to a feature's slopes, over all buckets."""
    for buckets in (
        open_buckets(layout, 2, min_contributors),
        sealed_buckets(layout, min_contributors),
    ):
        expected = [
            sum(
                _contributing(layout, buckets, bucket, feature)
                for bucket in range(buckets.n_buckets)
            )
            for feature in range(layout.features.n_items)
        ]
        assert buckets.contributors(layout).tolist() == expected

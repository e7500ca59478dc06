"""Sums by themselves, every number of which says whose it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.registry import Adders, public_parameters
from hyfdca.federation.sums import CachedSum, RunningSum, layout_for
from hyfdca.holdings.axis import Axis, owner_groups
from hyfdca.protocol import messages as m
from tests.crypto.owner_blocks import blocks_of, owners_of
from tests.support.holding_strategies import subsets
from tests.support.sealed_runs import ENCRYPTIONS, keys_of
from tests.support.set_keys import sealer_of
from tests.support.thoroughness import examples

pytestmark = pytest.mark.usefixtures("small_paillier")

# A fixture that is the same for all examples may be shared by them.
MANY = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def _marker(item: int, column: int, width: int) -> int:
    """Return a number that, times any small count, tells item, column and count."""
    return 1000 * (item * width + column + 1) + 1


def _decoded(number: int, width: int) -> tuple[int, int, int]:
    """Return the item, the column and how many parts a sum of markers has."""
    count = number % 1000
    place = (number // count - 1) // 1000 - 1
    return place // width, place % width, count


def _marked(kind, axis, width, sealer, adder):
    """Return the sum to which every client has given a marker a number."""
    groups = owner_groups(axis)
    total = kind(layout_for(axis, groups, width, adder))
    for client, items in enumerate(axis.items):
        numbers = [[_marker(i, c, width) for c in range(width)] for i in items.tolist()]
        table = np.array(numbers, np.int64).reshape(-1, width)
        sealed = sealer.seal(table, Arrangement(groups[items]))
        take_part = total.put if kind is CachedSum else total.add
        take_part(client, m.Sealed(0, sealed), None)
    return total


@pytest.mark.parametrize("kind", [CachedSum, RunningSum])
@pytest.mark.parametrize(
    "name", ["paillier", pytest.param("bfv-compact", marks=pytest.mark.slow)]
)
@MANY
@given(
    holdings=st.lists(subsets(30), min_size=1, max_size=5),
    width=st.integers(1, 10),
    data=st.data(),
)
def test_blocks_that_are_taken_for_a_client(name, kind, holdings, width, data):
    """Every number in them is a sum of all parts of an item that the client holds."""
    encryption = ENCRYPTIONS[name]
    keys = keys_of(encryption)
    sealer = sealer_of(encryption, keys, encryption.scheme)
    adder = Adders(encryption, public_parameters(keys)).named(encryption.scheme)
    axis = Axis(30, tuple(np.array(items, np.int64) for items in holdings))
    total = _marked(kind, axis, width, sealer, adder)
    client = data.draw(st.sampled_from(range(len(holdings))))
    n_held = len(holdings[client])
    positions = np.array(data.draw(subsets(n_held)), np.int64)
    for rows in (None, positions):
        asked = range(n_held) if rows is None else rows.tolist()
        if not asked:
            assert not any(len(t.payload) > 1 for t in total.take(client, rows))
            continue
        [taken] = total.take(client, rows)
        owners = owners_of(axis, client)
        cipher = sealer._cipher
        groups = dict.fromkeys(owners, 0)  # how many blocks, in whatever order
        n_blocks = len(blocks_of(owners, list(asked), width, cipher.n_slots, groups))
        content = np.frombuffer(taken.payload, np.uint8)[n_blocks // 8 + 1 :]
        sealed = content.reshape(n_blocks, cipher.block_bytes)
        opened = cipher.open(sealed, np.zeros(n_blocks, np.int64))  # one key for all
        decoded = [_decoded(n, width) for n in opened.ravel().tolist() if n]
        assert len(decoded) == len(set(decoded))
        for item, column, count in decoded:
            assert item in holdings[client]
            assert column < width
            assert count == sum(item in items for items in holdings)
        wanted = {(holdings[client][p], c) for p in asked for c in range(width)}
        assert wanted <= {(item, column) for item, column, _ in decoded}

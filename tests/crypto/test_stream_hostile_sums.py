"""Sums of the stream that a hostile server makes up: refused, and at no cost."""

from __future__ import annotations

import itertools
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.stream import StreamSealer
from hyfdca.crypto.schemes.stream_sums import StreamAdder
from tests.support.set_keys import OneKey

KEY = bytes(range(32))


def a_sum(
    n_nonces=1,
    *,
    lengths=(3,),
    ids=((1,),),
    n_words=3,
    header=None,
    nonces=None,
    widths=(4, 4),
) -> bytes:
    """Return a sum as it is written, any part of it as one likes."""
    depth = len(ids[0]) if ids else 0
    header = header or (n_nonces, len(lengths), depth)
    flat = [i for row in ids for i in row]
    return (
        struct.pack("<IIIBB", *header, *widths)
        + (bytes(24 * n_nonces) if nonces is None else nonces)
        + struct.pack(f"<{len(lengths)}I", *lengths)
        + struct.pack(f"<{len(flat)}I", *flat)
        + bytes(8 * n_words)
    )


HUGE = 2**32 - 1

HOSTILE = {
    "nothing": b"",
    "half a header": bytes(7),
    "numbers of no bytes": a_sum(widths=(0, 4)),
    "numbers of three bytes": a_sum(widths=(4, 3)),
    "numbers of eight bytes": a_sum(widths=(8, 4)),
    "many nonces": a_sum(header=(HUGE, 1, 1)),
    "many runs": a_sum(header=(1, HUGE, 1)),
    "many ids": a_sum(header=(1, 1, HUGE)),
    "many of all": a_sum(header=(HUGE, HUGE, HUGE)),
    "no runs": a_sum(lengths=(), ids=(), header=(1, 0, HUGE)),
    "too few rows": a_sum(lengths=(2,)),
    "too many rows": a_sum(lengths=(4,)),
    "a huge run": a_sum(lengths=(HUGE,)),
    "runs that wrap": a_sum(lengths=(HUGE, 4), ids=((1,), (1,))),
    "an id beyond": a_sum(ids=((2,),)),
    "a huge id": a_sum(ids=((HUGE,),)),
    "an id beyond in a run of none": a_sum(lengths=(3, 0), ids=((1,), (9,))),
    "too few words": a_sum(n_words=2),
    "too many words": a_sum(n_words=4),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_sum_is_refused_and_costs_nothing(name):
    """Sizes are compared with the bytes there are before anything is made of them."""
    sealer = StreamSealer(OneKey(KEY))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"than it says|do not fit"):
            sealer.open(memoryview(HOSTILE[name]), 1, Arrangement.together(3))
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def _nonces(n_identities: int, n_vectors: int = 1) -> bytes:
    """Return nonces of some sealers, each with some vectors."""
    each = itertools.product(range(n_identities), range(n_vectors))
    return b"".join(struct.pack("<QQQ", sealer, 7, vector) for sealer, vector in each)


@pytest.mark.parametrize(
    ("n_identities", "n_vectors", "is_possible"),
    [(4, 1, True), (4, 5, True), (4, 6, False), (80, 1, False)],
    ids=["everybody", "before resealing", "never resealed", "strangers"],
)
def test_a_sum_names_no_more_contributors_than_there_are(
    n_identities, n_vectors, is_possible
):
    """Each pad takes time, so those of a sum that no study has are not computed."""
    n_nonces = n_identities * n_vectors
    content = a_sum(
        n_nonces, ids=(range(1, n_nonces + 1),), nonces=_nonces(n_identities, n_vectors)
    )
    sealer = StreamSealer(OneKey(KEY), n_clients=4)
    if is_possible:
        assert sealer.open(memoryview(content), 1, Arrangement.together(3)).size == 3
        return
    with pytest.raises(ValueError, match="more contributors than the study has"):
        sealer.open(memoryview(content), 1, Arrangement.together(3))


def test_the_sum_that_hostile_ones_are_made_of_opens():
    """So hostile sums are refused because of what was changed."""
    opened = StreamSealer(OneKey(KEY)).open(
        memoryview(a_sum()), 1, Arrangement.together(3)
    )
    assert opened.shape == (3, 1)


def test_a_sum_of_no_rows():
    """Who has no items gets none, whatever the list says of depths."""
    sealer = StreamSealer(OneKey(KEY))
    empty = a_sum(lengths=(), ids=(), n_words=0, header=(0, 0, HUGE), nonces=b"")
    opened = sealer.open(memoryview(empty), 2, Arrangement.together(0))
    assert opened.shape == (0, 2)


@given(st.binary(max_size=120), st.integers(0, 4))
def test_anything_is_a_sum_or_a_value_error(payload, n_items):
    """Hostile bytes never cause any other error."""
    try:
        opened = StreamSealer(OneKey(KEY)).open(
            memoryview(payload), 1, Arrangement.together(n_items)
        )
    except ValueError:
        return
    assert opened.shape == (n_items, 1)


@pytest.mark.parametrize("size", [0, 8, 23, 24, 47, 49, 56])
def test_a_part_of_another_size_is_refused(size):
    """A client's vector is a nonce and its words, no more and no less."""
    with pytest.raises(ValueError, match="3 numbers of 8 bytes"):
        StreamAdder().load(memoryview(bytes(size)), (3, 1))


@pytest.mark.parametrize("is_zero", [True, False])
def test_numbers_that_nobody_sealed_are_refused(is_zero):
    """A server cannot choose what a client opens; where nobody added, there is 0."""
    words = bytes(16) if is_zero else b"\1" + bytes(15)
    head = struct.pack("<IIIBB", 0, 1, 0, 1, 1) + bytes([2])
    payload, sealer = memoryview(head + words), StreamSealer(OneKey(KEY))
    if is_zero:
        assert not sealer.open(payload, 1, Arrangement.together(2)).any()
        return
    with pytest.raises(ValueError, match="no contributor"):
        sealer.open(payload, 1, Arrangement.together(2))

"""Pseudonyms brought together, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.stages.alignment import matching
from hyfdca.stages.alignment.matching import match, n_repeated

WORDS = st.sampled_from([0, 1, 2**63, 2**64 - 1])  # few, so that one word may agree
OWN = st.lists(st.tuples(WORDS, WORDS), unique=True)


def as_tokens(pairs):
    return np.array(pairs, dtype=np.uint64).reshape(-1, 2)


@given(st.lists(OWN, min_size=1, max_size=4))
def test_equal_pseudonyms_meet(clients):
    """Numbers follow the first occurrence; two words must agree, not one of them."""
    every = dict.fromkeys(pair for own in clients for pair in own)
    numbers = {pair: number for number, pair in enumerate(every)}
    matched = match(dict(enumerate(map(as_tokens, clients))))
    assert matched.axis.n_items == len(numbers)
    for own, items, order in zip(
        clients, matched.axis.items, matched.orders, strict=True
    ):
        assert items.tolist() == sorted(numbers[pair] for pair in own)
        assert [numbers[own[place]] for place in order] == items.tolist()


@given(st.lists(st.tuples(WORDS, WORDS)))
def test_repeated_pseudonyms_are_counted(pairs):
    """Repeated ones are as many as there are too many."""
    assert n_repeated(as_tokens(pairs)) == len(pairs) - len(set(pairs))


def test_a_client_that_repeats_itself():
    """The client is named, with the count."""
    repeating = as_tokens([(1, 2), (3, 4), (1, 2), (1, 2)])
    with pytest.raises(
        RemoteProtocolError, match="client 3: it sent 2 pseudonyms twice"
    ):
        match({0: as_tokens([(1, 2)]), 3: repeating})


def test_too_many_rows(monkeypatch):
    """More rows than positions can name are refused before they are sorted."""
    monkeypatch.setattr(matching, "_MOST", 3)
    with pytest.raises(RemoteProtocolError, match="too many"):
        match(dict.fromkeys(range(2), as_tokens([(1, 2), (3, 4)])))

"""Lengths of notes that a server sees: of few cells, they do not tell which."""

from __future__ import annotations

import pytest

from hyfdca.stages.alignment.lengths import padded_count


@pytest.mark.parametrize(
    ("most", "found"), [(1, {1}), (10, {10}), (40, {16, 32, 40}), (33, {16, 32, 33})]
)
def test_padded_counts(most, found):
    """All counts up to the least one have one length, beyond it powers of two."""
    lengths = [padded_count(count, most, 16) for count in range(most + 1)]
    assert {*lengths} == found
    assert all(count <= length for count, length in enumerate(lengths))

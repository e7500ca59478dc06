"""Words of sentences that users see."""

from __future__ import annotations

import pytest

from hyfdca.errors import counted


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((0, "row"), "0 rows"),
        ((1, "row"), "1 row"),
        ((1200, "row"), "1,200 rows"),
        ((1, "cell is", "cells are"), "1 cell is"),
        ((2, "cell is", "cells are"), "2 cells are"),
    ],
)
def test_counts_agree_with_their_nouns(words, sentence):
    """Only a count of 1 is singular."""
    assert counted(*words) == sentence

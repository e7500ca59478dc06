"""Words of sentences that users see."""

from __future__ import annotations

import pytest

from hyfdca.errors import counted, plain_mistake


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


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Expected `float` >= 1e-100", "expected a number of at least 1e-100"),
        ("Expected `float` > 0.0", "expected a number above 0.0"),
        ("Expected `int`, got `float`", "expected a whole number, got a number with a"),
        ("Expected `bool`, got `str`", "expected true or false, got text"),
        ("Expected `str | null`, got `array`", "expected text, got a list"),
        ("Expected `int | float | str | null`", "expected a number or text"),
        ("Expected `array` of length >= 2", "expected a list of at least 2 entries"),
        ("Expected `array` of length >= 1", "expected a list of at least 1 entry"),
        ("Expected `str` of length <= 1", "expected text of at most 1 character"),
        ("Expected `date`, got `int`", "expected a date such as 2024-12-31, got a who"),
        (
            "Expected `date`, got `datetime`",
            "expected a date such as 2024-12-31, got a ",
        ),
        ("Expected `str`, got `date`", "expected text, got a date"),
        ("Expected `str`, got `datetime`", "expected text, got a date with a time"),
        ("Expected `str`, got `time`", "expected text, got a time"),
        ("Invalid RFC3339 encoded date", "expected a date such as 2024-12-31"),
        ("Expected `object`, got `null`", "expected a table, got nothing"),
        ("Invalid enum value 'x'", "unknown value 'x'"),
        ("Expected `str` matching regex '^a'", "expected `str` matching regex '^a'"),
    ],
)
def test_words_of_a_schema_are_plain(theirs, ours):
    """A study file has numbers, text and lists, not floats and arrays."""
    said = plain_mistake(ValueError(f"{theirs} - at `$.study.l2`"))
    assert said.startswith(f" at study.l2: {ours}")

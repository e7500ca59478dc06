"""Sentences about what organisations can find out about each other's cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.partition import from_holdings
from hyfdca.study.exposure_notes import exposure_notes

NAMES = ("north", "city", "coast")
PARTITION = from_holdings(
    20,
    9,
    [(range(20), range(3)), (range(20), range(3, 7)), (range(5), range(7, 9))],
)


def test_each_receiver_of_margins_has_a_line():
    """Enough margins make cells computable from known rows; fewer give estimates."""
    lines = exposure_notes(NAMES, layout_of(PARTITION), [4, 2, 0])
    assert lines[:-1] == (
        "north (up to 4 margins per row): with 4 known rows it can compute the 4 "
        "columns of city in 15 shared rows.",
        "city (up to 2 margins per row): known rows give estimates of the 3 columns of "
        "north in 15 shared rows.",
    )
    assert "No known row is needed for columns of 0 and 1" in lines[-1]


def test_rows_that_would_all_have_to_be_known_are_left_out():
    """With as many columns as rows, known rows leave nothing to compute."""
    lines = exposure_notes(NAMES, layout_of(PARTITION), [0, 0, 50])
    assert lines == ()


def test_too_few_margins_say_nothing_of_sparse_columns():
    """Sparse columns are not found either before the margins span them."""
    assert len(exposure_notes(NAMES, layout_of(PARTITION), [3, 2, 0])) == 2


def test_many_organisations_are_summed_up():
    """A study of many organisations has a bounded number of lines."""
    columns = [range(2 * k, 2 * k + 2) for k in range(15)]
    partition = from_holdings(50, 30, [(range(50), own) for own in columns])
    names = [f"site {k}" for k in range(15)]
    lines = exposure_notes(names, layout_of(partition), [1] * 15)
    assert len(lines) == 11
    assert lines[-1] == "The same kind of line holds for 5 more organisations."


def test_organisations_without_labels_learn_them():
    """Once there is a round; those with labels learn nothing new."""
    layout = replace(layout_of(PARTITION), labelled=np.array([True, False, True]))
    lines = exposure_notes(NAMES, layout, [4, 2, 0])
    assert lines[0] == "city learns the labels of 20 rows, from the signs of duals."
    assert not any("labels" in line for line in lines[1:])
    assert exposure_notes(NAMES, layout, [0, 0, 0]) == ()

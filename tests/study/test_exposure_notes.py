"""Sentences about what organisations can find out about each other's cells."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.partition import from_holdings
from hyfdca.maths.losses import make_loss
from hyfdca.study.exposure_notes import exposure_notes

LOGISTIC = make_loss("logistic")
NAMES = ("north", "city", "coast")
PARTITION = from_holdings(
    20,
    9,
    [(range(20), range(3)), (range(20), range(3, 7)), (range(5), range(7, 9))],
)


def test_each_receiver_of_margins_has_a_line():
    """Enough margins make cells computable from known rows; fewer give estimates."""
    lines = exposure_notes(NAMES, layout_of(PARTITION), [4, 2, 0], LOGISTIC)
    assert lines[:-1] == (
        "north (up to 4 margins per row): with 4 known rows it can compute the 4 "
        "features of city in 15 shared rows.",
        "city (up to 2 margins per row): known rows give estimates of the 3 "
        "features of north in 15 shared rows.",
    )
    assert "No known row is needed for features of 0 and 1" in lines[-1]


def test_cells_that_an_organisation_has_too_are_said_to_be_that():
    """They count for the first holder, and are no discovery of the second."""
    holdings = [(range(20), range(3)), (range(20), range(2, 5))]
    layout = layout_of(from_holdings(20, 5, holdings))
    lines = exposure_notes(NAMES, layout, [9, 9], LOGISTIC)
    assert lines[0].endswith("it can compute the 2 features of city in 20 shared rows.")
    assert "3 features of north (1 of which it has itself) in 20 shared" in lines[1]


def test_an_organisation_that_has_all_columns_itself_computes_nothing():
    """The first holder's cells count; the second has the same ones in its table."""
    holdings = [(range(20), range(2)), (range(20), range(5))]
    layout = layout_of(from_holdings(20, 5, holdings))
    lines = exposure_notes(NAMES, layout, [9, 9], LOGISTIC)
    assert [line.split()[0] for line in lines] == ["north", "No"]


def test_rows_that_would_all_have_to_be_known_are_left_out():
    """With as many columns as rows, known rows leave nothing to compute."""
    lines = exposure_notes(NAMES, layout_of(PARTITION), [0, 0, 50], LOGISTIC)
    assert lines == ()


def test_too_few_margins_say_nothing_of_sparse_columns():
    """Sparse columns are not found either before the margins span them."""
    assert len(exposure_notes(NAMES, layout_of(PARTITION), [3, 2, 0], LOGISTIC)) == 2


def test_many_organisations_are_summed_up():
    """A study of many organisations has a bounded number of lines."""
    columns = [range(2 * k, 2 * k + 2) for k in range(15)]
    partition = from_holdings(50, 30, [(range(50), own) for own in columns])
    names = [f"site {k}" for k in range(15)]
    lines = exposure_notes(names, layout_of(partition), [1] * 15, LOGISTIC)
    assert len(lines) == 11
    assert lines[-1] == "The same kind of line holds for 5 more organisations."


def test_organisations_without_labels_learn_them():
    """They do after a round; those with labels learn nothing new."""
    layout = replace(layout_of(PARTITION), labelled=np.array([True, False, True]))
    lines = exposure_notes(NAMES, layout, [4, 2, 0], LOGISTIC)
    assert lines[0] == "city learns the labels of 20 rows, from the signs of duals."
    assert not any("labels" in line for line in lines[1:])
    assert exposure_notes(NAMES, layout, [0, 0, 0], LOGISTIC) == ()


@pytest.mark.parametrize(
    ("loss", "learnt"),
    [
        ("squared", "how far the labels of 20 rows are from the model's predictions, "),
        ("squared_epsilon_insensitive", "how far the labels of 20 rows are from the "),
        ("huber", "how far the labels of 20 rows .* predictions, up to the bound of "),
        ("scaled_huber", "how far .* up to the bound"),
        ("absolute", "on which side of the model's predictions the labels of 20 rows"),
        ("epsilon_insensitive", "on which side of the model's predictions"),
        ("pinball", "on which side of the model's predictions .* signs of duals"),
        ("hinge", "the labels of 20 rows, from the signs of duals"),
    ],
)
def test_what_duals_tell_depends_on_the_loss(loss, learnt):
    """A dual is the class, the residual or its sign; of a regression, no label."""
    layout = replace(layout_of(PARTITION), labelled=np.array([True, False, True]))
    line = exposure_notes(NAMES, layout, [4, 2, 0], make_loss(loss))[0]
    assert re.match(f"city learns {learnt}", line)


@pytest.mark.parametrize("name", ["squared", "half_squared", "huber"])
def test_duals_of_smooth_losses_are_residuals(name):
    """What the sentence says: with the prediction they give the label."""
    loss, y, z = make_loss(name), np.array([1.0, -0.4]), np.array([0.3, 0.2])
    duals = -loss.derivative(z, y)
    assert z + loss.shape.smoothing * duals == pytest.approx(y)

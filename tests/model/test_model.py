"""Models: margins by hand, and the classes and probabilities that follow from them."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.model.model import Model, ModelError
from hyfdca.model.scaling import Scaling
from tests.model.models import (
    FEATURES,
    all_by_hand,
    document,
    make_file,
    make_model,
    make_table,
    random_cells,
)

KINDS = [
    (loss, kind)
    for loss in LOSSES
    for kind in ("regression", "two", "three")
    if (make_loss(loss).task == "regression") == (kind == "regression")
]


@pytest.mark.parametrize("scale", ["none", "standard", "maxabs"])
@pytest.mark.parametrize("missing", ["refuse", "mean"])
@pytest.mark.parametrize(("loss", "kind"), KINDS)
def test_margins_by_hand(loss, kind, scale, missing):
    """Margins are those of the file's formula; classes and numbers follow from them."""
    file = make_file(kind, loss, scale, missing)
    table = make_table(random_cells(n_missing=5 if missing == "mean" else 0))
    model = Model.of(file)
    expected = all_by_hand(document(file), table)
    margins = model.margins(table)
    np.testing.assert_allclose(margins, expected, rtol=1e-12, atol=1e-12)
    predicted = model.predict(table)
    if kind == "regression":
        np.testing.assert_array_equal(predicted, margins[:, 0])
    elif kind == "two":
        assert predicted.tolist() == ["yes" if m > 0 else "no" for m in margins[:, 0]]
    else:
        assert predicted.tolist() == [file.classes[np.argmax(row)] for row in expected]


@pytest.mark.parametrize("kind", ["two", "three"])
def test_probabilities(kind):
    """Probabilities are the logistic function of margins, and sum to one."""
    model, table = make_model(kind), make_table(random_cells())
    shares = model.probabilities(table)
    positive = [[1 / (1 + math.exp(-m)) for m in row] for row in model.margins(table)]
    if kind == "two":
        expected = [[1 - p, p] for [p] in positive]
    else:
        expected = [[p / sum(row) for p in row] for row in positive]
    np.testing.assert_allclose(shares, expected, rtol=1e-12)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_probabilities_of_other_losses():
    """Only the logistic loss has probabilities, under each of its names."""
    assert make_model(loss="log_loss").has_probabilities
    with pytest.raises(ModelError, match="'hinge' has no probabilities; train"):
        make_model(loss="hinge").probabilities(make_table(random_cells()))


@pytest.mark.parametrize("scale", ["none", "standard", "maxabs"])
def test_a_row_s_margin_is_its_own(scale, monkeypatch):
    """A margin is the same bit for bit alone, among others, sparse and in groups."""
    model, values = make_model("three", scale=scale), random_cells(50)
    expected = model.margins(make_table(values))
    alone = [model.margins(make_table(row))[0] for row in values]
    np.testing.assert_array_equal(alone, expected)
    sparse = sp.csr_array(values)
    assert sparse.nnz < values.size
    np.testing.assert_array_equal(model.margins_of_cells(sparse), expected)
    twice = sp.csr_array(
        (
            np.repeat(sparse.data / 2, 2),
            np.repeat(sparse.indices, 2),
            2 * sparse.indptr,
        ),
        shape=sparse.shape,
    )
    np.testing.assert_array_equal(model.margins_of_cells(twice), expected)
    assert twice.nnz == 2 * sparse.nnz  # the input is unchanged
    monkeypatch.setattr("hyfdca.model.model._CELLS_AT_ONCE", 9)
    np.testing.assert_array_equal(model.margins_of_cells(sparse), expected)


@given(order=st.permutations(range(6)))
def test_columns_are_found_by_name(order):
    """Column order does not matter; other columns and their gaps are ignored."""
    model, values = make_model(missing="refuse"), random_cells()
    more = np.column_stack([values, np.full((7, 2), np.nan)])
    names = [*FEATURES, "other", "age "]
    table = make_table(more[:, order], [names[column] for column in order])
    expected = model.margins(make_table(values))
    np.testing.assert_array_equal(model.margins(table), expected)


def test_columns_that_are_not_there():
    """Missing columns are named, at most the first ten."""
    with pytest.raises(ModelError, match=r"no column 'Größe', 'x\.y "):
        make_model().margins(make_table([[1.0, 2.0]], ("age", FEATURES[2])))
    names = [f"f{number}" for number in range(99)]
    numbers = dict.fromkeys(names, 1.0)
    scaling = make_file().scaling
    scaling = msgspec.structs.replace(
        scaling, offsets=numbers, scales=numbers, fillings=numbers
    )
    model = make_model(weights=dict.fromkeys(names, (1.0,)), scaling=scaling)
    with pytest.raises(ModelError, match="'f9' and 89 more; add") as caught:
        model.margins(make_table([[1.0]], ("other",)))
    assert "'f10'" not in str(caught.value)


@pytest.mark.parametrize("kind", ["two", "three", "regression"])
def test_no_rows(kind):
    """A table without rows has no margins, classes or probabilities."""
    loss = "absolute" if kind == "regression" else "logistic"
    model, table = make_model(kind, loss), make_table(np.zeros((0, 4)))
    n_outputs = 3 if kind == "three" else 1
    assert model.margins(table).shape == (0, n_outputs)
    assert model.predict(table).shape == (0,)
    if kind != "regression":
        assert model.probabilities(table).shape == (0, len(model.classes))


def test_missing_cells_are_refused_with_their_number():
    """A model that was trained without missing cells refuses them."""
    with pytest.raises(ModelError, match=r"^3 cells are missing"):
        make_model(missing="refuse").margins(make_table(random_cells(n_missing=3)))


def test_margins_that_are_no_numbers():
    """Absurdly large cells yield one sentence, not infinity."""
    weights = dict.fromkeys(FEATURES, (10.0,))
    with pytest.raises(ModelError, match=r"^1 row has cells so large"):
        make_model(weights=weights).margins(make_table([[1e308] * 4, [1.0] * 4]))


def test_numbers_made_in_python_are_checked_too():
    """A model cannot contain infinity."""
    with pytest.raises(ModelError, match="not finite"):
        make_model(intercept=(math.inf,))


def test_scaling_leaves_the_cells_that_it_is_given():
    """Scaled cells that are zero are removed, but not from the original."""
    cells = sp.csr_array(np.array([[1.0, 2.0], [3.0, 4.0]]))
    scaling = Scaling(np.array([1.0, 0.0]), np.ones(2), np.zeros(2))
    for _ in range(2):
        assert scaling.apply(cells).toarray().tolist() == [[0.0, 2.0], [2.0, 4.0]]
    assert cells.toarray().tolist() == [[1.0, 2.0], [3.0, 4.0]]

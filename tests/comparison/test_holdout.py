"""Rows set aside: which, how they are put together, and how models are scored."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, r2_score

from hyfdca.comparison.compare import ComparisonSettings
from hyfdca.comparison.holdout import Validation, set_aside, validation_of
from hyfdca.data.held_out import is_drawn
from hyfdca.errors import StudyError
from hyfdca.study.file import Evaluation, load
from hyfdca.study.local.run import pooled_objective
from hyfdca.study.local.study import prepare_tables, read_tables
from tests.comparison.comparisons import TIMES, compared, rows_of, without
from tests.support.consortia import (
    N_ROWS,
    Organisation,
    held,
    make_files,
    pooled_table,
    scores,
)
from tests.support.labelled_files import add_column, blank, offset, weight
from tests.support.mixed_tables import MixedStudy


def plain_files(**settings):
    return make_files(encryption='"none"', max_rounds="4", **settings)


def split_of(files, folder, share=0.25):
    file = load(files.write(folder))
    return file, set_aside(file, read_tables(file, folder), share)


def test_the_rows_that_are_set_aside(tmp_path):
    """Every organisation loses the same share of IDs, drawn by the seed alone."""
    _, split = split_of(plain_files(), tmp_path)
    drawn = {row for table in split.held_out for row in table.ids}
    assert len(drawn) == split.n_held_out == N_ROWS / 4
    for training, aside in zip(split.training, split.held_out, strict=True):
        assert not drawn & {*training.ids}
        assert {*aside.ids} <= drawn
        assert aside.features == training.features
        assert len(aside.labels) == len(aside.ids) == aside.cells.shape[0]
    files = plain_files()
    for organisation in files.organisations.values():
        for column in organisation.table.values():
            column.reverse()
    _, other = split_of(files, tmp_path)
    assert {row for table in other.held_out for row in table.ids} == drawn
    _, other = split_of(plain_files(seed="1"), tmp_path)
    assert {row for table in other.held_out for row in table.ids} != drawn


def test_only_labelled_rows_are_set_aside(tmp_path):
    """Rows that nobody has a label of, or of weight 0, are none to validate with."""
    files = plain_files(labels_visible_to_holders="true")
    blank(blank(files, range(20, 40), "north"), range(5))
    add_column(files, "weight_column", "w", lambda row: float(row != 50))
    add_column(files, "offset_column", "o", offset)
    file, split = split_of(files, tmp_path, 0.5)
    drawn = sorted(int(i[1:]) for i in {i for t in split.held_out for i in t.ids})
    assert len(drawn) == split.n_held_out == (N_ROWS - 6) / 2
    assert not {*range(5), 50} & {*drawn}
    assert {*range(20, 40)} & {*drawn}
    for table in (*split.training, *split.held_out):
        rows = [int(i[1:]) for i in table.ids]
        assert table.offsets.tolist() == [offset(row) for row in rows]
        assert table.weights.tolist() == [float(row != 50) for row in rows]
    run = prepare_tables(file, split.training)
    validation = validation_of(run, split.held_out)
    assert list(validation.labels) == [
        "ill" if scores()[r] > 0 else "well" for r in drawn
    ]
    assert validation.offsets[:, 0].tolist() == [offset(row) for row in drawn]
    is_positive = np.array([offset(row) > 0 for row in drawn])
    wanted = np.array(
        [label == run.consortium.classes[1] for label in validation.labels]
    )
    zeros = np.zeros((validation.X.shape[1], 1))
    assert validation.score(zeros) == np.mean(is_positive == wanted)


def test_a_study_that_sets_rows_aside_has_these_validate(tmp_path):
    """Labelled ones; a share on the command line counts instead."""
    tested = {"holdout": "0.3", "salt": '"a"'}
    files = make_files(encryption='"none"', **tested)
    blank(files, [12])
    file = load(files.write(tmp_path))
    split = set_aside(file, read_tables(file, tmp_path), None)
    ids = [f"P{row:03d}" for row in range(60)]
    drawn = set(compress(ids, is_drawn(ids, 0.3, "a")))
    assert "P012" in drawn
    found = {row for table in split.held_out for row in table.ids}
    assert found == drawn - {"P012"}
    assert ComparisonSettings(None, 0.0).share_for(file) is None
    assert ComparisonSettings(0.1, 0.0).share_for(file) == 0.1
    plain = msgspec.structs.replace(file, evaluation=Evaluation())
    assert ComparisonSettings(None, 0.0).share_for(plain) == 0.2


def test_nothing_is_set_aside(tmp_path):
    """With a share of 0 all rows are trained on, and nothing can be validated."""
    file, split = split_of(plain_files(), tmp_path, 0.0)
    assert [len(table.ids) for table in split.training] == [40, 40, 20]
    assert validation_of(prepare_tables(file, split.training), split.held_out) is None


def test_an_organisation_keeps_some_rows(tmp_path):
    """A share that leaves an organisation nothing is refused."""
    with pytest.raises(StudyError, match="no row to train on; use a smaller --holdout"):
        split_of(plain_files(), tmp_path, 1.0)


@pytest.mark.parametrize("scale", ["standard", "maxabs", "none"])
def test_scaled_as_in_training(scale, tmp_path):
    """Held-out rows are scaled by the training rows; what nobody holds is zero."""
    file, split = split_of(
        plain_files(scale=f'"{scale}"', intercept_scaling="2.0"), tmp_path
    )
    run = prepare_tables(file, split.training)
    validation = validation_of(run, split.held_out)
    rows = sorted(int(i[1:]) for i in {i for t in split.held_out for i in t.ids})
    assert run.consortium.features == ("x0", "x1", "x2", "x3", "x4")
    scaled = (pooled_table() - run.scaling.offset) / run.scaling.scale
    expected = np.where(held(), scaled, 0.0)[rows]
    np.testing.assert_array_equal(validation.X.toarray()[:, :-1], expected)
    np.testing.assert_array_equal(validation.X.toarray()[:, -1], 2.0)
    labels = ["ill" if s > 0 else "well" for s in scores()[rows]]
    assert list(validation.labels) == labels


def test_categories_of_held_out_rows(tmp_path):
    """They have the features of training; a level of theirs alone is "other"."""
    study = MixedStudy(settings={"scale": '"none"'})
    for table in study.tables.values():
        if "ward" in table:
            table["ward"] = table["ward"].mask(table["id"] == "P055", "helipad")
    file = load(study.write(tmp_path))
    split = set_aside(file, read_tables(file, tmp_path), 0.7)
    assert any("P055" in table.ids for table in split.held_out)
    run = prepare_tables(file, split.training)
    validation = validation_of(run, split.held_out)
    ids = sorted({i for table in split.held_out for i in table.ids})
    wards = study.frame.set_index("id").loc[ids, "ward"]
    entry = run.consortium.levels.entries["ward"]
    known = {entry.reference, *entry.levels}
    for place, name in enumerate(run.consortium.features):
        if name.startswith("ward="):
            level = name.removeprefix("ward=")
            is_own = ~wards.isin(known) if level == "other" else wards == level
            is_own |= (level == "other") & (wards.index == "P055")
            is_own &= (level == "other") | (wards.index != "P055")
            found = validation.X[:, [place]].toarray()[:, 0]
            np.testing.assert_array_equal(found, is_own.to_numpy(float))


def test_the_first_holder_counts(tmp_path):
    """Where organisations disagree about a cell, the one named first is right."""
    files = plain_files(disagreeing_cells='"first"')
    city = files.organisations["city"].table
    city["x2"] = [value + 1000.0 for value in city["x2"]]
    file, split = split_of(files, tmp_path)
    run = prepare_tables(file, split.training)
    validation = validation_of(run, split.held_out)
    cells = validation.X.toarray()[:, 2] * run.scaling.scale[2] + run.scaling.offset[2]
    rows = np.array(sorted({int(i[1:]) for t in split.held_out for i in t.ids}))
    expected = pooled_table()[rows, 2] + np.where(rows < 40, 0.0, 1000.0)
    np.testing.assert_allclose(cells, expected)


def test_held_out_rows_do_not_train(tmp_path):
    """Other values in held-out rows change nothing but the validation."""
    files = plain_files()
    _, split = split_of(files, tmp_path)
    drawn = {row for table in split.held_out for row in table.ids}
    names = "hyfdca,bundle,fedavg"
    first = compared(files, tmp_path, names, holdout=0.25)
    for organisation in files.organisations.values():
        spoil(organisation, drawn)
    second = compared(files, tmp_path, names, holdout=0.25)
    training = [without(rows_of(c), {*TIMES, "validation"}) for c in (first, second)]
    assert training[0] == training[1]
    one, other = first.optimum, second.optimum
    assert np.array_equal(one.weights, other.weights)
    assert (one.primal, one.dual, one.method) == (
        *(other.primal, other.dual),
        other.method,
    )
    assert [r["validation"] for r in rows_of(first)] != [
        r["validation"] for r in rows_of(second)
    ]


def spoil(organisation: Organisation, drawn: set[str]) -> None:
    """Change all cells and labels of some rows."""
    other = {"ill": "well", "well": "ill"}
    table = organisation.table
    for place, row in enumerate(table["id"]):
        if row in drawn:
            for name in organisation.columns:
                table[name][place] = 100.0 - 3.0 * table[name][place]
            table["y"][place] = other[table["y"][place]]


def test_accuracy():
    """Labels are compared by name; one that no training row has counts as wrong."""
    X = sp.csr_array(np.array([[1.0], [-1.0], [0.0], [2.0]]))
    labels = ("ill", "well", "well", "else")
    two = Validation(X, labels, ("well", "ill"), None)
    assert two.metric == "accuracy"
    assert two.score(np.array([[1.0]])) == 3 / 4
    assert two.score(np.array([[-1.0]])) == 1 / 4
    rest = Validation(X, labels, ("rest", "ill"), "ill")
    assert rest.score(np.array([[1.0]])) == 3 / 4
    many = Validation(X, ("a", "b", "a", "d"), ("a", "b", "c"), None)
    assert many.score(np.array([[1.0, -1.0, 0.0]])) == 3 / 4


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_rows_count_by_their_weights(tmp_path, loss):
    """As in the test of a study, with the numbers of scikit-learn."""
    is_regression = loss == "squared"
    labels = scores().tolist() if is_regression else None
    files = plain_files(labels=labels, loss=f'"{loss}"')
    add_column(files, "weight_column", "w", weight)
    file, split = split_of(files, tmp_path)
    run = prepare_tables(file, split.training)
    validation = validation_of(run, split.held_out)
    rows = sorted({int(i[1:]) for t in split.held_out for i in t.ids})
    own, model = [weight(row) for row in rows], np.ones((validation.X.shape[1], 1))
    margins = (validation.X @ model)[:, 0]
    if is_regression:
        found = run.target.scale * margins + run.target.centre
        expected = r2_score(scores()[rows], found, sample_weight=own)
    else:
        second = run.consortium.classes[1]
        is_second = [label == second for label in validation.labels]
        expected = accuracy_score(is_second, margins > 0, sample_weight=own)
    assert validation.score(model) == pytest.approx(expected, rel=1e-9)
    even = replace(validation, weights=None).score(model)
    assert even != pytest.approx(expected, rel=1e-3)


def test_r_squared(tmp_path):
    """Regression is scored by R²; a certified model has that of the optimum."""
    given = {"loss": '"half_squared"', "tol": "1e-8", "penalise_intercept": "true"}
    given["scale_target"] = "false"
    files = plain_files(labels=scores().tolist(), **given)
    comparison = compared(files, tmp_path, "lbfgs", holdout=0.25, rounds=100)
    assert comparison.metric == "R2"
    file, split = split_of(files, tmp_path)
    run = prepare_tables(file, split.training)
    validation, pooled = validation_of(run, split.held_out), pooled_objective(run)
    X, targets = validation.X.toarray(), np.array(validation.labels, dtype=float)
    table, n_rows = pooled.X.toarray(), pooled.X.shape[0]
    gram = table.T @ table / n_rows + pooled.l2_strength * np.eye(X.shape[1])
    weights = np.linalg.solve(gram, table.T @ pooled.labels / n_rows)
    found = [row["validation"] for row in rows_of(comparison)]
    assert found[0] == pytest.approx(r2_score(targets, np.zeros(len(X))))
    assert found[-1] == pytest.approx(r2_score(targets, X @ weights), abs=1e-3)

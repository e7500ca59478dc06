"""Rows that are set aside: all holders find the same, and training never sees them."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.data.held_out import is_drawn
from hyfdca.errors import StudyError
from hyfdca.model.file import as_bytes
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.support.consortia import make_files, scores
from tests.support.durable_runs import numbers
from tests.support.labelled_files import (
    VISIBLE,
    add_column,
    blank,
    offset,
    remove,
    weight,
)
from tests.support.mixed_tables import MixedStudy, mixed_frame
from tests.support.thoroughness import examples

PLAIN = {"encryption": '"none"'}
HOLDOUT = {"holdout": "0.3", "salt": '"a"'}
N_ROWS = 60


def drawn_rows(n_rows=N_ROWS, share=0.3, salt="a"):
    """Return the numbers of the rows that such a study sets aside."""
    ids = [f"P{row:03d}" for row in range(n_rows)]
    return set(np.flatnonzero(is_drawn(ids, share, salt)).tolist())


def trained(files, folder):
    folder.mkdir()
    return train(prepare(load(files.write(folder)), folder), lambda *_: None)


def with_weights(files):
    add_column(files, "weight_column", "w", weight)
    return add_column(files, "offset_column", "o", offset)


def partly_blank(files):
    files.settings |= VISIBLE
    blank(files, range(20, 30), "north")
    return blank(files, range(3), "coast")


STUDIES = {
    "sealed": (lambda files: files, {}),
    "weights": (with_weights, PLAIN),
    "balanced": (lambda files: files, {**PLAIN, "class_weight": '"balanced"'}),
    "blank labels": (partly_blank, PLAIN),
    "regression": (lambda files: files, {**PLAIN, "loss": '"huber"'}),
    "lbfgs": (lambda files: files, {**PLAIN, "algorithm": '"lbfgs"'}),
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_with_rows_set_aside_trains_the_model_of_files_without_them(
    name, tmp_path
):
    """Rounds and model are the same, bit for bit."""
    change, given_settings = STUDIES[name]
    labels = scores().tolist() if name == "regression" else None
    make = partial(make_files, labels, **given_settings)
    outcome = trained(change(make(**HOLDOUT)), tmp_path / "whole")
    drawn = drawn_rows()
    assert 5 < len(drawn) < 30
    less = trained(remove(change(make()), drawn), tmp_path / "less")
    assert as_bytes(outcome.model()) == as_bytes(less.model())
    assert numbers(outcome.run.training.history) == numbers(less.run.training.history)


def test_levels_of_rows_set_aside_alone_are_no_levels_of_the_model(tmp_path):
    """A category of rare levels gives the model of files without the rows."""
    frame = mixed_frame()
    drawn = drawn_rows(len(frame))
    frame.loc[min(drawn), "ward"] = "seen nowhere else"
    study, found = MixedStudy(frame), []
    ids = frame["id"][sorted(drawn)]
    less = {n: own[~own["id"].isin(ids)] for n, own in study.tables.items()}
    for name, tables in (("whole", study.tables), ("less", less)):
        folder = tmp_path / name
        folder.mkdir()
        study.tables = tables
        path = study.write(folder)
        if name == "whole":
            lines = ["[evaluation]", "holdout = 0.3", 'salt = "a"', ""]
            path.write_text(path.read_text() + "\n".join(lines))
        outcome = train(prepare(load(path), folder), lambda *_: None)
        found.append(as_bytes(outcome.model()))
    assert found[0] == found[1]


def test_a_column_may_say_which_rows_are_set_aside(tmp_path):
    """It is not a feature, and the model is that of files without these rows."""
    files = make_files(**PLAIN)
    add_column(files, "holdout_column", "test", lambda row: int(row % 4 == 0))
    outcome = trained(files, tmp_path / "whole")
    less = remove(make_files(**PLAIN), range(0, N_ROWS, 4))
    assert as_bytes(outcome.model()) == as_bytes(
        trained(less, tmp_path / "less").model()
    )


@settings(max_examples=examples(20), deadline=None)
@given(st.text(max_size=80), st.floats(0.0, 0.999))
def test_the_hash_draws_a_share_of_the_rows(salt, share):
    """The order of rows does not matter, and other salts draw other rows."""
    ids = [f"row {number}" for number in range(2000)]
    drawn = is_drawn(ids, share, salt)
    assert np.array_equal(is_drawn(ids[::-1], share, salt)[::-1], drawn)
    deviation = np.sqrt(share * (1 - share) * len(ids))
    assert abs(drawn.sum() - share * len(ids)) <= 6 * deviation + 1
    if 0.05 < share < 0.95:
        assert not np.array_equal(is_drawn(ids, share, salt + "x"), drawn)
    assert np.all(is_drawn(ids, share / 2, salt) <= drawn)


def refused(files, folder):
    folder.mkdir(exist_ok=True)
    with pytest.raises(StudyError) as error:
        prepare(load(files.write(folder)), folder)
    assert str(error.value).endswith(".")
    assert not re.search(r"[.!?] ", str(error.value))
    return str(error.value)


def test_impossible_shares_are_refused(tmp_path):
    """One sentence states the valid range."""
    for share in ("1.0", "-0.1", "nan"):
        assert "holdout" in refused(make_files(holdout=share), tmp_path)
    both = make_files(holdout="0.2", holdout_column='"x0"')
    assert "both holdout and holdout_column" in refused(both, tmp_path)


def column(value, **more):
    files = make_files(**PLAIN, **more)
    return add_column(files, "holdout_column", "test", value)


def test_columns_that_do_not_say_which_rows_are_refused(tmp_path):
    """Another number, a table without the column, and a column with two roles."""
    sentence = refused(column(lambda row: row), tmp_path)
    assert "neither 0 nor 1 in the holdout_column 'test'" in sentence
    lacking = column(lambda row: row % 2)
    del lacking.organisations["city"].table["test"]
    assert "has no column 'test'" in refused(lacking, tmp_path)
    twice = make_files(**PLAIN, holdout_column='"y"')
    assert "as its label_column and as its holdout_column" in refused(twice, tmp_path)


def test_holders_that_set_different_rows_aside_are_refused(tmp_path):
    """Otherwise a row would be trained on and tested on."""
    files = column(lambda row: int(row % 4 == 0))
    files.organisations["coast"].table["test"][4:7] = [0, 0, 1]
    sentence = refused(files, tmp_path)
    assert "sets 1 row aside that" in sentence
    assert "make the holdout_column the same" in sentence


def test_a_holdout_that_leaves_nothing_is_refused(tmp_path):
    """No rows to train on, none to test on, or none of a class."""
    coast = {*range(10), *range(50, 60)}
    sentence = refused(column(lambda row: int(row in coast)), tmp_path)
    assert "Organisation 'coast' has 20 rows" in sentence
    assert "No row is set aside; raise holdout, change" in refused(
        column(lambda _: 0), tmp_path
    )
    is_ill = scores() > 0
    first = int(np.flatnonzero(is_ill)[0])
    sentence = refused(column(lambda row: int(row == first)), tmp_path)
    assert "No row of the class 'well' is set aside" in sentence
    labels = ["rare" if row < 3 else "ab"[row % 2] for row in range(N_ROWS)]
    files = make_files(labels, **PLAIN)
    add_column(files, "holdout_column", "test", lambda row: int(row % 5 < 2 or row < 3))
    assert "All rows of the class 'rare' are set aside" in refused(files, tmp_path)

"""Accuracies of predictions for labels that are written in another way."""

from __future__ import annotations

import re

import pytest

from tests.model.models import random_cells
from tests.prediction.predictions import frame_of, model_at


@pytest.mark.parametrize(
    ("labels", "is_shown"),
    [
        (["1", "0", "1", "0"], False),
        (["Yes", "no", "no", "no"], False),
        (["yes", "no", "perhaps", ""], True),
    ],
)
def test_classes_written_otherwise(tmp_path, hyfdca, labels, is_shown):
    """Without a positive label too; an unknown class among known ones is wrong."""
    model = model_at(tmp_path, classes=("no", "yes"))
    data, out = tmp_path / "full.csv", tmp_path / "out.csv"
    frame_of(random_cells(4), y=labels).to_csv(data, index=False)
    code, output, _ = hyfdca("predict", "--model", model, "--data", data, "--out", out)
    assert code == 0
    assert bool(re.search("accuracy +│", output)) == is_shown
    assert ("the model's classes are 'no', 'yes', but" in output) != is_shown


@pytest.mark.parametrize(
    ("classes", "labels", "is_shown"),
    [
        (("rest", "yes"), ["1", "0", "1", "0"], False),
        (("no", "yes"), ["Y", "N", "Y", "N"], False),
        (("no", "yes"), ["YES", "no", "yes", "no"], False),
        (("no", "yes"), ["no", "no", "no", "no"], True),
        (("rest", "yes"), ["yes", "never", "no", ""], True),
    ],
)
def test_positive_label_written_otherwise(tmp_path, hyfdca, classes, labels, is_shown):
    """Labels that may all mean another class give no accuracy, but a sentence."""
    model = model_at(tmp_path, classes=classes, positive_label="yes")
    data, out = tmp_path / "full.csv", tmp_path / "out.csv"
    frame_of(random_cells(4), y=labels).to_csv(data, index=False)
    code, output, _ = hyfdca("predict", "--model", model, "--data", data, "--out", out)
    assert code == 0
    assert bool(re.search("accuracy +│", output)) == is_shown
    assert ("the model's positive label is 'yes', but" in output) != is_shown


def test_labels_that_are_all_unknown(tmp_path, hyfdca):
    """They give no accuracy of 0 %, but a sentence with both ways to write them."""
    model = model_at(tmp_path, classes=("home", "readmitted"))
    data, out = tmp_path / "full.csv", tmp_path / "out.csv"
    frame_of(random_cells(4), y=["1", "0", "1", ""]).to_csv(data, index=False)
    code, output, _ = hyfdca("predict", "--model", model, "--data", data, "--out", out)
    assert code == 0
    assert not re.search("accuracy +│", output)
    assert "classes are 'home', 'readmitted', but the labels are '0', '1'" in output

"""Rows of each class, as they follow from released numbers."""

import msgspec
import numpy as np
import pytest

from hyfdca.report.class_counts import class_counts
from hyfdca.report.report import write_report
from hyfdca.report.result_files import Evaluation
from tests.pages.reading import Parsed
from tests.report.made_results import (
    changed,
    evaluate,
    held_out,
    scores_of,
    trained,
)
from tests.support.consortia import make_files

NAMES = ("home", "readmitted")


def found_in(**changes):
    """Return scores of two classes, with some of them changed."""
    return msgspec.convert({**scores_of(*held_out()), **changes}, Evaluation)


def counted():
    """Return the rows of each class."""
    labels = held_out()[0]
    return {"home": int(np.sum(labels == 0)), "readmitted": int(np.sum(labels == 1))}


def test_counts_are_those_of_the_labels():
    """They come from bins of calibration, or else from the three shares."""
    assert class_counts(found_in(), NAMES) == counted()
    assert class_counts(found_in(calibration=None), NAMES) == counted()


@pytest.mark.parametrize(
    "changes",
    [
        {"n_rows": None},
        {"accuracy": None},
        {"sensitivity": None},
        {"accuracy": 0.5},  # as with weights: shares are not of rows
        {"specificity": 0.12345},
        {"n_rows": 399},
        {"calibration": None, "sensitivity": 0.8, "specificity": 0.8, "accuracy": 0.8},
    ],
)
def test_numbers_that_do_not_agree_say_nothing(changes):
    """A page must not give counts that may be wrong."""
    assert class_counts(found_in(**changes), NAMES) is None


def test_several_classes():
    """Each has its own bins, and together they have all rows."""
    labels, p = held_out()
    both = {"ill": scores_of(labels, p), "well": scores_of(1 - labels, 1 - p)}
    found = msgspec.convert(
        {"n_rows": 400, "accuracy": 0.8, "classes": both}, Evaluation
    )
    names = ("ill", "well")
    expected = {"ill": counted()["readmitted"], "well": counted()["home"]}
    assert class_counts(found, names) == expected
    both["well"] = both["ill"]  # more than all rows, or fewer
    found = msgspec.convert(
        {"n_rows": 400, "accuracy": 0.8, "classes": both}, Evaluation
    )
    assert class_counts(found, names) is None


@pytest.mark.usefixtures("no_figure")
def test_the_page_compares_with_no_model(tmp_path):
    """Counts, the share of the most frequent class, the threshold."""
    out = trained(make_files().write(tmp_path), tmp_path / "out")
    evaluate(out)
    write_report(out)
    page = Parsed((out / "report.html").read_text())
    most = max(counted().values())
    assert page.row("accuracy without a model")[-1] == f"{most / 4:.1f} %"
    rows = sorted(int(row[-1]) for row in page.rows if row and "rows of" in row[0])
    assert rows == sorted(counted().values())
    assert "predicted probability is above 0.5" in page.text


@pytest.mark.usefixtures("no_figure")
@pytest.mark.parametrize("where", ["study", "clients", "older file"])
def test_rows_with_weights_are_not_counted(tmp_path, where):
    """Whether [study] names them or each organisation."""
    files = make_files()
    if where == "study":
        files.settings["weight_column"] = '"w"'
    for own in files.organisations.values():
        own.table["w"] = [1.0 + row % 2 for row in own.rows]
        own.extra = 'weight_column = "w"' if where != "study" else ""
    out = trained(files.write(tmp_path), tmp_path / "out")
    evaluate(out)

    def as_before(result):
        del result["about"]["has_weights"]
        result["about"]["settings"]["weight_column"] = "w"

    if where == "older file":
        changed(out, "result.json", as_before)
    write_report(out)
    page = Parsed((out / "report.html").read_text())
    assert "accuracy without a model" not in page.text
    assert "with unequal weights they should be wider" in page.text

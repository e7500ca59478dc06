"""What the report says of scores on held-out rows."""

import json

import numpy as np
import pytest
from sklearn import metrics

from hyfdca.report.report import write_report
from tests.pages.reading import Parsed
from tests.report.made_results import changed, class_scores, held_out, scores_of

pytestmark = pytest.mark.usefixtures("no_figure")


def page_of(folder, found, **about):
    """Return the page of a folder with these scores and facts."""

    def change(result):
        result["evaluation"] = found
        result["about"].update(about)

    changed(folder, "result.json", change)
    write_report(folder)
    return Parsed((folder / "report.html").read_text())


@pytest.mark.parametrize(("min_bin", "advice"), [(7, True), (1, False)])
def test_a_wide_interval_of_auc_stands_alone(out, min_bin, advice):
    """The number in it says nothing; a narrow one leaves the number where it was."""
    found = scores_of(*held_out())
    wide = {**found, "auc": 0.731, "auc_low": 0.559, "auc_high": 0.904}
    about = {"evaluation": {"min_bin": min_bin}}
    page = page_of(out, wide, **about)
    assert page.row("AUC")[-1] == "0.5590 to 0.9040"
    assert "0.559 to 0.904AUC, held-out rows, by bins" in page.text
    assert "0.731" not in page.text
    assert ("fewer than 7 rows of a class in a bin" in page.text) is advice
    assert ("A lower min_bin" in page.text) is advice
    narrow = page_of(out, found, **about)
    assert narrow.row("AUC")[-1].startswith(f"{found['auc']:.4f} (bins: ")
    assert "min_bin in [evaluation]" not in narrow.text


def shown(number, places=1):
    """Return a share as the page has it."""
    return f"{100 * number:.{places}f} %"


def test_scores_stand_beside_those_of_no_model(out):
    """Predictive values and scores of constant predictions are scikit-learn's."""
    y, p = held_out()
    page = page_of(out, scores_of(y, p))
    first, second = classes_of(out)
    constant = np.full(len(y), y.mean())
    loss, brier = metrics.log_loss(y, constant), metrics.brier_score_loss(y, constant)
    assert f"; {loss:.4f} if all" in page.row("log loss")[1]
    assert f"; {brier:.4f} if all" in page.row("Brier score")[1]
    mean = page.row("mean prediction")
    assert mean[1:] == [f"{shown(y.mean())} of the rows are {second}", shown(p.mean())]
    right = metrics.precision_score(y, p > 0.5, average=None)
    for value, (name, of) in zip(
        right, [("negative", first), ("positive", second)], strict=True
    ):
        row = page.row(f"{name} predictive value")
        assert row[1:] == [f"right, of the rows classified as {of}", shown(value)]
    assert "no more often than without a model" not in page.text


def classes_of(folder):
    """Return the classes of a folder's model."""
    return json.loads((folder / "model.json").read_text())["classes"]


def test_a_useless_threshold_is_said_to_be_that(out):
    """Of a rare class, every row may be taken as the other."""
    bins = [{"low": 0, "high": 1, "n_rows": 400, "predicted": 0.05, "observed": 0.05}]
    rates = {"accuracy": 0.95, "sensitivity": 0.0, "specificity": 1.0}
    page = page_of(out, {"n_rows": 400, **rates, "calibration": {"bins": bins}})
    first, _ = classes_of(out)
    assert page.row("accuracy")[-1] == page.row("accuracy without a model")[-1]
    assert f"a model, which takes every row as {first}." in page.text
    assert page.row("negative predictive value")[-1] == "95.0 %"
    assert all("positive predictive value" not in row for row in page.rows)


def test_weights_of_rows_are_said_with_the_scores(out):
    """Then they are not shares of rows, and counts are not known."""
    found = scores_of(*held_out())
    weighted = page_of(out, found, has_weights=True)
    assert "Rows count by their weight in all scores" in weighted.text
    assert "predictive value" not in weighted.text
    assert "by their weight" not in page_of(out, found, has_weights=False).text


def test_every_class_has_its_sensitivity(out):
    """Its Brier score is a sum over classes, and a class has no log loss."""
    found = {**class_scores(["a", "b", "c"]), "brier": 0.5}
    changed(out, "model.json", make_three)
    page = page_of(out, found)
    one = found["classes"]["b"]
    row = page.row("b")
    assert row[3:5] == [shown(one["sensitivity"]), shown(one["specificity"])]
    assert page.row("class")[3:5] == ["sensitivity", "specificity"]
    assert "added up over the classes" in page.row("Brier score")[1]


def make_three(model):
    """Make a model one of three classes."""
    model["classes"] = ["a", "b", "c"]
    model["intercept"] = model["intercept"] * 3
    model["weights"] = {name: own * 3 for name, own in model["weights"].items()}

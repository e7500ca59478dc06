"""What the report says of the limits of a model."""

import pytest

from hyfdca.report.card import card_of
from hyfdca.report.result_files import read_result_folder
from hyfdca.report.sections.evaluation import evaluation
from tests.report.made_results import changed, evaluate, trained
from tests.support.consortia import make_files
from tests.support.mixed_tables import MixedStudy

MEAN = "Blank cells count as the mean of their column."
LEVEL = "Blank cells of categories count as a level of their own, missing."


@pytest.mark.usefixtures("no_figure")
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (make_files(max_rounds="1", missing='"mean"'), {MEAN}),
        (
            MixedStudy(settings={"max_rounds": "1", "missing": '"mean"'}),
            {MEAN, LEVEL},
        ),
        (make_files(max_rounds="1"), set()),
    ],
    ids=["numbers", "categories too", "refused"],
)
def test_what_blank_cells_count_as(files, expected, tmp_path):
    """A category has no mean."""
    out = trained(files.write(tmp_path), tmp_path / "out")
    limits = card_of(read_result_folder(out)).limits
    assert {said for said in limits if said.startswith("Blank cells")} == expected


@pytest.mark.usefixtures("no_figure")
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (make_files(max_rounds="1", uncovered='"mean"'), "as the mean of their column"),
        (
            MixedStudy(settings={"max_rounds": "1", "uncovered": '"mean"'}),
            "as the mean of their column, or in a category as the most frequent level",
        ),
    ],
    ids=["numbers", "categories too"],
)
def test_what_cells_that_nobody_holds_count_as(files, expected, tmp_path):
    """Neither has a category a mean here."""
    out = trained(files.write(tmp_path), tmp_path / "out")
    changed(out, "result.json", lambda result: result.update(uncovered_cells=3))
    limits = card_of(read_result_folder(out)).limits
    assert any(said.endswith(f"all cells. They count {expected}.") for said in limits)


@pytest.mark.usefixtures("no_figure")
@pytest.mark.parametrize(
    ("class_weight", "is_said"), [("balanced", True), (None, False)]
)
def test_weighted_classes_come_first(class_weight, is_said, out):
    """Their probabilities are not risks; the scores say so too."""
    evaluate(out)

    def change(result):
        result["about"]["settings"]["class_weight"] = class_weight

    changed(out, "result.json", change)
    found = card_of(read_result_folder(out))
    assert found.limits[0].startswith("Classes were weighted") is is_said
    shown = " ".join(evaluation(found).content)
    assert ("Classes were weighted: probabilities are not risks" in shown) is is_said


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"holdout": 0.2, "holdout_column": None}, "Held-out rows come from the same"),
        ({"holdout_column": "test"}, "The study's column 'test' chose the held-out"),
        ({}, "Held-out rows come from the tables of this study."),
    ],
    ids=["drawn", "column", "older file"],
)
def test_where_held_out_rows_come_from(settings, expected, out):
    """A column may have chosen later rows, or those of one organisation."""
    evaluate(out)
    changed(out, "result.json", lambda r: r["about"].update(evaluation=settings))
    limits = card_of(read_result_folder(out)).limits
    (said,) = (own for own in limits if "held-out rows" in own.lower())
    assert said.startswith(expected)
    assert said.endswith("Elsewhere and later the model may do worse.")

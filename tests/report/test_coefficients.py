"""Coefficients of the report: what features are compared by, and what is claimed."""

import json

import numpy as np
import pytest

from hyfdca.report.card import card_of
from hyfdca.report.coefficients import ONE_FOR_ZERO
from hyfdca.report.report import write_report
from hyfdca.report.result_files import read_result_folder
from tests.pages.reading import Parsed
from tests.report.made_results import changed, trained
from tests.support.consortia import make_files, scores

pytestmark = pytest.mark.usefixtures("no_figure")


def with_columns(folder, mean, deviation):
    """Give the model's features this mean and deviation; return its coefficients."""

    def change(model):
        names = list(model["weights"])
        model["scaling"] |= {
            "scale": "standard",
            "offsets": dict.fromkeys(names, 5.0) | {names[0]: mean},
            "scales": dict.fromkeys(names, 2.0) | {names[0]: deviation},
        }
        weights = [0.1, *(0.15 for _ in names[1:])]
        model["weights"] = {n: [w] for n, w in zip(names, weights, strict=True)}

    changed(folder, "model.json", change)
    return card_of(read_result_folder(folder)).coefficients


def test_columns_of_0_and_1_count_whole(out):
    """A rare 1 is compared by what it does, as a level is: not by one deviation."""
    cells = np.repeat([0.0, 1.0], [97, 3])
    found = with_columns(out, cells.mean(), cells.std())
    rare = found.largest[0]
    assert rare.change == ONE_FOR_ZERO
    assert (rare.step, rare.per_scale) == (None, None)
    assert rare.effect[0] == pytest.approx(0.1 / cells.std())
    other = with_columns(out, cells.mean(), 1.01 * cells.std())
    assert {own.change for own in other.largest} == {"one unit more"}


def test_odds_ratios_of_several_classes(tmp_path):
    """The table is sorted by the numbers that it shows, and claims no probability."""
    labels = ["abc"[int(s > -0.5) + int(s > 0.5)] for s in scores()]
    files = make_files(labels, encryption='"none"', scale='"standard"', tol="1e-2")
    out = trained(files.write(tmp_path), tmp_path / "out")
    write_report(out)
    page = Parsed((out / "report.html").read_text())
    found = json.loads((out / "model-card.json").read_text())["coefficients"]
    assert page.row("feature") == ["feature", "a step is", "a", "b", "c"]
    for own in found["largest"]:
        shown = [float(cell) for cell in page.row(own["feature"])[2:]]
        assert shown == pytest.approx(own["ratio_per_scale"], rel=0.01)
    assert "All effects are of one step more." in page.text
    assert "one unit more" not in page.text
    assert "raises the class's own score against all others" in page.text
    assert "more likely" not in page.text

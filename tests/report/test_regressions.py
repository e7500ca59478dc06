"""The report of a regression: its units, and what its headline is."""

import pytest

from hyfdca.report.report import write_report
from tests.pages.reading import Parsed
from tests.report.made_results import trained
from tests.support.consortia import make_files, scores

pytestmark = pytest.mark.usefixtures("no_figure")

SCALED = "P and D are of the target in units of its standard deviation"


def page_of(folder, loss, **settings):
    """Train a regression with rows set aside; return its page."""
    settings |= {"holdout": "0.4", "curves": "1", "max_rounds": "4"}
    files = make_files(scores().tolist(), loss=f'"{loss}"', **settings)
    out = trained(files.write(folder), folder / "out")
    write_report(out)
    return Parsed((out / "report.html").read_text())


def test_the_headline_of_a_quantile_is_its_loss(tmp_path):
    """R² is that of a mean, which such a model does not aim at."""
    page = page_of(tmp_path, "pinball", loss_parameter="0.9")
    loss = page.row("quantile loss")[-1]
    assert "quantile loss, held-out rows" in page.text
    assert "R², held-out rows" not in page.text
    assert "A regression of the quantile 0.9" in page.text
    measures = [row[0] for row in page.rows if row[-1:] == [loss] or row[:1] == ["R²"]]
    assert measures == ["quantile loss", "R²"]
    assert "not what a model of a quantile is for" in page.row("R²")[1]
    assert "without the penalty and in units of the target, by round" in page.text


@pytest.mark.parametrize("is_scaled", [True, False])
def test_units_of_the_loss_are_said(is_scaled, tmp_path):
    """Training scales targets; held-out losses are in units of the tables."""
    scale = {} if is_scaled else {"scale_target": "false"}
    page = page_of(tmp_path, "half_squared", **scale)
    assert (SCALED in page.text) is is_scaled
    assert "in units of the square of the target, by round" in page.text
    assert "R², held-out rows" in page.text

"""The report of a run that --tune began."""

import json

import pytest

from hyfdca.report.report import write_report
from hyfdca.study.local.training import train_file
from hyfdca.study.tuning import RunChoice
from tests.pages.reading import Parsed
from tests.support.durable_runs import write

pytestmark = pytest.mark.usefixtures("no_figure")

RANGES = "l2 = {least = 1e-5, most = 1.0}\nmax_rounds = {most = 2000}\nmost_runs = 3"
LOOKS_BETTER = "They also scored earlier runs of the study, of which this is run 2"


def page_of_run(folder, number, **chosen):
    """Train a run of a study with rows set aside; return its page and its result."""
    path = write(folder, tuning=RANGES, l2="0.05", holdout="0.3") / "study.toml"
    run = RunChoice(number=number, **chosen)
    train_file(path, folder / "out", lambda *_: None, run=run)
    own = next((folder / "out").rglob("result.json")).parent
    write_report(own)
    page = Parsed((own / "report.html").read_text())
    return page, json.loads((own / "result.json").read_text())


def test_a_second_run_says_what_was_chosen_and_by_whom(tmp_path):
    """Settings of the file stay those of the file; its rows have been seen before."""
    page, result = page_of_run(tmp_path, 2, l2=0.01, max_rounds=900)
    assert "Model report, run 2 of the study" in page.text
    assert "The coordinator gave it for run 2 of the study" in page.text
    assert "The study file gave it" not in page.text
    assert page.row("[study]", "l2") == ["[study]", "l2", "0.05"]
    assert not [row for row in page.rows if row[:2] == ["[study]", "max_rounds"]]
    assert result["about"]["tuning"]["max_rounds"] == {"least": 1, "most": 2000}
    assert page.row("[tuning]", "most_runs")[-1] == "3"
    assert page.row("[tuning]", "l2")[-1] == '{"least": 1e-05, "most": 1.0}'
    assert LOOKS_BETTER in page.text
    assert "or the choice of λ" not in page.text
    assert "If this run was picked by its scores, they are too good." in page.text


def test_a_first_run_says_nothing_of_others(tmp_path):
    """Nothing was seen before."""
    page, _ = page_of_run(tmp_path, 1)
    assert "The study file gave it." in page.text
    assert "or the choice of λ" in page.text
    assert "earlier runs" not in page.text
    assert "run 1" not in page.text

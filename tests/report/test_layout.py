"""The order of the report's page, and its foot on paper."""

import re

import pytest

from hyfdca.report.report import write_report
from hyfdca.report.style import page_footer
from tests.pages.reading import Parsed
from tests.report.made_results import changed

pytestmark = pytest.mark.usefixtures("no_figure")


def test_limits_and_held_out_rows_come_first(out):
    """Readers must know them before they use the model."""
    write_report(out)
    page = Parsed((out / "report.html").read_text())
    sections = [a["id"] for tag, a in page.elements if tag == "section"]
    assert sections[:3] == ["limits", "evaluation", "certificate"]


def test_printed_pages_name_the_study(out):
    """A page that is torn off still says which study and file it is about."""

    def change(result):
        result["about"]["fingerprint"] = "ab12 cd34"
        result["about"]["run"] = 3

    changed(out, "result.json", change)
    write_report(out)
    content = (out / "report.html").read_text()
    (said,) = re.findall(r'@bottom-left {.*content: "(.*?)"', content)
    assert plain_text(said).endswith(", run 3, study file ab12 cd34")


@pytest.mark.parametrize("name", ['</style><script>"', "a\\b\nc", "ward é", "x" * 500])
def test_names_cannot_leave_the_foot(name):
    """Only letters and digits stand for themselves."""
    (said,) = re.findall(r'content: "([^"]*)"', page_footer(name))
    assert re.fullmatch(r"([A-Za-z0-9]|\\[0-9a-f]+ )*", said)
    assert plain_text(said) == (name if len(name) < 140 else "x" * 139 + "…")


def plain_text(escaped):
    """Return what a string of CSS stands for."""
    return re.sub(r"\\([0-9a-f]+) ", lambda found: chr(int(found[1], 16)), escaped)

"""The report in a real browser: on screen and on paper."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hyfdca.report.report import write_report
from tests.pages.reading import Parsed
from tests.report.made_results import changed, class_scores, evaluate, trained
from tests.support.consortia import make_files

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--enable-logging=stderr"),
    "--virtual-time-budget=10000",
]
# A chart that could load something, if the page's policy let it.
SPY = "<img src='http://192.0.2.1/spy.png'>"

pytestmark = [
    pytest.mark.usefixtures("no_figure"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to look with"),
]


def browse(page: Path, *options: str) -> tuple[str, list[str]]:
    """Open a page; return its elements after it was drawn, and what was complained."""
    home = page.parent / "browser"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={home}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, check=True, timeout=400)  # noqa: S603
    said = re.findall(r"CONSOLE[^\n]*", done.stderr.decode("utf-8", "replace"))
    return done.stdout.decode(), said


def made(folder: Path, **settings: str) -> Path:
    """Return the page of a study with everything a report can show."""
    out = trained(make_files(**settings).write(folder), folder / "out")
    evaluate(out)
    write_report(out)
    return out / "report.html"


@pytest.mark.slow
def test_all_figures_are_drawn_and_nothing_is_asked(tmp_path):
    """No error, no warning, and every chart has become a drawing."""
    page = made(tmp_path)
    charts = Parsed(page.read_text()).charts
    drawn, said = browse(page, "--dump-dom", "--window-size=1200,3000")
    assert said == []
    assert len(charts) == 9
    for chart in charts:
        own = drawn[drawn.index(f'id="{chart}"') :]
        own = own[: own.index("</figure>")]
        assert 'class="main-svg"' in own
        assert re.search(r'class="(point|scatterlayer|barlayer|hm|trace)', own)


@pytest.mark.slow
def test_a_page_cannot_load_anything(tmp_path):
    """If something asks, the policy refuses, and this test would see it."""
    page = made(tmp_path)
    content = page.read_text().replace("</main>", f"{SPY}<script>1</script></main>")
    page.write_text(content)
    _, said = browse(page, "--dump-dom")
    assert len(said) == 2
    assert all("Content Security Policy" in line for line in said)


@pytest.mark.slow
def test_the_page_prints(tmp_path):
    """All charts are on paper, within its margins; so is what was folded."""
    page = made(tmp_path, scale='"standard"', holdout="0.3")
    costs = json.loads((page.parent / "result.json").read_text())["about"]["costs"]
    stages = [own["stage"] for own in costs if own["round_trips"]]
    assert len(stages) > 7
    # What the browser does before it prints, on a screen that is far wider.
    script = "<script>dispatchEvent(new Event('beforeprint'));</script>"
    content = page.read_text().replace("</body>", f"{script}</body>")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', content)[0]
    page.write_text(content.replace(policy, ""))
    drawn, said = browse(page, "--dump-dom", "--window-size=1600,3000")
    assert said == []
    widths = [
        int(w) for w in re.findall(r'class="main-svg"[^>]*? width="(\d+)"', drawn)
    ]
    assert len(widths) >= 9
    assert max(widths) == 680
    for chart in ("chart-times", "chart-bytes"):  # no name is left out
        own = drawn[drawn.index(f'id="{chart}"') :]
        ticks = own[: own.index("</figure>")].count('class="ytick"')
        assert ticks == len(stages)
    folded = re.findall(r"<details[^>]*>", drawn)
    assert set(folded) == {'<details class="printed" open="">'}
    for title in ("Calibration by bin", "Settings of the study file", "Names of the"):
        assert any(title in text for text in re.findall("<summary>(.*?)<", drawn))
    paper = tmp_path / "page.pdf"
    browse(page, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_several_classes_are_drawn(tmp_path):
    """A map of coefficients, and a curve per class."""
    labels = ["abc"[row % 3] for row in range(60)]
    files = make_files(labels=labels, encryption='"none"', tol="1e-2")
    out = trained(files.write(tmp_path), tmp_path / "out")
    found = class_scores(["a", "b", "c"])
    changed(out, "result.json", lambda result: result.update(evaluation=found))
    write_report(out)
    drawn, said = browse(out / "report.html", "--dump-dom")
    assert said == []
    assert 'class="hm"' in drawn
    roc = drawn[drawn.index('id="chart-roc"') :]
    assert roc[: roc.index("</figure>")].count('class="trace scatter') == 4

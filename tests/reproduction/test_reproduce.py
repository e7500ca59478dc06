"""The whole study on a table of 90 rows: what it has, writes, and continues."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from hyfdca.data import sources
from hyfdca.errors import StudyError
from hyfdca.reproduction import central, jobs
from hyfdca.reproduction import reproduce as module
from hyfdca.reproduction.clock import EncryptionCosts
from hyfdca.reproduction.paper import HYPERPARAMETERS, METHODS
from hyfdca.reproduction.plan import Effort, RunKey
from hyfdca.reproduction.report import report
from hyfdca.reproduction.report.drawing import chart_files, draw_chart
from hyfdca.reproduction.report.notes import by_set, same_draws
from hyfdca.reproduction.report.report import report_files, sections_of
from hyfdca.reproduction.report.times import time_bars
from hyfdca.reproduction.reproduce import Options, reproduce
from hyfdca.reproduction.rows import as_parquet, long_table
from hyfdca.reproduction.smoothing import moving_average
from hyfdca.reproduction.views import bundle_view, view_of
from tests.reproduction.small_problem import problem, small_covtype
from tests.support.thoroughness import IS_THOROUGH

__all__ = ["small_covtype"]

SMALL = Effort(0.001, n_points=10, n_trials=2, trial_scale=0.0005, bundle_gap=1e-3)
SCHEMES = (
    EncryptionCosts("Paillier, measured", 1e-3, 1e-3, 1e-6),
    EncryptionCosts("BFV, measured", 1e-6, 1e-6, 1e-8),
)
OPTIONS = Options({"covtype": SMALL}, l2="paper", schemes=SCHEMES, n_processes=1)
# One study for all of them.
pytestmark = pytest.mark.xdist_group("reproduction")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Watcher:
    """Notes how much of each part is kept."""

    def __init__(self):
        self.begun = {}

    def begin(self, what, n_all, n_kept=0):
        self.begun[what] = (n_all, n_kept)

    def step(self, what):
        pass


def find_small_table(patch):
    """Let every part of the study find the small table."""
    patch.setattr(module, "require", lambda *_: "there")
    for own in (central, module, jobs):
        patch.setattr(own, "held_problem", lambda *_: problem(5e-5))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of nine settings."""
    with pytest.MonkeyPatch.context() as patch:
        find_small_table(patch)
        found = reproduce(OPTIONS, tmp_path_factory.mktemp("study"), Watcher())
        jobs._blocks.cache_clear()
        return found


def test_a_study_has_every_run(study):
    """Nine settings, three methods, two clocks; the three shown with our tuning too."""
    keys = set(study.runs)
    assert {k.setting for k in keys if k.source == "paper"} == set(study.plan.settings)
    assert len([k for k in keys if k.source == "paper"]) == 9 * 3 * 2
    for key in keys:
        if key.source == "tuned":
            assert key.setting in study.plan.shown
            assert key.method in study.chosen["tuned"][key.setting]
    assert set(study.bundles) == set(study.plan.settings)
    assert study.optima["covtype"].relative_gap <= 1e-6


@pytest.mark.slow
def test_a_study_resumes_where_it_was(study, small_covtype, tmp_path, monkeypatch):
    """Killed in the middle of its runs; the rest is run, and nothing twice."""
    find_small_table(monkeypatch)
    run_job, n_before = jobs.run_job, 30

    def killed(job, *given):
        if len(small_covtype) == n_before:
            raise KeyboardInterrupt
        return run_job(job, *given)

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "run_job", killed)
        with pytest.raises(KeyboardInterrupt):
            reproduce(OPTIONS, tmp_path / "cut", Watcher())
    assert len(small_covtype) == n_before
    watcher, n_trials = Watcher(), 3 * 3 * SMALL.n_trials
    rest = reproduce(OPTIONS, tmp_path / "cut", watcher)
    assert watcher.begun["reading the data sets, optima and λ"] == (1, 1)
    # Our own tuning comes first, of which all is done, then the paper's runs.
    assert watcher.begun["trials"] == (n_trials, n_trials)
    assert watcher.begun["runs, paper's settings"] == (54, n_before - n_trials)
    assert watcher.begun["bundle method"] == (3, 0)
    assert len(small_covtype) == len(set(small_covtype)) == n_trials + len(rest.runs)
    for key, run in study.runs.items():
        if key.source == "paper":  # our tuning looks at times, which differ
            assert np.array_equal(run.losses, rest.runs[key].losses)


def test_views_are_smoothed_and_end_in_time(study):
    """The same numbers as by hand, in a run of equal rounds and one of equal time."""
    setting, scheme = study.plan.shown[0], study.schemes[1]
    optimum = study.optima["covtype"].dual
    key = RunKey(setting, "hyfdca", "rounds", "paper")
    run, view = study.runs[key], view_of(study, key, scheme)
    expected = moving_average(run.losses / optimum - 1.0, view.window)
    assert np.array_equal(view.losses, expected)
    assert view.rounds[-1] == run.rounds[-1] == study.plan.n_rounds("covtype")
    key = RunKey(setting, "hyfdca", "seconds", "paper")
    run, view = study.runs[key], view_of(study, key, scheme)
    elapsed = run.seconds + run.rounds * 4.5 * 0.2575 + scheme.seconds(run)
    in_time = elapsed[elapsed <= study.plan.seconds("covtype")]
    assert view.seconds == pytest.approx(in_time, rel=1e-12)
    assert run.rounds[-1] > view.rounds[-1]  # it continues until the time is up


def test_a_dearer_encryption_leaves_fewer_rounds(study):
    """The published Paillier, all clients in turn, against a measured BFV."""
    setting = study.plan.shown[-1]
    key = RunKey(setting, "hyfdca", "seconds", "paper")
    dear, cheap = (view_of(study, key, own) for own in (study.schemes[0], SCHEMES[1]))
    assert dear.rounds[-1] < cheap.rounds[-1]
    rival = RunKey(setting, "fedavg", "seconds", "paper")
    ends = {view_of(study, rival, own).rounds[-1] for own in study.schemes}
    assert len(ends) == 1


def test_the_bundle_method_is_certified(study):
    """Its loss is never below its bound, nor below the optimum's."""
    optimum = study.optima["covtype"]
    for setting, curve in study.bundles.items():
        assert np.all(curve.losses >= optimum.dual - 1e-12)
        assert np.all(curve.bounds <= optimum.primal + 1e-12)
        assert bundle_view(study, setting, "rounds").rounds[0] == 0


@pytest.fixture(scope="module")
def files(study):
    """The files of its report; some figures are left empty, each takes a second."""

    def some(chart):
        if chart.name in {"figure-3-paper", "figure-4"} or IS_THOROUGH:
            return chart_files(chart)
        return {f"{chart.name}.png": b"\x89PNG", f"{chart.name}.svg": b""}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "chart_files", some)
        return report_files(study)


@pytest.mark.slow
def test_the_report_has_all_tables_and_figures(files):
    """Eight tables and six figures of the paper; every figure as PNG and as SVG."""
    text = files["report.md"].decode()
    for title in (
        "Data sets",
        "Covtype: hyperparameters employed",
        "Central training",
        "Computational and encryption times for Covtype",
        "Comparisons that HyFDCA wins",
        "69 of 72",
    ):
        assert title in text
    figures = {name for name in files if name.startswith("figures/")}
    for stem in ("figure-3-paper", "figure-4", "figure-s4", "figure-bytes-tuned"):
        assert {f"figures/{stem}.png", f"figures/{stem}.svg"} <= figures
    linked = set(re.findall(r"\((figures/[^)]+)\)", text))
    assert linked <= figures
    assert all(files[name].startswith(b"\x89PNG") for name in linked)
    page = files["report.html"].decode()
    assert "://" not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)


@pytest.mark.slow
def test_the_same_study_gives_the_same_figures(study, files):
    """No date and no random name is in them."""
    for name, content in chart_files(time_bars(study)).items():
        assert files[f"figures/{name}"] == content


def test_the_report_says_how_to_read_it(study):
    """What a final value is, what diverged means, and one number where sets agree."""
    text = report._as_markdown(study, sections_of(study))
    assert (
        f"over the paper's last window: of rounds ({study.plan.window('covtype')})"
        in text
    )
    assert "A run is called diverged here" in text
    assert "its last five losses are on average not below the first" in text
    fitting = int(study.plan.seconds("covtype") / 0.2575)
    assert f"at 0.2575 s each ({fitting})" in text
    assert "This study has 0.001 of the paper's rounds" in text


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"mnist": "3", "news20": "3"}, "3"),
        ({"mnist": "3", "news20": "4"}, "MNIST 3, News20 4"),
    ],
)
def test_facts_of_data_sets(texts, expected):
    """Data sets that agree share one number."""
    assert by_set(texts) == expected


def test_the_same_draws_are_named(study):
    """Where both sources give HyFDCA the same losses, the report says why."""
    keys = [RunKey(study.plan.shown[0], "hyfdca", "rounds", s) for s in study.sources]
    other = replace(study.runs[keys[0]], losses=study.runs[keys[0]].losses + 1.0)
    same = dict.fromkeys(keys, study.runs[keys[0]])
    assert "Covtype, 3x3 clients" in same_draws(replace(study, runs=same))
    assert same_draws(replace(study, runs={**same, keys[1]: other})) == ""


def test_bars_are_centred_on_their_ticks(study):
    """The bars of each method of Figure 4 lie around its tick; patches name them."""
    chart = time_bars(study)
    figure = draw_chart(chart)
    axes = figure.axes[0]
    spans = {}
    for bar in axes.patches:
        middle = bar.get_x() + 0.5 * bar.get_width()
        spans.setdefault(round(middle), []).append(middle)
    assert sorted(spans) == list(axes.get_xticks()) == [0, 1, 2]
    for tick, middles in spans.items():
        assert np.mean(middles) == pytest.approx(tick)
    low, high = axes.get_xlim()
    assert low <= -0.5
    assert high >= 2.5
    [legend] = figure.legends
    assert len(legend.get_patches()) == len(chart.labels) == legend._ncols


def test_all_rows_are_in_one_table(study):
    """Every measured round, with settings, seed and version."""
    table = pq.read_table(io.BytesIO(as_parquet(long_table(study))))
    n_rows = sum(len(run.rounds) for run in study.runs.values())
    n_rows += sum(len(curve.rounds) for curve in study.bundles.values())
    assert table.num_rows == n_rows
    assert set(table["method"].to_pylist()) == {*METHODS, "bundle"}
    setting = study.plan.shown[1]
    key = RunKey(setting, "fedavg", "rounds", "paper")
    rows = [
        row
        for row in table.to_pylist()
        if (row["clients"], row["fraction"]) == ("5, 5", 0.5)
        and (row["method"], row["clock"]) == ("fedavg", "rounds")
        and row["hyperparameters"] == "paper"
    ]
    assert [row["loss"] for row in rows] == study.runs[key].losses.tolist()
    assert {row["iic"] for row in rows} == {HYPERPARAMETERS[setting]["fedavg"].iic}
    assert {row["mu"] for row in rows} == {None}
    assert {row["l2"] for row in rows} == {5e-5}


def test_a_data_set_that_is_not_there(monkeypatch, tmp_path):
    """A missing data set is reported before anything is run."""
    monkeypatch.setattr(sources, "locate", lambda *_: None)
    with pytest.raises(StudyError, match=r"covtype.binary is not there"):
        reproduce(OPTIONS, tmp_path, Watcher())


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to look with")
def test_a_browser_draws_the_page(study, files, tmp_path):
    """Every chart is drawn, with nothing from the network."""
    page = tmp_path / "report.html"
    page.write_bytes(files["report.html"])
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--virtual-time-budget=20000", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, check=True, timeout=400)  # noqa: S603
    n_charts = sum(len(section.charts) for section in sections_of(study))
    assert done.stdout.decode().count('class="main-svg"') >= n_charts

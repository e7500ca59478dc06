"""Algorithms side by side: the same study for all, honest numbers, no crash."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from matplotlib.figure import Figure

from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.comparison import compare as comparing
from hyfdca.comparison import figure as figure_module
from hyfdca.comparison.contenders import Contender
from hyfdca.comparison.figure import draw_comparison
from hyfdca.comparison.runs import Curve, CurvePoint, Spent
from hyfdca.comparison.smoothing import smoothed, smoothed_ratios
from hyfdca.comparison.table import SCHEMA, as_csv, as_parquet, long_table
from hyfdca.errors import StudyError
from hyfdca.maths.objective import Measurement, reference_optimum
from hyfdca.study.file import load
from hyfdca.study.local.run import pooled_objective
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from hyfdca.training import central
from tests.comparison.comparisons import TIMES, Watched, compared, rows_of, without
from tests.support.consortia import held, make_files, pooled_table

COSTS = ("bytes_up", "bytes_down")


def plain_files(**settings):
    return make_files(encryption='"none"', **settings)


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """Compare all algorithms of the registry, with two thirds taking part."""
    files = plain_files(participation="0.67", max_rounds="4", seed="5")
    folder, watch = tmp_path_factory.mktemp("every"), Watched()
    return compared(files, folder, None, watch), watch, folder


def test_each_equals_its_own_training(every):
    """Numbers and bytes are those of ``hyfdca train``, bit for bit."""
    comparison, _, folder = every
    text = (folder / "study.toml").read_text()
    trained = [curve for curve in comparison.curves if curve.points]
    assert "hyfdca" in {curve.contender.label for curve in trained}
    for curve in trained:
        name = curve.contender.label
        path = folder / f"{name}.toml"
        own = text.replace("[study]", "[study]\npenalise_intercept = true")
        path.write_text(f'{own}\n[algorithm]\nname = "{name}"\n')
        outcome = train(prepare(load(path), folder), lambda *_: None)
        start, *rows = rows_of(comparison, name)
        assert start["round"] == 0
        # That of the training includes measuring the start.
        set_up = outcome.run.training.progress.set_up_traffic
        assert 0 < start["bytes_up"] <= set_up.bytes_up
        if name == "hyfdca":
            assert start["bytes_up"] < set_up.bytes_up
        assert rows[-1]["stop_reason"] == outcome.run.training.stop_reason
        assert len(rows) == len(outcome.history())
        for (before, row), record in zip(
            pairwise([start, *rows]), outcome.history(), strict=True
        ):
            for column in ("round", "primal", "dual", "gap", "relative_gap"):
                assert row[column] == record[column], (name, column)
            for column in COSTS:
                assert row[column] - before[column] == record[column]
            trips = record["round_trips"] + record["search_round_trips"]
            assert row["round_trips"] - before["round_trips"] == trips
            assert row["participants"] == len(record["participants"])


def test_the_intercept_has_a_penalty_only_if_some_algorithm_needs_it(tmp_path):
    """A comparison of methods that free it solves the problem of the training."""
    files = plain_files(max_rounds="2")
    alone, both = (
        compared(files, tmp_path, names) for names in ("bundle", "bundle,fedavg")
    )
    assert alone.file.study.penalise_intercept is None
    assert both.file.study.penalise_intercept is True


def test_all_have_the_same_participants(every):
    """The study's own participation is that of every algorithm."""
    comparison, watch, _ = every
    drawn = {who for rounds in watch.participants.values() for who in rounds}
    assert {len(who) for who in drawn} == {2}
    assert len(drawn) > 1
    full = [rounds for rounds in watch.participants.values() if rounds]
    longest = max(full, key=len)
    assert sum(len(rounds) == len(longest) for rounds in full) > 1
    assert all(rounds == longest[: len(rounds)] for rounds in full)
    starts = [row["primal"] for row in rows_of(comparison) if row["round"] == 0]
    assert starts == pytest.approx([np.log(2.0)] * len(full))


def test_validating_costs_nothing(tmp_path):
    """With rows set aside too, the costs are those of the rounds alone."""
    watch, files = Watched(), plain_files(max_rounds="3")
    comparison = compared(files, tmp_path, "hyfdca,fedavg", watch, holdout=0.2)
    for curve in comparison.curves:
        for (before, point), report in zip(
            pairwise(curve.points), watch.reports[curve.contender.label], strict=True
        ):
            traffic, spent = report.traffic, point.spent
            trips = traffic.round_trips + traffic.search_round_trips
            assert spent.bytes_up - before.spent.bytes_up == traffic.bytes_up
            assert spent.bytes_down - before.spent.bytes_down == traffic.bytes_down
            assert spent.round_trips - before.spent.round_trips == trips


def test_simulated_time(tmp_path):
    """It adds the latency of all round trips to less than the measured seconds."""
    files = plain_files(max_rounds="3")
    slow, fast = (
        compared(files, tmp_path, "hyfdca", latency=latency) for latency in (7.0, 0.0)
    )
    for row in rows_of(fast):
        assert 0.0 < row["simulated_seconds"] <= row["seconds"]
    for row in rows_of(slow):
        computing = row["simulated_seconds"] - 7.0 * row["round_trips"]
        assert 0.0 < computing <= row["seconds"]


def test_relative_loss(tmp_path):
    """It is what P exceeds the optimum of the pooled training rows by."""
    files = plain_files(tol="1e-5", max_rounds="150", penalise_intercept="true")
    comparison = compared(files, tmp_path, "bundle,hyfdca,fedavg")
    X = np.where(held(), pooled_table(), np.nan)
    X = np.nan_to_num((X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0))
    problem = pooled_objective(prepare(load(tmp_path / "study.toml"), tmp_path))
    np.testing.assert_allclose(problem.X.toarray()[:, :5], X, atol=1e-12)
    optimum = reference_optimum(problem, 1e-11).primal
    for row in rows_of(comparison):
        expected = row["primal"] / optimum - 1.0
        assert row["relative_loss"] >= 0.0
        assert row["relative_loss"] == pytest.approx(expected, abs=1e-8)
    for name in ("bundle", "hyfdca"):
        last = rows_of(comparison, name)[-1]
        assert last["stop_reason"] == "tolerance"
        assert last["relative_loss"] <= last["relative_gap"] + 1e-8
    assert rows_of(comparison, "fedavg")[-1]["stop_reason"] == "round limit"
    assert comparison.optimum.relative_gap <= 1e-9


def test_another_way_to_the_optimum(tmp_path, monkeypatch):
    """Where coordinate ascent is too slow, the bundle method finds the optimum."""
    path = plain_files(penalise_intercept="true").write(tmp_path)
    problem = pooled_objective(prepare(load(path), tmp_path))
    usual = central.central_optimum(problem, 1e-9)
    monkeypatch.setattr(central, "_EPOCHS", 2)
    other = central.central_optimum(problem, 1e-9)
    assert (usual.method, other.method) == ("dual coordinate ascent", "bundle method")
    assert other.dual <= usual.primal
    assert usual.dual <= other.primal
    assert other.relative_gap <= 1e-8


def test_the_same_again(tmp_path):
    """Two comparisons differ in their times alone; another seed gives another one."""
    files = plain_files(participation="0.67", max_rounds="4")
    first, second, third = (
        compared(files, tmp_path, "hyfdca,fedavg", seed=seed, holdout=0.2)
        for seed in (3, 3, 4)
    )
    assert without(rows_of(first), TIMES) == without(rows_of(second), TIMES)
    assert without(rows_of(first), TIMES) != without(rows_of(third), TIMES)
    assert {row["seed"] for row in rows_of(third)} == {4}


def test_rounds_that_are_not_measured(tmp_path):
    """They have no row, but their costs are in those of the next one."""
    files = plain_files(tol="0.0")
    often = compared(files, tmp_path, "hyfdca", rounds=5)
    files.settings["measure_every"] = "3"
    seldom = compared(files, tmp_path, "hyfdca", rounds=5)
    assert [row["round"] for row in rows_of(seldom)] == [0, 3, 5]
    kept = [row for row in rows_of(often) if row["round"] in (0, 3, 5)]
    assert without(rows_of(seldom), TIMES) == without(kept, TIMES)


def test_refused_algorithms(tmp_path):
    """An algorithm that does not apply is listed with its reason; others continue."""
    files = plain_files(loss='"hinge"', max_rounds="2", algorithm='"lbfgs"')
    comparison = compared(files, tmp_path, "lbfgs,hyfdca")
    refused, trained = comparison.summary()["algorithms"]
    assert refused["stop_reason"] == "refused"
    assert "smooth loss" in refused["reason"]
    assert (trained["rounds"], trained["reason"]) == (2, None)
    assert {row["algorithm"] for row in rows_of(comparison)} == {"hyfdca"}
    with pytest.raises(StudyError, match=r"No algorithm .* \(lbfgs: .*smooth loss"):
        compared(files, tmp_path, "lbfgs")


@dataclass(frozen=True)
class Failing(FedAvg):
    """Fails in one round, and not before."""

    name: ClassVar[str] = "failing"

    fails_in: int = 2

    def server(self, federation):
        """Return a server of which one round fails."""
        server = super().server(federation)
        proper = server.round

        def round_or_fail(participants):
            if server.round_number == self.fails_in - 1:
                raise ValueError("The steps are too long.")
            return (yield from proper(participants))

        server.round = round_or_fail
        return server


@pytest.mark.parametrize("fails_in", [1, 2])
def test_failing_algorithms(fails_in, tmp_path, monkeypatch):
    """What fails midway keeps its rounds, with the reason; others continue."""
    monkeypatch.setitem(ALGORITHMS, "failing", Failing)
    names = f"failing(fails_in={fails_in}),fedavg"
    comparison = compared(plain_files(max_rounds="3"), tmp_path, names)
    failed, trained = comparison.curves
    assert (failed.stop_reason, failed.reason) == ("failed", "The steps are too long.")
    assert [point.round for point in failed.points] == [*range(fails_in)]
    assert [point.round for point in trained.points] == [0, 1, 2, 3]
    reasons = [row["stop_reason"] for row in rows_of(comparison, "failing")]
    assert reasons == [None] * (fails_in - 1) + ["failed"]


def test_both_tables_are_the_same(tmp_path):
    """CSV and Parquet have the same columns and rows."""
    files = plain_files(max_rounds="3")
    comparison = compared(files, tmp_path, "hyfdca,fedavg(rate=0.5)", holdout=0.2)
    table = long_table(comparison.curves, comparison.file.study.seed)
    parquet = pa.parquet.read_table(io.BytesIO(as_parquet(table)))
    options = pa.csv.ConvertOptions(
        column_types=SCHEMA, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    csv = pa.csv.read_csv(io.BytesIO(as_csv(table)), convert_options=options)
    assert parquet.to_pylist() == csv.to_pylist() == table.to_pylist()
    assert parquet.column_names == csv.column_names == SCHEMA.names
    assert json.loads(table.to_pylist()[-1]["settings"])["rate"] == 0.5


def test_a_rough_curve_is_smoothed():
    """Up and down in turns cancel, the ends stay, and smooth curves are left alone."""
    trend = np.linspace(1.0, 0.1, 300)
    turns = np.where(np.arange(300) % 2 == 0, 1.0, -1.0)
    rough = trend + 0.05 * turns
    found = smoothed(rough)
    assert found == pytest.approx(trend, abs=0.051)
    assert found[1:-1] == pytest.approx(trend[1:-1], abs=1e-12)
    assert (found[0], found[-1]) == (rough[0], rough[-1])
    assert smoothed(trend) is None
    assert smoothed(rough[:20]) is None
    ratios = smoothed_ratios(np.exp(rough))
    assert ratios == pytest.approx(np.exp(found), rel=1e-12)
    assert smoothed_ratios(rough - 1.0) is None


def test_curves_that_end_beyond_the_axis_are_marked():
    """A diverged curve has a triangle inside the upper edge, another has none."""
    axes = Figure().subplots()
    axes.set(xlim=(0, 4), ylim=(0.1, 10.0))
    losses = {"fedavg": [1.0, 5.0, 20.0, 400.0], "hyfem": [1.0, 20.0, 0.5, 0.4]}
    curves = [
        Curve(
            Contender(label, ALGORITHMS[label]()),
            [
                CurvePoint(i, Measurement(1.0, None), loss, None, Spent(), 2)
                for i, loss in enumerate(own)
            ],
            3,
            "round limit",
        )
        for label, own in losses.items()
    ]
    figure_module._mark_ends_beyond(
        axes, curves, figure_module._COLUMNS[0], figure_module._loss
    )
    [mark] = axes.get_lines()
    assert mark.get_marker() == "^"
    assert mark.get_xdata()[0] == 2.0  # the first round beyond
    assert 0.9 < mark.get_ydata()[0] < 1.0  # as a share of the axis


def test_figure(tmp_path):
    """The figure is drawn of any number of algorithms, also of one that blew up."""
    files = plain_files(max_rounds="3", loss='"hinge"')
    names = "hyfdca,fedavg(rate=1e9),lbfgs"
    comparison = compared(files, tmp_path, names, holdout=0.2)
    picture = draw_comparison("$x_$ [b]", comparison.curves * 6, comparison.metric)
    assert picture[:4] == b"\x89PNG"


def test_files(tmp_path, monkeypatch):
    """There are a long table, in two formats, a summary and a figure."""
    monkeypatch.setattr("hyfdca.comparison.figure.draw_comparison", lambda *_: b"")
    comparison = compared(plain_files(max_rounds="1"), tmp_path, "hyfdca")
    out = tmp_path / "deep" / "out"
    comparison.write(out)
    names = {"comparison.parquet", "comparison.csv", "comparison.json"}
    assert {p.name for p in out.iterdir()} == {*names, comparing.FIGURE}
    summary = json.loads((out / "comparison.json").read_text())
    assert summary == json.loads(json.dumps(comparison.summary()))
    assert summary["optimum"]["method"] == "dual coordinate ascent"

"""What a study shows while it trains and writes at its end."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from hyfdca.cli.displays.run import RoundsDisplay
from hyfdca.errors import StudyError
from hyfdca.study import figures
from hyfdca.study.figures import Convergence, draw_convergence
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.local.training import train_file
from hyfdca.study.outcome import train, write_files
from tests.support.consortia import NAMES, held, make_files, pooled_table


def test_written_model(tmp_path):
    """The model's own numbers give the margins of raw rows."""
    path = make_files(intercept_scaling="2.0").write(tmp_path)
    outcome = train_file(path, tmp_path / "out", lambda *_: None)
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert list(model["weights"]) == NAMES
    columns = zip(pooled_table().T, NAMES, strict=True)
    scaling = model["scaling"]
    margins = model["intercept"][0] + sum(
        (column - scaling["offsets"][name])
        / scaling["scales"][name]
        * model["weights"][name][0]
        for column, name in columns
    )
    complete = held().all(axis=1)
    own = outcome.run.margins(outcome.weights)[:, 0]
    np.testing.assert_allclose(margins[complete], own[complete])
    assert complete.any()
    assert model["certificate"]["relative_gap"] <= 1e-4
    assert model["classes"] == ["ill", "well"]


def test_failed_writing_leaves_nothing(tmp_path):
    """If one file cannot be written, nothing of the others remains."""
    (tmp_path / "b").mkdir()
    with pytest.raises(StudyError, match="Cannot write to"):
        write_files(tmp_path, {"a/c": b"1", "b": b"2"})
    with pytest.raises(StudyError, match="Cannot write to"):
        write_files(tmp_path, {"b": b"2"})
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_figure_of_no_round():
    """A run that diverged at once still has a figure."""
    assert draw_convergence(Convergence("none", [], 0.0))[:4] == b"\x89PNG"


def test_a_figure_of_curves_has_a_third_part():
    """The points of some rounds; without them the figure is as it was."""
    plain = [
        {"round": n, "primal": 1.0 / n, "dual": 0.0, "relative_gap": 1.0 / n}
        for n in range(1, 5)
    ]
    curves = [{**own, "validation_loss": None} for own in plain]
    curves[1]["validation_loss"] = 0.5
    pictures = [draw_convergence(Convergence("t", h, 0.1)) for h in (plain, curves)]
    # A PNG begins with its width.
    narrow, wide = (int.from_bytes(picture[16:20], "big") for picture in pictures)
    assert wide == pytest.approx(1.5 * narrow, abs=2)


def test_a_figure_of_a_path_says_that_it_adds_up(monkeypatch):
    """Its P is not the model's, and the pooled optimum is of the model alone."""
    said = []
    monkeypatch.setattr(figures, "as_png", lambda figure: said.append(figure) or b"")
    history = [
        {"round": n, "primal": 37.0, "dual": n, "relative_gap": 1.0} for n in (1, 2)
    ]
    for n_fits in (1, 54):
        draw_convergence(Convergence("t", history, 0.1, 0.6, n_fits))
    one, many = ([axes.get_title() for axes in figure.axes] for figure in said)
    assert one == ["The optimum lies between P and D", "Certified relative gap"]
    assert all("all 54 fits" in title for title in many)
    n_lines = [len(figure.axes[0].lines) for figure in said]
    assert n_lines == [3, 2]


@pytest.mark.parametrize("tol", ["1e-4", "0.99"])
def test_the_bar_on_a_terminal(tmp_path, tol):
    """A terminal shows a bar with round and gap, full at the end."""
    run = prepare(load(make_files(tol=tol).write(tmp_path)), tmp_path)
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with RoundsDisplay(console) as display:
        outcome = train(run, display)
    text = console.file.getvalue()
    assert f"round {outcome.n_rounds:>5}" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_traffic_counts_everything(tmp_path):
    """Round trips cover alignment, scaling, set-up, rounds and measuring."""
    run = prepare(load(make_files().write(tmp_path)), tmp_path)
    outcome = train(run, lambda *_: None)
    history = outcome.run.training.history
    rounds = sum(r["round_trips"] + r["measuring_round_trips"] for r in history)
    # Keys: made, taken, compared. Alignment: rows, forms of IDs (as tables share only
    # some rows), a notice, cells held twice. Secrets of groups: made, taken.
    # Standard scaling: 8 exchanges, two notices, and the release of the statistics.
    # Training: a notice that it starts.
    training = outcome.run.training
    before = 3 + 3.5 + 2 + 10 + 0.5 + training.progress.set_up_traffic.round_trips
    before += training.release_traffic.round_trips
    assert outcome.traffic().round_trips == rounds + before

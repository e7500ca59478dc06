"""The command line: exit codes, files, and what it shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hyfdca.demo.in_process import demo_files
from hyfdca.kits import key_files
from hyfdca.study.file import load
from hyfdca.study.local.run import pooled_objective
from hyfdca.study.local.study import prepare
from tests.support.consortia import held, make_files
from tests.support.labelled_files import add_column, blank

KEYS = [
    "algorithm",
    "algorithm_reason",
    "encryption",
    "sealed_with",
    "cells",
    "uncovered_cells",
    "uncovered_share",
    "filled_cells",
    "rows_without_label",
    "rows_of_weight_zero",
    "rounds",
    "converged",
    "stop_reason",
    "primal",
    "dual",
    "relative_gap",
    "l2",
    "loss_notes",
    "path",
    "path_score",
    "pooled_primal",
    "relative_loss",
    "accuracy",
    "r_squared",
    "mean_absolute_error",
    "evaluation",
    "bytes_up",
    "bytes_down",
    "round_trips",
    "seconds",
    "about",
]


def test_train(tmp_path, hyfdca):
    """A study writes its model and how it was found; pooled numbers are null."""
    path = make_files().write(tmp_path)
    out = tmp_path / "deep" / "out"
    code, output, errors = hyfdca("train", path, "--out", out)
    assert (code, errors) == (0, "")
    assert {p.name for p in out.iterdir()} == {
        "model.json",
        "result.json",
        "history.json",
        "convergence.png",
        "model-card.json",
        "report.html",
    }
    history = json.loads((out / "history.json").read_text())
    result = json.loads((out / "result.json").read_text())
    assert list(result) == KEYS
    assert result["pooled_primal"] is None
    assert result["relative_loss"] is None
    assert result["relative_gap"] <= 1e-4
    assert [record["round"] for record in history] == [*range(1, result["rounds"] + 1)]
    assert history[-1]["primal"] == result["primal"]
    assert history[-1]["participants"] == ["north", "city", "coast"]
    assert "round 1: certified gap" in output
    assert "north" in output
    n_uncovered = int(np.sum(~held()))
    assert f"Nobody holds 20.0% of all cells ({n_uncovered})" in output
    assert (result["cells"], result["uncovered_cells"]) == (held().size, n_uncovered)
    assert result["uncovered_share"] == n_uncovered / held().size
    assert "2 columns of city: 'x3', 'x4'" in output
    assert (out / "convergence.png").read_bytes()[:4] == b"\x89PNG"


def test_default_folder(tmp_path, monkeypatch, hyfdca):
    """Without --out the folder is named after the study file."""
    monkeypatch.chdir(tmp_path)
    make_files().write(tmp_path)
    code, _, _ = hyfdca("train", "study.toml")
    assert code == 0
    assert (tmp_path / "study-out" / "result.json").exists()


def test_rows_that_are_left_out_are_shown(tmp_path, hyfdca):
    """Rows without a label, and rows of weight 0, each with their number."""
    files = blank(make_files(encryption='"none"'), [3, 58])
    add_column(files, "weight_column", "w", lambda row: float(row != 7))
    path = files.write(tmp_path)
    code, output, _ = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 0
    assert re.search(r"rows without a label, left out +│ +2 ", output)
    assert re.search(r"rows of weight 0, left out +│ +1 ", output)


def test_not_converging_is_a_warning(tmp_path, hyfdca):
    """Too few rounds give a model, exit code 3 and a visible warning."""
    path = make_files(max_rounds="2").write(tmp_path)
    code, output, _ = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 3
    assert "Not converged" in output
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert list(result) == [*KEYS, "warning"]
    assert "round limit" in result["warning"]


@pytest.mark.slow
def test_what_was_noticed_in_files_is_shown(tmp_path, hyfdca):
    """Semicolons, decimal commas and an index give the same model, and are said."""
    path = make_files(encryption='"none"').write(tmp_path)
    hyfdca("train", path, "--out", tmp_path / "usual")
    frame = pd.read_csv(tmp_path / "city.csv", dtype={"id": str})
    frame.to_csv(tmp_path / "city.csv", sep=";", decimal=",")
    code, output, _ = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 0
    said = " ".join(output.split())
    assert "city: The file city.csv is read with semicolons between cells, with" in said
    assert "city: Column '' of city.csv is left out: pandas wrote its index" in said
    models = [tmp_path / name / "model.json" for name in ("usual", "out")]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_divergence_is_named(tmp_path, hyfdca):
    """A model worse than one of zeros needs other steps, not more rounds."""
    files = make_files(
        encryption='"none"', loss='"hinge"', l2="1e-6", tol="1e-9", max_rounds="30"
    )
    chosen = '\n[algorithm]\nname = "hyfdca"\nstep = "paper"\niic = 3.0'
    files.organisations["coast"].extra += chosen
    code, _, _ = hyfdca("train", files.write(tmp_path), "--out", tmp_path / "out")
    assert code == 3
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["primal"] > 1.0  # the hinge loss of a model of zeros
    assert "stopped (diverged) after 30 rounds" in result["warning"]
    assert "use step='auto'" in result["warning"]
    assert "max_rounds" not in result["warning"]


@pytest.mark.parametrize(
    ("limit", "reason", "advice"),
    [
        ({"max_seconds": "1e-9"}, "time limit", "max_seconds"),
        ({"stall_rounds": "5", "tol": "0.0"}, "stalled", "stall_rounds"),
    ],
)
def test_other_limits_are_warnings(limit, reason, advice, tmp_path, hyfdca):
    """The reason for stopping early is named, with what to do about it."""
    path = make_files(encryption='"none"', **limit).write(tmp_path)
    code, output, _ = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 3
    assert "Not converged" in output
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (result["converged"], result["stop_reason"]) == (False, reason)
    assert reason in result["warning"]
    assert advice in result["warning"]
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert model["training"]["stop_reason"] == reason


def test_names_are_text(tmp_path, hyfdca):
    """Characters that look like markup are shown unchanged."""
    files = make_files()
    files.settings["name"] = '"[/x] $x_$ 50 %"'
    path = files.write(tmp_path)
    code, output, errors = hyfdca("train", path, "--out", tmp_path / "[bold]out")
    assert (code, errors) == (0, "")
    assert "[/x] $x_$ 50 %" in output
    assert "[bold]out" in output


def test_demo(tmp_path, hyfdca):
    """The demonstration comes as close to the pooled optimum as it certifies."""
    code, output, errors = hyfdca("demo", "--out", tmp_path)
    assert (code, errors) == (0, "")
    result = json.loads((tmp_path / "result.json").read_text())
    assert list(result) == KEYS
    assert 0 <= result["relative_loss"] <= 1.01 * result["relative_gap"] <= 1.01e-3
    assert "loss above the pooled optimum" in output
    files = {p.name for p in tmp_path.iterdir()}
    written = {"model.json", "result.json", "history.json", "convergence.png"}
    assert files == {*demo_files(), *written, "model-card.json", "report.html"}


def test_the_demo_s_study_can_be_trained(tmp_path, hyfdca):
    """The demonstration writes an ordinary study, which gives the same result."""
    for name, content in demo_files().items():
        (tmp_path / name).write_bytes(content)
    code, _, _ = hyfdca("train", tmp_path / "study.toml", "--out", tmp_path / "out")
    assert code == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["relative_gap"] <= 1e-3


def test_the_demo_on_machines_without_bfv(tmp_path, monkeypatch):
    """Its study says which encryption it has instead."""
    monkeypatch.setattr("hyfdca.demo.in_process.find_spec", lambda _: None)
    (tmp_path / "study.toml").write_bytes(demo_files()["study.toml"])
    assert load(tmp_path / "study.toml").study.encryption == "stream"


def test_hospitals_share_patients_and_columns(tmp_path):
    """Every hospital shares some rows and columns, and lacks some others."""
    for name, content in demo_files().items():
        (tmp_path / name).write_bytes(content)
    run = prepare(load(tmp_path / "study.toml"), tmp_path)
    partition = run.consortium.partition
    for holding in partition.holdings:
        assert len(holding.samples) < partition.n_samples
        assert (partition.features.counts[holding.features] > 1).any()
    assert pooled_objective(run).X.shape == (569, 30)


@pytest.mark.parametrize("group", ["keys", "study"])
def test_help_of_a_group_without_arguments(group, hyfdca):
    """Without a command, the commands of the group are listed."""
    code, output, errors = hyfdca(group)
    assert (code, errors) == (2, "")
    assert f"hyfdca {group}" in output


def test_interrupting(monkeypatch, tmp_path, hyfdca):
    """Ctrl-C leaves one line and the exit code of an interrupt."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("hyfdca.demo.in_process.run_demo", interrupt)
    assert hyfdca("demo", "--out", tmp_path) == (130, "", "Interrupted.\n")


def test_help_without_arguments(hyfdca):
    """Without arguments, the commands are listed."""
    code, output, errors = hyfdca()
    assert (code, errors) == (2, "")
    assert "train" in output


def test_version():
    """The installed command prints its version."""
    command = Path(sys.executable).with_name("hyfdca")
    run = subprocess.run(  # noqa: S603  # our own command
        [command, "--version"], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"hyfdca \d+\.\d+\.\d+\n", run.stdout)


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        (
            PermissionError(13, "Permission denied", "keys/secret"),
            "Cannot use keys/secret (Permission denied); check its permissions and the "
            "free space.",
        ),
        (
            OSError("no\nreason"),
            "Cannot use a file (no reason); check its permissions and the free space.",
        ),
    ],
)
def test_what_the_system_refuses_is_bad_input(
    hyfdca, monkeypatch, tmp_path, refused, sentence
):
    """No command ends in a traceback and exit code 1 for it."""

    def refuse(_):
        raise refused

    monkeypatch.setattr(key_files, "read_identity", refuse)
    assert hyfdca("keys", "show", tmp_path) == (2, "", f"{sentence}\n")

"""What the command line shows of rows that were set aside."""

from __future__ import annotations

import json

import pytest

from hyfdca.cli.displays.run import path_table
from tests.support.consortia import make_files, scores


def lines_of(output):
    """Return the lines of the closing table, without its frame."""
    lines = [line.strip("│ ") for line in output.splitlines() if "│" in line]
    return {line.split("│")[0].strip(): line.split("│")[-1].strip() for line in lines}


def test_classes(tmp_path, hyfdca):
    """The numbers of ``result.json``, AUC and KS as intervals alone."""
    path = make_files(holdout="0.4", min_bin="2").write(tmp_path)
    code, output, errors = hyfdca("train", path, "--out", tmp_path / "out")
    assert (code, errors) == (0, "")
    shown = lines_of(output)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    found = result["evaluation"]
    assert shown["rows set aside to test the model"] == str(found["n_rows"])
    assert shown["accuracy"] == f"{found['accuracy']:.1%}"
    assert shown["log loss"] == f"{found['log_loss']:.4f}"
    assert shown["AUC"] == f"{found['auc_low']:.4f} to {found['auc_high']:.4f}"
    assert shown["Kolmogorov-Smirnov"].startswith(f"{found['ks_low']:.4f} to ")
    first, second = json.loads((tmp_path / "out" / "model.json").read_text())["classes"]
    assert f"sensitivity (rows of {second})" in shown
    assert f"specificity (rows of {first})" in shown
    slope, _, intercept = shown["calibration slope, intercept"].partition(", ")
    assert float(slope) == round(found["calibration"]["slope"], 3)
    assert float(intercept) == round(found["calibration"]["intercept"], 3)


@pytest.mark.slow
def test_numbers_and_many_classes(tmp_path, hyfdca):
    """R² and errors, or one AUC per class; without rows set aside nothing."""
    files = make_files(scores().tolist(), loss='"half_squared"', holdout="0.4")
    code, output, _ = hyfdca("train", files.write(tmp_path), "--out", tmp_path / "out")
    assert code == 0
    assert {"R²", "mean absolute error"} < set(lines_of(output))
    many = make_files(["abc"[row % 3] for row in range(60)], holdout="0.4")
    code, output, _ = hyfdca("train", many.write(tmp_path), "--out", tmp_path / "out")
    assert code == 0
    assert {"AUC of a", "AUC of b", "AUC of c"} < set(lines_of(output))
    path = make_files().write(tmp_path)
    _, output, _ = hyfdca("train", path, "--out", tmp_path / "out")
    assert "set aside" not in output


def test_what_the_gap_of_a_path_may_move():
    """Held-out losses change with the square root of the gap, not with the gap."""
    row = {"mean": 0.5, "standard_error": 0.1, "is_best": True, "is_chosen": True}
    path = [{"l2": 0.1, "relative_gap": [1e-4, 1e-6], **row}]
    caption = str(path_table({"path": path, "path_score": "log_loss"}).caption)
    assert "about the square root of the gap, here 1e-02 of a mean" in caption
    assert "lower tol" in caption

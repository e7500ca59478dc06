"""Predictions of split rows between real processes, over mutual TLS."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from hyfdca.kits.all_local import provision_all
from hyfdca.model.file import as_bytes
from tests.flare.flare_parties import ROOT, own_port
from tests.model.models import make_model, make_table, random_cells

pytest.importorskip("nvflare")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
    pytest.mark.xdist_group("online 1"),
]

_PATIENCE = 400  # seconds; a busy machine needs most of them
_STUDY = """\
[study]
name = "split"
loss = "logistic"
encryption = "stream"
id_column = "id"
predictions_per_hour = 9

[[clients]]
name = "north"
may_predict = true

[[clients]]
name = "city"

[server]
port = {port}
"""
HOLDINGS = {"north": (range(5), [0, 1]), "city": ([4, 2, 0, 1, 6], [1, 2, 3])}


@pytest.fixture
def kits(tmp_path):
    """Return kits of a study that was trained, each with its own rows beside."""
    model, cells = make_model(missing="refuse"), random_cells(7)
    study = tmp_path / "study.toml"
    study.write_text(_STUDY.format(port=own_port()))
    home = tmp_path / "two words"
    provision_all(study, home)
    for name, (rows, columns) in HOLDINGS.items():
        (home / name / "out").mkdir()
        (home / name / "out" / "model.json").write_bytes(as_bytes(model.file))
        with (home / name / "rows.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "note", *(model.features[c] for c in columns)])
            writer.writerows([f"r{r}", "text", *cells[r, columns]] for r in rows)
    return home, model, cells


def start(*command):
    return subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-m", "tests.prediction.split_command", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
    )


def run_all(home):
    """Let all parties take part; return exit codes and output, by party."""
    asking = ("predict", "--kit", home / "north", "--data", home / "north" / "rows.csv")
    holding = ("holder", home / "city", home / "city" / "rows.csv")
    processes = {
        "server": start("server", home / "server"),
        "city": start(*holding),
        "north": start("hyfdca", *asking, "--out", home / "made.csv"),
    }
    try:
        said = {n: p.communicate(timeout=_PATIENCE)[0] for n, p in processes.items()}
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    return {name: process.returncode for name, process in processes.items()}, said


def test_predicting_between_machines(kits):
    """The asker gets its scores, and everybody logs."""
    home, model, cells = kits
    codes, said = run_all(home)
    assert codes == {"server": 0, "city": 0, "north": 0}, said
    assert "Organisation 'north' received scores of 5 rows." in said["server"]
    assert "Organisation 'north' asked for 5 rows." in said["city"]
    assert "rows omitted" in said["north"]
    with (home / "made.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["r0", "r1", "r2", "r4"]
    margins = model.margins(make_table(cells))[[0, 1, 2, 4], 0]
    made = np.array([float(row["margin"]) for row in rows])
    assert np.abs(made - margins).max() < 1e-12
    for name in ("north", "city"):
        log = (home / name / "log" / "predictions.jsonl").read_text()
        assert json.loads(log)["rows"] == 5


@pytest.mark.thorough
def test_the_limit_holds_between_machines(kits):
    """A second time the asker's own log refuses; without it, the holder's does."""
    home, _, _ = kits
    codes, said = run_all(home)
    assert codes == {"server": 0, "city": 0, "north": 0}, said
    again = start(
        *("hyfdca", "predict", "--kit", home / "north"),
        *("--data", home / "north" / "rows.csv"),
    )
    assert "leaves it 4 rows" in again.communicate(timeout=_PATIENCE)[0]
    assert again.returncode != 0
    (home / "north" / "log" / "predictions.jsonl").unlink()
    codes, said = run_all(home)
    assert "'city' gives 'north' no predictions" in said["north"].replace("\n", " ")
    assert codes["north"] != 0
    assert codes["server"] == 0

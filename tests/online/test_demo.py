"""The demonstration between processes: the same model, and nothing left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.flare.flare_parties import wait_until

pytest.importorskip("nvflare")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("online 1")]

_PATIENCE = 400.0  # seconds; it takes 40 on an idle machine


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Run the demonstration, whose temporary files go below a folder."""
    (folder / "tmp").mkdir()
    command = ["demo", "--engine", "nvflare", "--out", str(folder / "out")]
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(  # noqa: S603  # our own command
            [sys.executable, "-m", "hyfdca", *command],
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(folder / "tmp")},
            start_new_session=True,
        )


def processes(folder: Path) -> list[str]:
    """Return the command lines of all processes that have to do with a folder."""
    lines = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
    return [" ".join(line) for line in lines if str(folder / "tmp") in " ".join(line)]


def test_the_model_is_that_of_one_process_bit_for_bit(tmp_path, hyfdca):
    """The same files are written, and the processes are gone."""
    assert start(tmp_path).wait(_PATIENCE) == 0, (tmp_path / "said").read_text()
    said = (tmp_path / "said").read_text()
    assert said.startswith("Three hospitals and a server train")
    assert "loss above the pooled optimum" in said
    assert not processes(tmp_path)
    assert not list((tmp_path / "tmp").iterdir())
    code, _, _ = hyfdca("demo", "--out", tmp_path / "here")
    assert code == 0
    here, there = tmp_path / "here", tmp_path / "out"
    assert {p.name for p in here.iterdir()} == {p.name for p in there.iterdir()}
    assert (here / "model.json").read_bytes() == (there / "model.json").read_bytes()
    mine, theirs = (
        json.loads((folder / "result.json").read_text()) for folder in (here, there)
    )
    assert list(mine) == list(theirs)
    for name in ("rounds", "primal", "dual", "accuracy", "pooled_primal"):
        assert mine[name] == theirs[name]


@pytest.mark.thorough
def test_ctrl_c_ends_all_processes(tmp_path):
    """It also does so before the study runs."""
    demo = start(tmp_path)
    said = tmp_path / "said"
    wait_until(lambda: "The server is up" in said.read_text(), _PATIENCE, "the server")
    assert processes(tmp_path)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(_PATIENCE) == 130
    assert said.read_text().endswith("Interrupted.\n")
    # Guarded processes see within a second that their parent is gone.
    wait_until(lambda: not processes(tmp_path), 60.0, "no processes")
    assert not list((tmp_path / "tmp").iterdir())

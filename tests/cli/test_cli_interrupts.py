"""Ctrl-C and kill -9 of ``hyfdca train``, as real signals to a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from hyfdca.runtime.store import Archive, FolderStore
from tests.support.command_line import run_command
from tests.support.consortia import make_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("no_figure"),
    pytest.mark.xdist_group("interrupts"),  # one undisturbed run for all of them
]

# Rounds take some time, and each is saved; nothing else is changed.
SCRIPT = """
import sys, time
from hyfdca.cli.displays.run import RoundsDisplay
from hyfdca.cli.main import main
from hyfdca.study.local import training as local_training

local_training._SECONDS, local_training._SHARE = 0.0, 1e9
pause, show = float(sys.argv[1]), RoundsDisplay.__call__


def show_slowly(self, run, report):
    show(self, run, report)
    time.sleep(pause)


RoundsDisplay.__call__ = show_slowly
sys.argv[:2] = ["hyfdca"]
main()
"""
# Children of a pytest in the background inherit that SIGINT is ignored.
WITH_SIGINT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
SETTINGS = {"algorithm": '"hyfdca"', "step": '"safe"', "max_rounds": "40"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Write a study that ends at its round limit, and what it ends with."""
    folder = tmp_path_factory.mktemp("study")
    path = make_files(tol="1e-9", **SETTINGS).write(folder)
    assert run_command("train", path, "--out", folder / "undisturbed")[0] == 3
    return path


def start(study, out, *options, seconds=0.1):
    """Start to train, in a process group of its own, as a terminal would."""
    command = [sys.executable, "-c", SCRIPT, str(seconds), "train", study, *options]
    python = [sys.executable, "-c", WITH_SIGINT]
    return subprocess.Popen(  # noqa: S603  # our own command
        [*python, *map(str, command), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def ended(process):
    """Wait for the end; return exit code, output and errors."""
    output, errors = process.communicate(timeout=400)
    return process.returncode, output, errors


def wait_for_round(out, number, process):
    """Wait until a round, or a later one, is saved."""
    deadline = time.monotonic() + 400
    saved = Archive(FolderStore(out / "state" / "server"))
    while max(saved.rounds, default=0) < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_for_words(process, words):
    """Read the errors up to a line with some words."""
    for line in process.stderr:
        if words in line:
            return
    pytest.fail(f"it ended without {words!r}")


def model(out):
    """Return the bytes of a model."""
    return (out / "model.json").read_bytes()


def test_ctrl_c_ends_with_the_model_so_far(study, tmp_path):
    """The code is 3, a sentence says why, and --resume ends as if undisturbed."""
    out = tmp_path / "out"
    process = start(study, out, seconds=0.5)
    wait_for_round(out, 3, process)
    os.killpg(process.pid, signal.SIGINT)
    code, output, errors = ended(process)
    assert code == 3
    assert "press Ctrl-C again to abort" in errors
    assert "Traceback" not in errors
    assert "Continue this run with --resume." in output
    result = json.loads((out / "result.json").read_text())
    assert result["stop_reason"] == "interrupted"
    assert not result["converged"]
    assert 3 <= result["rounds"] < 40
    assert "stopped (interrupted)" in result["warning"]
    assert json.loads(model(out))["certificate"]["primal"] == result["primal"]
    code, _, errors = run_command("train", study, "--resume", "--out", out)
    assert code == 3
    assert errors.startswith(f"Continuing after round {result['rounds']}.\n")
    assert model(out) == model(study.parent / "undisturbed")
    assert not (out / "state").exists()


def test_resuming_a_finished_training_is_refused(study):
    """One sentence refuses it, and the existing model stays."""
    out = study.parent / "undisturbed"
    before = (out / "model.json").stat().st_mtime_ns
    code, output, errors = run_command("train", study, "--resume", "--out", out)
    assert (code, output) == (2, "")
    assert errors.startswith("There is no unfinished run in ")
    assert (out / "model.json").stat().st_mtime_ns == before


def test_a_second_ctrl_c_aborts(study, tmp_path):
    """The code is that of an interrupt, and no result is written."""
    out = tmp_path / "out"
    process = start(study, out, seconds=5.0)
    wait_for_round(out, 1, process)
    os.killpg(process.pid, signal.SIGINT)
    wait_for_words(process, "press Ctrl-C again")  # two signals at once would be one
    os.killpg(process.pid, signal.SIGINT)
    code, _, errors = ended(process)
    assert code == 130
    assert errors.endswith("Interrupted.\n")
    assert os.listdir(out) == ["state"]


@pytest.mark.thorough
def test_a_killed_training_is_resumed(study, tmp_path):
    """However often it is killed, the model is that of an undisturbed training."""
    out = tmp_path / "out"
    for number in (2, 7, 20):
        options = ["--resume"] if out.exists() else []
        process = start(study, out, *options, seconds=0.25)
        wait_for_round(out, number, process)
        process.kill()
        assert ended(process)[0] == -signal.SIGKILL
        assert os.listdir(out) == ["state"]
    code, _, errors = ended(start(study, out))
    assert code == 2
    assert "continue it with --resume, or discard it with --restart" in errors
    assert ended(start(study, out, "--resume", seconds=0.0))[0] == 3
    assert model(out) == model(study.parent / "undisturbed")
    assert not (out / "state").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--resume", "--restart"], "Give only one of --resume and --restart."),
        (["--record", "--resume"], "A recorded run keeps no checkpoints;"),
    ],
)
def test_options_that_contradict_are_refused(options, sentence, tmp_path, hyfdca):
    """They are refused before anything is written."""
    path = make_files().write(tmp_path)
    code, output, errors = hyfdca("train", path, "--out", tmp_path / "out", *options)
    assert (code, output) == (2, "")
    assert errors.startswith(sentence)
    assert not (tmp_path / "out").exists()

"""Several runs of one study in one process, each with a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hyfdca.study.local import training as local_training
from hyfdca.study.local.further_runs import next_choice
from hyfdca.study.local.training import train_file
from hyfdca.study.tuning import FIRST_RUN, RunChoice, run_folder
from tests.support.command_line import run_command
from tests.support.consortia import assert_one_sentence
from tests.support.durable_runs import write

RANGES = "l2 = {least = 1e-5, most = 1.0}\nmax_rounds = {most = 2000}\nmost_runs = 3"
SAID = (
    "Run 2 of the study 'test': l2 = 0.5 (study file: 0.05, allowed: 1e-05 to 1.0).\n"
)
QUICK = {"tol": "1e-2", "algorithm": '"bundle"'}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write(tmp_path, tuning=RANGES, **QUICK) / "study.toml"


def result(folder: Path) -> dict:
    return json.loads((folder / "result.json").read_text())


def test_a_further_run_has_a_folder_of_its_own(study: Path, tmp_path: Path) -> None:
    """It says what was chosen; the files of the first run stay as they are."""
    out = tmp_path / "out"
    assert run_command("train", study, "--out", out)[0] == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    code, output, errors = run_command("train", study, "--out", out, "--tune", "l2=0.5")
    assert code == 0
    assert errors == SAID
    assert str(out / "run-2") in output.replace("\n", "")
    assert {path: path.read_bytes() for path in before} == before
    about = result(out / "run-2")["about"]
    assert about["run"] == 2
    assert about["changes"] == [
        {"setting": "l2", "value": 0.5, "study_file": 0.05, "least": 1e-5, "most": 1.0}
    ]
    assert about["exposed"][-1].startswith("This is run 2 of the study: the margins of")
    assert (result(out)["about"]["run"], result(out)["about"]["changes"]) == (1, [])
    page = (out / "run-2" / "report.html").read_text()
    assert "2 of the study, l2 = 0.5 (study file: 0.05, allowed: 1e-05 to 1)" in page
    assert "of the study, l2" not in (out / "report.html").read_text()


@pytest.mark.slow
def test_its_model_is_that_of_a_file_with_the_chosen_values(
    study: Path, tmp_path: Path
) -> None:
    """The models are the same bit for bit."""
    out, other = tmp_path / "out", tmp_path / "other"
    run_command("train", study, "--out", out)
    options = ("--tune", "l2=0.5", "--tune", "max_rounds=2")
    run_command("train", study, "--out", out, *options)
    other.mkdir()
    chosen = write(other, l2="0.5", max_rounds="2", **QUICK) / "study.toml"
    run_command("train", chosen, "--out", other)
    model = (out / "run-2" / "model.json").read_bytes()
    assert model == (other / "model.json").read_bytes()
    assert result(out / "run-2")["rounds"] == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tune", "l2=2.0"], "the study file allows l2 from 1e-05 to 1.0"),
        (["--tune", "tol=0.5"], "leaves tol no range"),
        (["--tune", "seed=1"], "Cannot choose 'seed=1'"),
        (["--tune", "l2=0.5", "--resume"], "leave out --tune"),
        (["--tune", "l2=0.5", "--record"], "omit --tune"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    options: list[str], said: str, study: Path, tmp_path: Path
) -> None:
    """Invalid choices leave nothing behind."""
    code, _, errors = run_command("train", study, "--out", tmp_path / "out", *options)
    assert code == 2
    assert said in errors
    assert_one_sentence(errors)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_there_are_no_more_runs_than_the_file_allows(
    study: Path, tmp_path: Path
) -> None:
    """The first run counts too."""
    tune = ("train", study, "--out", tmp_path / "out", "--tune", "l2=0.5")
    assert [run_command(*tune)[0] for _ in range(3)] == [0, 0, 0]
    code, _, errors = run_command(*tune)
    assert (code, errors) == (
        2,
        "Run 4 is not allowed, because the study file allows 3 runs (most_runs in "
        "[tuning]).\n",
    )


class Killed(BaseException):  # not an error of the study
    """The process is gone."""


def kill(_: object, report: object) -> None:
    """End the process in the first round."""
    raise Killed


@pytest.mark.slow
def test_a_further_run_is_resumed_with_its_choice(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found and needs no option; another one does not begin over it."""
    monkeypatch.setattr(local_training, "_SECONDS", 0.0)
    monkeypatch.setattr(local_training, "_SHARE", 1e9)
    out, run = tmp_path / "out", RunChoice(number=2, l2=0.5)

    for name in ("undisturbed", "out"):
        train_file(study, tmp_path / name, lambda *_: None)
    second = run_folder(tmp_path / "undisturbed", 2)
    train_file(study, second, lambda *_: None, run=run)
    with pytest.raises(Killed):
        train_file(study, run_folder(out, 2), kill, run=run)
    assert next_choice(out, [], "first") == FIRST_RUN
    assert next_choice(out, [], "restart") == run
    assert next_choice(out, ["l2=0.6"], "restart") == RunChoice(number=2, l2=0.6)
    code, _, errors = run_command("train", study, "--out", out, "--tune", "l2=0.6")
    assert code == 2
    assert "saved up to round 1; continue it with --resume" in errors
    code, _, errors = run_command("train", study, "--out", out, "--resume")
    assert code == 0, errors
    assert errors == f"{SAID}Continuing after round 1.\n"
    found = (out / "run-2" / "model.json").read_bytes()
    assert found == (second / "model.json").read_bytes()
    assert next_choice(out, ["l2=0.6"], "first") == RunChoice(number=3, l2=0.6)


def test_a_further_run_is_restarted_with_its_choice(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results of the first run stay, and no state is left, as on a server."""
    monkeypatch.setattr(local_training, "_SECONDS", 0.0)
    monkeypatch.setattr(local_training, "_SHARE", 1e9)
    out, run = tmp_path / "out", RunChoice(number=2, l2=0.5)

    train_file(study, out, lambda *_: None)
    first = (out / "model.json").read_bytes()
    with pytest.raises(Killed):
        train_file(study, run_folder(out, 2), kill, run=run)
    kept = out / "run-2" / "state" / "server" / "run"
    content = kept.read_bytes()
    kept.write_bytes(b"damaged")
    assert next_choice(out, [], "restart") == RunChoice(number=2)
    kept.write_bytes(content)
    code, _, errors = run_command("train", study, "--out", out, "--restart")
    assert (code, errors) == (0, SAID)
    assert (out / "model.json").read_bytes() == first
    assert (out / "run-2" / "model.json").exists()
    assert not (out / "run-2" / "state").exists()
    # Nothing is unfinished now: without --tune it is the run of the file itself.
    assert next_choice(out, [], "restart") == FIRST_RUN

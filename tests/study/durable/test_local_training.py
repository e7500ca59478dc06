"""A study in one process that is stopped and resumed."""

import os
import stat

import msgspec
import pytest

from hyfdca.errors import StudyError
from hyfdca.runtime.store import FolderStore
from hyfdca.study.local import training as local_training
from hyfdca.study.local.training import train_file
from tests.study.durable.test_durable import STUDIES
from tests.support.consortia import assert_one_sentence, make_files
from tests.support.durable_runs import write

pytestmark = pytest.mark.usefixtures("no_figure")

FILES = {"model.json", "result.json", "history.json", "convergence.png"}


class Killed(BaseException):
    """Ends a training as abruptly as a signal would, without ending the process."""


@pytest.fixture
def every_round(monkeypatch):
    """Save every round, as if it took seconds."""
    monkeypatch.setattr(local_training, "_SECONDS", 0.0)
    monkeypatch.setattr(local_training, "_SHARE", 1e9)


def killed_after(n_rounds):
    """Return a watcher that kills the training after a round."""

    def watch(run, report):
        if report.round_number == n_rounds:
            raise Killed

    return watch


def trained(folder, out="out", watch=lambda *_: None, how="first"):
    """Train the study of a folder; return its model and its history without times."""
    path = folder / out
    train_file(folder / "study.toml", path, watch, how)
    history = msgspec.json.decode((path / "history.json").read_bytes())
    for record in history:
        del record["seconds"]
    return (path / "model.json").read_bytes(), history


@pytest.mark.sampled(2)
@pytest.mark.parametrize("settings", STUDIES.values(), ids=STUDIES)
def test_a_killed_training_resumes(settings, every_round, tmp_path):
    """Model and history equal those of an undisturbed training, bit for bit."""
    write(tmp_path, **settings)
    expected = trained(tmp_path, "undisturbed")
    last = len(expected[1])
    middle = (last + 1) // 2
    with pytest.raises(Killed):
        trained(tmp_path, watch=killed_after(middle))
    assert not FILES & set(os.listdir(tmp_path / "out"))
    numbers = []
    seen = lambda run, report: numbers.append(report.round_number)  # noqa: E731
    assert trained(tmp_path, watch=seen, how="resume") == expected
    assert numbers == list(range(middle + 1, last + 1))
    assert set(os.listdir(tmp_path / "out")) == FILES


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("n_writes", range(34))
def test_a_kill_between_any_two_files_loses_nothing(
    n_writes, every_round, monkeypatch, tmp_path
):
    """The last round that all parties wrote counts, or the run begins again."""
    write(tmp_path, encryption='"none"')
    expected = trained(tmp_path, "undisturbed")
    write_file, left = FolderStore.write, iter(range(n_writes))

    def write_until_killed(self, name, content):
        if next(left, None) is None:
            raise Killed
        write_file(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "write", write_until_killed)
        with pytest.raises(Killed):
            trained(tmp_path)
    has_run = any(tmp_path.glob("out/state/server/round-*"))
    assert trained(tmp_path, how="resume" if has_run else "first") == expected
    assert set(os.listdir(tmp_path / "out")) == FILES


@pytest.mark.parametrize("measure_every", ["1", "4"])
def test_an_interrupted_training_has_a_model_and_resumes(measure_every, tmp_path):
    """The model is certified; afterwards nothing tells that it was interrupted."""
    write(tmp_path, measure_every=measure_every)
    expected = trained(tmp_path, "undisturbed")

    def interrupt(run, report):
        run.training.interruption.is_asked = report.round_number == 2

    model, history = trained(tmp_path, watch=interrupt)
    model = msgspec.json.decode(model)
    assert model["training"]["stop_reason"] == "interrupted"
    assert model["training"]["rounds"] == len(history) == 2
    assert model["certificate"]["primal"] == history[-1]["primal"]
    with pytest.raises(StudyError, match="saved up to round 2"):
        trained(tmp_path)
    assert trained(tmp_path, how="resume") == expected
    assert set(os.listdir(tmp_path / "out")) == FILES


def test_columns_ignored_by_the_study_are_no_features(tmp_path):
    """They are ignored wherever they exist; not every table needs them."""
    write(tmp_path, ignore='["x3", "cost"]')
    features = msgspec.json.decode(trained(tmp_path)[0])["weights"].keys()
    assert "x3" not in features
    assert {"x2", "x4"} < features


def test_short_trainings_write_no_checkpoint(monkeypatch, tmp_path):
    """Nothing is written but results, so nothing is paid for."""
    write(tmp_path)
    flushed = []
    monkeypatch.setattr(local_training.SavedRun, "write", flushed.append)
    trained(tmp_path)
    assert flushed == []
    assert set(os.listdir(tmp_path / "out")) == FILES


@pytest.mark.parametrize(("every", "last"), [("1", 5), ("3", 3)])
def test_only_some_rounds_are_saved(every, last, every_round, tmp_path):
    """``checkpoint_every`` determines which."""
    write(tmp_path, checkpoint_every=every)
    with pytest.raises(Killed):
        trained(tmp_path, watch=killed_after(5))
    with pytest.raises(StudyError, match=f"saved up to round {last}"):
        trained(tmp_path)


def test_an_earlier_run_is_neither_resumed_nor_discarded_unasked(every_round, tmp_path):
    """The sentence names both options, as with ``hyfdca server``."""
    write(tmp_path)
    expected = trained(tmp_path, "undisturbed")
    with pytest.raises(Killed):
        trained(tmp_path, watch=killed_after(3))
    with pytest.raises(StudyError, match=r"saved up to round 3; .*--resume.*--restart"):
        trained(tmp_path)
    assert not FILES & set(os.listdir(tmp_path / "out"))
    numbers = []
    seen = lambda run, report: numbers.append(report.round_number)  # noqa: E731
    assert trained(tmp_path, watch=seen, how="restart") == expected
    assert numbers[0] == 1
    assert set(os.listdir(tmp_path / "out")) == FILES


def test_resuming_without_a_run_is_refused(tmp_path):
    """Neither a study that never began nor a finished one is trained in its place."""
    write(tmp_path)
    with pytest.raises(StudyError, match=r"no unfinished run in .*; leave out --re"):
        trained(tmp_path, how="resume")
    assert not (tmp_path / "out").exists()
    trained(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    with pytest.raises(StudyError, match="no unfinished run"):
        trained(tmp_path, how="resume")
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert after == before


def test_another_study_file_is_not_resumed(every_round, tmp_path):
    """The states belong to the settings that the run began with."""
    write(tmp_path)
    with pytest.raises(Killed):
        trained(tmp_path, watch=killed_after(3))
    write(tmp_path, l2="0.06")
    for how in ("first", "resume"):
        with pytest.raises(StudyError, match=r"study file has changed; .*--restart"):
            trained(tmp_path, how=how)
    trained(tmp_path, how="restart")


def test_another_table_is_not_resumed(every_round, tmp_path):
    """The sentence names the organisation."""
    write(tmp_path)
    with pytest.raises(Killed):
        trained(tmp_path, watch=killed_after(3))
    files = make_files()
    files.organisations["city"].table["x3"][0] = 77.5
    files.write(tmp_path)
    with pytest.raises(StudyError, match=r"'city': its table has changed") as caught:
        trained(tmp_path, how="resume")
    assert "77.5" not in str(caught.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "spoilt",
    [
        "server/round-3",
        "server/preparation",
        "server/study",
        "member-1/identity",
        "member-1/keys",
        "member-1/preparation",
        "member-1/round-3",
    ],
)
@pytest.mark.parametrize("is_lost", [False, True], ids=["damaged", "lost"])
def test_a_damaged_run_is_a_sentence(spoilt, is_lost, every_round, tmp_path):
    """It is found before anything is computed from it; starting over is possible."""
    write(tmp_path)
    with pytest.raises(Killed):
        trained(tmp_path, watch=killed_after(3))
    state = tmp_path / "out" / "state"
    for earlier in ("round-1", "round-2"):  # to which a damaged run would go back
        (state / "server" / earlier).unlink()
    path = state / spoilt
    path.write_bytes(path.read_bytes()[:-1])
    if is_lost:
        path.unlink()
    if is_lost and spoilt == "server/round-3":  # then there is no run
        with pytest.raises(StudyError, match="no unfinished run"):
            trained(tmp_path, how="resume")
        return
    with pytest.raises(StudyError) as caught:
        trained(tmp_path, how="resume")
    assert_one_sentence(f"{caught.value}\n")
    assert "--restart" in str(caught.value)
    trained(tmp_path, how="restart")


def test_states_are_for_their_owner_alone(every_round, tmp_path):
    """Folders and files are closed to others, and all but the server's are sealed."""
    write(tmp_path)
    with pytest.raises(Killed):
        trained(tmp_path, watch=killed_after(3))
    state = tmp_path / "out" / "state"
    for path in (state, *state.rglob("*")):
        if path.name != "hyfdca.lock":
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert {path.name for path in state.iterdir()} == {
        "hyfdca.lock",
        "server",
        *(f"member-{rank}" for rank in range(3)),
    }


def test_files_of_others_in_the_folder_stay(every_round, tmp_path):
    """A folder named state may have been there before."""
    write(tmp_path)
    own = tmp_path / "out" / "state" / "mine.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    trained(tmp_path)
    assert os.listdir(own.parent) == ["mine.txt"]


def test_two_processes_do_not_share_a_run(every_round, tmp_path):
    """The second is refused while the first runs, whatever it is asked to do."""
    write(tmp_path)

    def again(run, report):
        if report.round_number == 3:
            for how in ("resume", "restart"):
                with pytest.raises(StudyError, match="Another hyfdca train is using"):
                    trained(tmp_path, how=how)
            raise Killed

    with pytest.raises(Killed):
        trained(tmp_path, watch=again)
    trained(tmp_path, how="resume")


@pytest.mark.parametrize("cell", ["1e60", "-1e80", "1e99"])
def test_numbers_too_large_to_train_with(cell, tmp_path):
    """Their owner says so, however large; no message has room for some squares."""
    files = make_files(scale='"none"', encryption='"none"')
    files.organisations["north"].table["x0"][15] = cell
    path = files.write(tmp_path)
    with pytest.raises(StudyError) as error:
        train_file(path, tmp_path / "out", lambda *_: None)
    assert_one_sentence(f"{error.value}\n")
    assert "Organisation 'north': its numbers are too large" in str(error.value)

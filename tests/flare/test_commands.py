from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from hyfdca.cli import flare_commands
from hyfdca.cli.flare_commands import join_study, serve_study
from hyfdca.errors import StudyError
from hyfdca.flare import client
from hyfdca.flare.lock import only_one
from hyfdca.flare.predictions.inputs import KEPT
from hyfdca.flare.status import (
    RUNS_LOG,
    current_run,
    is_over,
    note_over,
    note_run,
    result_folder,
)
from hyfdca.kits import startup
from hyfdca.kits.kit import Kit, read_server_kit
from hyfdca.model.file import StopReason
from hyfdca.runtime.store import Archive, FolderStore
from hyfdca.study.local.saved_run import How
from hyfdca.study.tuning import FIRST_RUN, RunChoice
from tests.kits.kit_makers import Parties
from tests.kits.test_check import data_of
from tests.model.models import make_file
from tests.prediction.predictions import model_at
from tests.support.consortia import assert_one_sentence


@pytest.fixture
def kit(installed: Parties) -> Kit:
    """Return a server's kit with two rounds of a run."""
    made = Kit(installed.kits / "server")
    made.state.mkdir(exist_ok=True)
    for number in (3, 4):
        archive(made).write_round(number, b"kept")
    return made


def archive(kit: Kit) -> Archive:
    return Archive(FolderStore(kit.state / KEPT))


def test_a_run_is_not_discarded_while_another_server_continues_it(kit: Kit) -> None:
    """A command that cannot get the kit changes nothing in it."""
    note_over(kit, ["city"])
    with only_one(kit), pytest.raises(StudyError, match="Another hyfdca is running"):
        serve_study(kit.folder, Console(quiet=True), "restart")
    assert archive(kit).rounds == [3, 4]
    assert is_over(kit)


def test_an_earlier_run_is_neither_discarded_nor_continued_by_default(
    kit: Kit,
) -> None:
    """The error says which run there is, and what can be done with it."""
    with pytest.raises(
        StudyError, match="up to round 4; continue it with --resume, or"
    ):
        serve_study(kit.folder, Console(quiet=True), "first")
    note_over(kit, ["city"])
    with pytest.raises(StudyError, match=r"give it to city with --resume, or run it"):
        serve_study(kit.folder, Console(quiet=True), "first")
    note_over(kit)
    with pytest.raises(StudyError, match=r"finished.*; run it again with --restart"):
        serve_study(kit.folder, Console(quiet=True), "first")
    assert archive(kit).rounds == [3, 4]


RANGES = b"\n[tuning]\nl2 = {least = 1e-5, most = 1.0}\nmost_runs = 3\n"


def begun(kit: Kit, monkeypatch: pytest.MonkeyPatch, *options: str, how: How) -> None:
    """Let a server begin a run and end at once; return the note of the run."""

    class Ended(Exception):  # noqa: N818  # this is how the server's run ends here
        """The server has prepared its run."""

    def run_server(*given: Any) -> None:
        given[-1]()
        raise Ended

    monkeypatch.setattr(flare_commands, "run_server", run_server)
    with pytest.raises(Ended):
        serve_study(kit.folder, Console(quiet=True), how, options)


@pytest.fixture
def tunable(kit: Kit) -> Kit:
    """Return a server's kit whose study leaves l2 open, with an unfinished run."""
    study = kit.folder / "study.toml"
    study.write_bytes(study.read_bytes() + RANGES)
    archive(kit).write("asked", b"1")
    return kit


def test_a_further_run_needs_an_earlier_one_that_is_over(tunable: Kit) -> None:
    """It also needs valid values; a refusal changes nothing."""
    kit, l2 = tunable, ["l2=0.5"]
    with pytest.raises(StudyError, match="up to round 4; continue it with --resume"):
        serve_study(kit.folder, Console(quiet=True), "first", l2)
    note_over(kit, ["city"])
    with pytest.raises(StudyError, match="model of the last run has not reached city"):
        serve_study(kit.folder, Console(quiet=True), "first", l2)
    note_over(kit)
    with pytest.raises(StudyError, match="begin a further run with --tune, or run"):
        serve_study(kit.folder, Console(quiet=True), "first")
    with pytest.raises(StudyError, match=r"Run 2 has l2 = 2.0, but the study file"):
        serve_study(kit.folder, Console(quiet=True), "first", ["l2=2"])
    assert archive(kit).rounds == [3, 4]
    assert is_over(kit)
    assert current_run(kit).number == 1


def test_a_further_run_begins_after_the_last_one(
    tunable: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its own number, folder, end and line in the log."""
    kit = tunable
    note_over(kit)
    begun(kit, monkeypatch, "l2=0.5", how="first")
    assert current_run(kit) == RunChoice(number=2, l2=0.5)
    assert result_folder(kit) == kit.out / "run-2"
    said = "Run 2 of the study 'test': l2 = 0.5 (study file: 0.05, allowed: 1e-05 to "
    assert (kit.log / RUNS_LOG).read_text().endswith(f" {said}1.0).\n")
    assert not is_over(kit)
    assert archive(kit).rounds == []
    # A kit whose study file was replaced begins with the run of the file itself.
    before = (kit.log / RUNS_LOG).read_text()
    file = read_server_kit(kit.folder).file
    note_run(kit, file, FIRST_RUN)
    assert current_run(kit) == FIRST_RUN
    assert (kit.log / RUNS_LOG).read_text() == before
    note_run(kit, file, RunChoice(number=2, l2=0.5))
    # Organisations may know a run that they were asked for.
    archive(kit).write("asked", b"2")
    begun(kit, monkeypatch, "l2=0.6", how="first")
    assert current_run(kit) == RunChoice(number=3, l2=0.6)
    archive(kit).write_round(1, b"kept")
    begun(kit, monkeypatch, how="restart")
    assert current_run(kit) == RunChoice(number=3, l2=0.6)
    assert archive(kit).rounds == []


def test_runs_that_trained_no_round_use_up_nothing(
    tunable: Kit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that nobody was asked to begin is replaced; the next follows any other."""
    kit = tunable
    note_over(kit)
    for value in (0.5, 0.6):  # each stopped while it waits for organisations
        begun(kit, monkeypatch, f"l2={value}", how="first")
        assert current_run(kit) == RunChoice(number=2, l2=value)
    for number in (3, 4, 5):  # each refused by a policy before its first round
        archive(kit).write("asked", b"%d" % (number - 1))
        begun(kit, monkeypatch, "l2=0.5", how="first")
        assert current_run(kit).number == number
    for number in (6, 7):
        archive(kit).write("asked", b"%d" % (number - 1))
        archive(kit).write_round(1, b"kept")
        if number < 7:
            begun(kit, monkeypatch, "l2=0.5", how="restart")
            begun(kit, monkeypatch, how="restart")  # forgets no run that was trained
    with pytest.raises(StudyError, match="Run 7 is not allowed, because the study"):
        serve_study(kit.folder, Console(quiet=True), "restart", ["l2=0.5"])


def test_it_is_said_that_a_run_trained_no_round(
    tunable: Kit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only of a run that organisations may know, and that has no round."""
    kit = tunable
    note_over(kit)
    monkeypatch.setattr(flare_commands, "run_server", _ends)
    for asked, said in (
        (b"1", ""),
        (b"2", "Run 2 was begun but has trained no round; run 3 begins.\n"),
        (b"2", ""),
    ):
        archive(kit).write("asked", asked)
        with pytest.raises(StudyError, match="it ends here"):
            serve_study(kit.folder, Console(), "first", ["l2=0.5"])
        assert capsys.readouterr().out == said


def _ends(*given: Any) -> None:
    given[-1]()
    raise StudyError("it ends here")


def test_a_study_without_ranges_has_one_run(kit: Kit) -> None:
    """The coordinator gets a refusal before anything begins."""
    note_over(kit)
    with pytest.raises(StudyError, match=r"no table .tuning.: the study has one run"):
        serve_study(kit.folder, Console(quiet=True), "first", ["l2=0.5"])


@pytest.mark.parametrize("restart", [True, False])
def test_an_organisation_takes_part_once_more_on_request(
    installed: Parties, restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only then does it forget that it has a model."""
    kit = Kit(installed.kit("north"))
    kit.state.mkdir(exist_ok=True)
    note_over(kit)

    def run_client(*_: Any, prepare: Callable[[], None]) -> None:
        prepare()
        kit.out.mkdir(exist_ok=True)
        model_at(kit.out)

    monkeypatch.setattr(flare_commands, "run_client", run_client)
    monkeypatch.setattr(flare_commands, "check_before_connecting", lambda *_: None)
    join_study(kit.folder, Path("table.csv"), Console(quiet=True), restart)
    assert is_over(kit) is not restart


@pytest.mark.parametrize(
    ("reason", "code", "words"),
    [
        (
            "tolerance",
            0,
            "Converged after 3 rounds at a certified relative gap of 0.5.",
        ),
        ("round limit", 3, "Not converged: stopped (round limit) after 3 rounds at a"),
        ("diverged", 3, "stopped (diverged) after 3 rounds"),
    ],
)
def test_an_organisation_learns_how_it_ended(
    installed: Parties,
    reason: StopReason,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    hyfdca: Callable[..., tuple[int, str, str]],
) -> None:
    """A sentence and the exit code say so, also to a resumed server."""
    kits = [Kit(installed.kit("north")), Kit(installed.kits / "server")]
    for kit in kits:
        kit.state.mkdir(exist_ok=True)
        kit.out.mkdir(exist_ok=True)
        training = msgspec.structs.replace(make_file().training, stop_reason=reason)
        model_at(kit.out, training=training)
        note_over(kit)
    monkeypatch.setattr(flare_commands, "run_client", lambda *_, **__: None)
    member, server = (str(kit.folder) for kit in kits)
    found, said, _ = hyfdca("client", "--kit", member, "--data", "table.csv")
    assert found == code
    assert words in " ".join(said.split())
    assert hyfdca("server", "--kit", server, "--resume")[0] == code


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--engine", "nvflare"),
        ("server", "--kit", "kit"),
        ("client", "--kit", "kit", "--data", "table.csv"),
    ],
)
def test_without_nvflare_there_is_one_sentence(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hyfdca: Callable[..., tuple[int, str, str]],
) -> None:
    """NVFlare is an optional dependency; the error says how to install it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(startup, "find_spec", lambda _: None)
    code, output, errors = hyfdca(*arguments)
    assert (code, output) == (2, "")
    assert "install hyfdca[nvflare]" in errors
    assert_one_sentence(errors)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", ["empty", "no id", "keys"])
def test_an_organisation_checks_its_own_side_before_it_connects(
    case: str,
    installed: Parties,
    monkeypatch: pytest.MonkeyPatch,
    hyfdca: Callable[..., tuple[int, str, str]],
) -> None:
    """Otherwise it would wait for a server, or end the study of all others."""
    connected: list[Path] = []
    monkeypatch.setattr(client, "_keep_running", lambda kit, *_: connected.append(kit))
    made = Kit(installed.kit("north"))
    data = made.folder / "own.csv"
    table = data_of(installed).read_text()
    if case == "empty":
        table, said = "", "the file own.csv is empty"
    elif case == "no id":
        table, said = table.replace("id", "number", 1), "id"
    else:
        made.state.mkdir(exist_ok=True)
        (made.state / KEPT).mkdir()
        (made.state / KEPT / "keys").write_bytes(b"spoilt")
        said = "keys is damaged"
    data.write_text(table)
    code, _, errors = hyfdca("client", "--kit", made.folder, "--data", data)
    assert code == 2
    assert_one_sentence(errors)
    assert said in errors
    assert connected == []


def refuse_access(monkeypatch: pytest.MonkeyPatch, method: str, name: str) -> None:
    """Make the system refuse access to files of a name, as to another user's."""
    allowed = getattr(Path, method)

    def refuse(path: Path) -> Any:
        if path.name == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return allowed(path)

    monkeypatch.setattr(Path, method, refuse)


@pytest.mark.parametrize(
    "command",
    [
        ["client"],
        ["client", "--predict"],
        ["check"],
        ["predict"],
        ["server"],
        ["server", "--predict"],
    ],
)
def test_a_kit_of_another_user_is_one_sentence(
    installed: Parties,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    hyfdca: Callable[..., tuple[int, str, str]],
) -> None:
    """Exit code 1 would mean that an audit found something."""
    kit = installed.kits / "server"
    given = command
    if command[0] != "server":
        kit = installed.kit("north")
        given = [*command, "--data", str(installed.root / "north" / "data.csv")]
    refuse_access(monkeypatch, "is_file", "fed_server.json")
    code, _, error = hyfdca(*given, "--kit", kit)
    assert code == 2
    assert_one_sentence(error)
    assert "fed_server.json (Permission denied); check its permissions" in error


def test_a_state_of_another_user_is_one_sentence(
    installed: Parties,
    monkeypatch: pytest.MonkeyPatch,
    hyfdca: Callable[..., tuple[int, str, str]],
) -> None:
    """The folder may be root's, for example after a start with sudo."""
    refuse_access(monkeypatch, "read_bytes", "run.json")
    code, _, error = hyfdca("server", "--kit", installed.kits / "server", "--resume")
    assert code == 2
    assert_one_sentence(error)
    assert "run.json (Permission denied); check its permissions" in error

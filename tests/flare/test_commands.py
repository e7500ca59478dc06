from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from hyfdca.cli import flare_commands
from hyfdca.cli.flare_commands import join_study, serve_study
from hyfdca.errors import StudyError
from hyfdca.flare.lock import only_one
from hyfdca.flare.predictions.inputs import KEPT
from hyfdca.flare.status import is_over, note_over
from hyfdca.kits import startup
from hyfdca.kits.kit import Kit
from hyfdca.model.file import StopReason
from hyfdca.runtime.store import Archive, FolderStore
from tests.kits.kit_makers import Parties
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
def test_an_organisation_is_told_how_it_ended(
    installed: Parties,
    reason: StopReason,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    hyfdca: Callable[..., tuple[int, str, str]],
) -> None:
    """By a sentence, and by the exit code; so is the server that is resumed."""
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

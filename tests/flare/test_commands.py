from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hyfdca.cli import flare as commands
from hyfdca.cli.flare_commands import serve_study
from hyfdca.errors import StudyError
from hyfdca.flare.lock import only_one
from hyfdca.flare.prediction_inputs import KEPT
from hyfdca.flare.status import is_over, note_over
from hyfdca.kits.kit import Kit
from hyfdca.runtime.store import Archive, FolderStore
from tests.kits.kit_makers import Parties


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


def test_a_run_is_not_forgotten_while_another_server_goes_on_with_it(kit: Kit) -> None:
    """Who cannot have the kit changes nothing in it."""
    note_over(kit, ["city"])
    with only_one(kit), pytest.raises(StudyError, match="Another hyfdca is running"):
        serve_study(kit.folder, Console(quiet=True), "anew")
    assert archive(kit).rounds == [3, 4]
    assert is_over(kit)


def test_an_earlier_run_is_neither_forgotten_nor_gone_on_with_by_itself(
    kit: Kit,
) -> None:
    """The sentence says what there is, and what can be done with it."""
    with pytest.raises(StudyError, match=r"kept up to round 4; go on with --resume"):
        serve_study(kit.folder, Console(quiet=True), "first")
    note_over(kit, ["city"])
    with pytest.raises(StudyError, match=r"give it to city with --resume, or run it"):
        serve_study(kit.folder, Console(quiet=True), "first")
    note_over(kit)
    with pytest.raises(StudyError, match=r"finished.*; run it once more with --anew"):
        serve_study(kit.folder, Console(quiet=True), "first")
    assert archive(kit).rounds == [3, 4]


@pytest.mark.parametrize("anew", [True, False])
def test_an_organisation_takes_part_once_more_if_told_to(
    installed: Parties, anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only then it forgets that it has a model."""
    kit = Kit(installed.kit("north"))
    kit.state.mkdir(exist_ok=True)
    note_over(kit)

    def run_client(*_: Any, prepare: Callable[[], None]) -> None:
        prepare()

    monkeypatch.setattr(commands, "run_client", run_client)
    commands.join_study(kit.folder, Path("table.csv"), Console(quiet=True), anew)
    assert is_over(kit) is not anew

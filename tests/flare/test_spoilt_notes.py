"""Notes that are damaged: moved aside, rebuilt, and never a traceback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyfdca.flare.lock import holder_number
from hyfdca.flare.log import written_down
from hyfdca.flare.notes import ASIDE
from hyfdca.flare.status import (
    Note,
    Status,
    holders,
    note_over,
    read_note,
    read_status,
    without_model,
    write_holders,
    write_note,
    write_status,
)
from hyfdca.kits.kit import Kit, ServerKit
from hyfdca.study.file import Client, Study, StudyFile
from tests.support.spoiling import spoilt
from tests.support.thoroughness import examples

NAMES = ["north", "city"]
Files = dict[str, tuple[Callable[[ServerKit], Any], Any]]


@pytest.fixture
def kit(tmp_path: Path) -> ServerKit:
    """Make the state of a server, with every note in it."""
    clients = [Client(name=name) for name in NAMES]
    made = ServerKit(tmp_path, StudyFile(Study(name="test"), clients), b"")
    for folder in (made.state, made.log):
        folder.mkdir()
    write_note(made, Note("job", "failed", "It broke."))
    note_over(made, ["city"])
    write_holders(made, dict.fromkeys(NAMES, "a" * 32))
    write_status(made.state, Status(round=3, present=NAMES, gaps=[(1.0, 0.5)]))
    return made


# How each is read, and what it says once it was damaged.
READERS: Files = {
    "job.json": (read_note, None),
    "over.json": (without_model, NAMES),
    "holders.json": (holders, {}),
    "status.json": (lambda kit: read_status(kit.state), None),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_notes_count_as_missing(
    kit: ServerKit, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A note says what its type allows, or is moved aside with a warning."""
    path, (read, missing) = kit.state / name, READERS[name]
    good, n_aside = path.read_bytes(), 0
    kind = type(read(kit))
    for content in spoilt(good, 300, name):
        path.write_bytes(content)
        aside = path.with_name(f"{name}{ASIDE}")
        aside.unlink(missing_ok=True)
        caplog.clear()
        found = read(kit)
        if aside.exists():
            n_aside += 1
            assert found == missing
            assert aside.read_bytes() == content
            assert str(path) in caplog.text
        else:
            assert isinstance(found, kind)
    assert n_aside > examples(300) // 6


def test_who_lacks_the_model_is_rebuilt(kit: ServerKit) -> None:
    """A name that is not in the study is damage too; then everybody gets the model."""
    path = kit.state / "over.json"
    path.write_bytes(b'["harbour"]')
    assert without_model(kit) == NAMES
    assert path.read_bytes() == b'["north","city"]'


def test_a_damaged_number_of_the_kit_is_replaced(kit: ServerKit) -> None:
    """The number is always one that an environment variable can have."""
    number, path = holder_number(kit), kit.state / "holder"
    good = path.read_bytes()
    for content in spoilt(good, 200, "holder"):
        path.write_bytes(content)
        found = holder_number(kit)
        assert len(found) == 32
        assert found == holder_number(kit)
        path.write_bytes(good)
        assert holder_number(kit) == number


def test_warnings_are_reported(kit: ServerKit) -> None:
    """The command that runs says what was moved aside."""
    sentences: list[str] = []
    with written_down(kit, sentences.append):
        (kit.state / "job.json").write_bytes(b"{")
        assert read_note(Kit(kit.folder)) is None
        logging.getLogger("hyfdca").info("not this")
    assert sentences == [
        f"The file {kit.state / 'job.json'} was damaged; it is now job.json{ASIDE}, "
        "and rebuilt."
    ]

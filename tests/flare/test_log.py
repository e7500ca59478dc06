"""The log of a kit: sentences with the time, limited in size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hyfdca.errors import StudyError
from hyfdca.flare import log as log_module
from hyfdca.flare.log import begin_again, written_down
from hyfdca.kits.kit import Kit


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    (tmp_path / "log").mkdir()
    return Kit(tmp_path)


def lines(kit: Kit) -> list[str]:
    """Return the lines written, without their times, which must be present."""
    found = []
    for line in (kit.log / "hyfdca.log").read_text("utf-8").splitlines():
        match = re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - (.*)", line)
        assert match, line
        found.append(match[1])
    return found


def test_sentences_are_printed_and_written(kit: Kit) -> None:
    """That includes characters that logging would interpret."""
    printed: list[str] = []
    for _ in range(2):
        with written_down(kit, printed.append) as tell:
            tell("100 % of 'Süd' %s")
    assert printed == ["100 % of 'Süd' %s"] * 2
    assert lines(kit) == ["Started.", "100 % of 'Süd' %s", "Finished."] * 2


@pytest.mark.parametrize(
    ("error", "last"),
    [
        (StudyError("It cannot be."), "It cannot be."),
        (KeyboardInterrupt(), "Ended by KeyboardInterrupt."),
        (ValueError("patient 4711"), "Ended by ValueError."),
    ],
)
def test_the_last_line_says_how_it_ended(
    kit: Kit, error: BaseException, last: str
) -> None:
    """Texts of unexpected errors are left out: they may contain data."""
    with pytest.raises(type(error)), written_down(kit, lambda _: None):
        raise error
    assert lines(kit) == ["Started.", last]


def test_what_was_said_is_bounded(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current file and the one before it are kept."""
    monkeypatch.setattr(log_module, "_MOST_SAID", 1000)
    with written_down(kit, lambda _: None) as tell:
        for number in range(200):
            tell(f"sentence {number}")
    assert {path.name for path in kit.log.iterdir()} == {"hyfdca.log", "hyfdca.log.1"}
    assert all(path.stat().st_size <= 1000 for path in kit.log.iterdir())
    assert lines(kit)[-2:] == ["sentence 199", "Finished."]


def test_what_is_printed_is_bounded_while_it_is_printed(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has the log open continues at the start of the new file."""
    monkeypatch.setattr(log_module, "_MOST_PRINTED", 10)
    log = kit.log / "server.log"
    with log.open("ab", buffering=0) as process:
        process.write(b"0123456789")
        assert not begin_again(log)
        process.write(b"more\n")
        assert begin_again(log)
        process.write(b"new\n")
    assert log.read_bytes() == b"new\n"
    assert (kit.log / "server.log.1").read_bytes() == b"0123456789more\n"

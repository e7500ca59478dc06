from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hyfdca.errors import StudyError
from hyfdca.flare.connection import _ALONE, Connection
from hyfdca.flare.status import Status, note_over, write_status
from hyfdca.kits.kit import Kit
from tests.flare.flare_output import NOBODY, NORTH, REFUSED_BY_US, UP


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    made = Kit(tmp_path)
    made.state.mkdir()
    return made


def test_a_sentence_is_said_once_until_there_is_another(kit: Kit) -> None:
    """Trying again is not told again and again."""
    said: list[str] = []
    visit = Connection(kit, NORTH, said.append)
    for printed in (NOBODY, NOBODY, UP, UP):
        visit.look(printed)
    assert [words.split()[0] for words in said] == ["There", "'north'"]


def test_what_cannot_get_better_ends_the_client(kit: Kit) -> None:
    """A certificate of another study will not become one of this."""
    with pytest.raises(StudyError, match="authority of this kit"):
        Connection(kit, NORTH, lambda _: None).look(REFUSED_BY_US)


def test_a_server_is_waited_for_however_long_it_is_away(kit: Kit) -> None:
    """NVFlare's client may end over it; that is no failed start."""
    visit = Connection(kit, NORTH, lambda _: None)
    for _ in range(50):
        visit.look(NOBODY)
        visit.ended()
    assert visit.may_start()


def test_a_client_that_was_connected_is_started_again_however_often(kit: Kit) -> None:
    """Only starts in a row that came to nothing are counted."""
    said: list[str] = []
    visit = Connection(kit, NORTH, said.append)
    for _ in range(50):
        assert visit.may_start()
        visit.look(UP)
        visit.ended()
    for _ in range(50):
        visit.ended()
    assert not visit.may_start()
    assert "starting it again" in said[-1]


def test_who_finds_its_server_again_says_so(kit: Kit) -> None:
    """NVFlare's client does not: it is seen from what the server asks."""
    said: list[str] = []
    visit = Connection(kit, NORTH, said.append)
    for printed in (UP, NOBODY, ""):
        visit.look(printed)
    assert said[-1].startswith("There is no server")
    time.sleep(0.02)  # the clock of files is a coarse one
    write_status(kit.state, Status())
    visit.look("")
    visit.look("")
    assert [words.split()[0] for words in said] == ["'north'", "There", "'north'"]


@pytest.mark.parametrize("minutes", [0, 60])
def test_who_has_the_model_leaves_when_the_server_has(
    kit: Kit, minutes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once, also when it is from an earlier start: the server may not know."""
    visit = Connection(kit, NORTH, lambda _: None)
    visit.look(NOBODY)
    assert not visit.is_alone()
    note_over(kit)
    then = time.time() - 60 * minutes
    os.utime(kit.state / "over.json", (then, then))
    visit.look(NOBODY)
    assert not visit.is_alone()
    later = time.time() + _ALONE + 1
    monkeypatch.setattr("time.time", lambda: later)
    assert not visit.is_alone()  # nothing says that the server is gone
    visit.look(NOBODY)
    assert visit.is_alone()
    assert not Connection(kit, NORTH, lambda _: None, is_training=False).is_alone()


def test_trouble_counts_from_when_the_server_was_last_there(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that was after the start: it may only be starting again."""
    note_over(kit)
    visit = Connection(kit, NORTH, lambda _: None)
    now = time.time() + 100 * _ALONE
    monkeypatch.setattr("time.time", lambda: now)
    visit.look(UP)
    now += 1
    visit.look(NOBODY)
    assert not visit.is_alone()
    now += _ALONE
    visit.look(NOBODY)
    assert visit.is_alone()

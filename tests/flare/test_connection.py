from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hyfdca.errors import StudyError
from hyfdca.flare.connection import _ALONE, NEVER, Connection
from hyfdca.flare.predictions.asking import LEAVE
from hyfdca.flare.status import Status, note_over, write_status
from hyfdca.kits.kit import Kit
from tests.flare.flare_output import NOBODY, NORTH, REFUSED_BY_US, UP


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    made = Kit(tmp_path)
    made.state.mkdir()
    return made


def test_a_sentence_is_said_once_until_there_is_another(kit: Kit) -> None:
    """Repeated attempts are reported once."""
    said: list[str] = []
    connection = Connection(kit, NORTH, said.append)
    for printed in (NOBODY, NOBODY, UP, UP):
        connection.look(printed)
    assert [words.split()[0] for words in said] == ["The", "'north'"]


def test_what_cannot_get_better_ends_the_client(kit: Kit) -> None:
    """Waiting does not help against the certificate of another study."""
    with pytest.raises(StudyError, match="authority of this kit"):
        Connection(kit, NORTH, lambda _: None).look(REFUSED_BY_US)


def test_a_server_is_waited_for_however_long_it_is_away(kit: Kit) -> None:
    """NVFlare's client may end meanwhile; that does not count as a failed start."""
    connection = Connection(kit, NORTH, lambda _: None)
    for _ in range(50):
        connection.look(NOBODY)
        connection.ended()
    assert connection.may_start()


def test_a_client_that_was_connected_is_started_again_however_often(kit: Kit) -> None:
    """Only consecutive failed starts are counted."""
    said: list[str] = []
    connection = Connection(kit, NORTH, said.append)
    for _ in range(50):
        assert connection.may_start()
        connection.look(UP)
        connection.ended()
    for _ in range(50):
        connection.ended()
    assert not connection.may_start()
    assert "restarting it" in said[-1]


def test_a_client_that_finds_its_server_again_says_so(kit: Kit) -> None:
    """NVFlare's client does not say so: it shows in the server's next request."""
    said: list[str] = []
    connection = Connection(kit, NORTH, said.append)
    for printed in (UP, NOBODY, ""):
        connection.look(printed)
    assert said[-1].startswith("The server at ")
    time.sleep(0.02)  # file times are coarse
    write_status(kit.state, Status())
    connection.look("")
    connection.look("")
    assert [words.split()[0] for words in said] == ["'north'", "The", "'north'"]


@pytest.mark.parametrize("minutes", [0, 60])
def test_a_client_with_the_model_leaves_when_the_server_has_left(
    kit: Kit, minutes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once, even with a model of an earlier start: the server may not know."""
    connection = Connection(kit, NORTH, lambda _: None)
    connection.look(NOBODY)
    assert not connection.is_alone()
    note_over(kit)
    then = time.time() - 60 * minutes
    os.utime(kit.state / "over.json", (then, then))
    connection.look(NOBODY)
    assert not connection.is_alone()
    later = time.time() + _ALONE + 1
    monkeypatch.setattr("time.time", lambda: later)
    assert not connection.is_alone()  # nothing says that the server is gone
    connection.look(NOBODY)
    assert connection.is_alone()
    assert not Connection(kit, NORTH, lambda _: None, leave=NEVER).is_alone()


def test_an_asker_with_its_scores_leaves_later(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is restarted may still need it for another asker."""
    scores = kit.state / "kept" / "scores"
    connection = Connection(kit, NORTH, lambda _: None, LEAVE)
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)

    def is_alone_after(seconds: float) -> bool:
        nonlocal now
        now += seconds
        connection.look(NOBODY)
        return connection.is_alone()

    assert not is_alone_after(10 * LEAVE.patience)
    scores.parent.mkdir()
    scores.touch()
    os.utime(scores, (now, now))
    assert LEAVE.patience > _ALONE
    assert not is_alone_after(LEAVE.patience - 1)
    assert is_alone_after(2)


def test_trouble_counts_from_when_the_server_was_last_there(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the start does not matter: the server may only be restarting."""
    note_over(kit)
    connection = Connection(kit, NORTH, lambda _: None)
    now = time.time() + 100 * _ALONE
    monkeypatch.setattr("time.time", lambda: now)
    connection.look(UP)
    now += 1
    connection.look(NOBODY)
    assert not connection.is_alone()
    now += _ALONE
    connection.look(NOBODY)
    assert connection.is_alone()

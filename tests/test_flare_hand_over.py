"""The model at the end of a study, also for those who are away just then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyfdca.flare.jobs import MODEL, hand_over
from hyfdca.flare.network import PausedError
from hyfdca.flare.notes import is_over, note_over, progress, without_model
from hyfdca.kits.kit import Kit
from hyfdca.study_error import StudyError

NAMES = ("north", "city", "coast")


class Members:
    """Members of which one is away for some calls; the network between, too."""

    def __init__(self, n_calls_away: int = 0) -> None:
        self._n_left = n_calls_away
        self.missing = [0, 1, 2]
        self.has_model: list[int] = []

    def call(self, clients: Iterable[int]) -> list[int]:
        """See who is there."""
        here = [c for c in clients if c != 1 or self._n_left <= 0]
        self._n_left -= 1
        self.missing = [c for c in self.missing if c not in here]
        return here

    def finish(self, model: bytes, clients: Iterable[int]) -> list[int]:
        """Give the model to those who are there."""
        assert model == b"model"
        here = [c for c in clients if c not in self.missing]
        self.has_model += here
        return here

    def wait(self, missing: Iterable[int]) -> None:
        """Let no time pass."""
        assert list(missing) == [1]


@pytest.fixture
def kit(tmp_path: Path) -> Any:
    made = Kit(tmp_path)
    made.state.mkdir()
    made.out.mkdir()
    (made.out / MODEL).write_bytes(b"model")
    note_over(made, NAMES)
    return SimpleNamespace(names=NAMES, state=made.state, out=made.out)


@pytest.mark.parametrize("n_calls_away", [0, 3])
def test_everybody_gets_the_model_once(kit: Any, n_calls_away: int) -> None:
    """Whoever comes back later as well; it is said once whom the server waits for."""
    members: Any = Members(n_calls_away)
    said: list[str] = []
    hand_over(kit, members, members, said.append)
    assert sorted(members.has_model) == [0, 1, 2]
    assert without_model(kit) == []
    assert len(said) == (1 if n_calls_away else 0)
    assert all("Waiting for 'city'" in sentence for sentence in said)


def test_who_has_the_model_does_not_get_it_again(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study may pause meanwhile, or be killed: whom it still owes it is kept."""

    def pause(self: Members, missing: Iterable[int]) -> None:
        raise PausedError

    members: Any = Members(3)
    before = progress(kit)
    monkeypatch.setattr(Members, "wait", pause)
    with pytest.raises(PausedError):
        hand_over(kit, members, members, lambda _: None)
    assert is_over(kit)
    assert without_model(kit) == ["city"]
    assert progress(kit) != before  # so no attempt in vain
    later: Any = Members()
    hand_over(kit, later, later, lambda _: None)
    assert later.has_model == [1]


def test_a_model_that_was_taken_away_is_named(kit: Any) -> None:
    """Instead of ending in an unexpected error."""
    (kit.out / MODEL).unlink()
    members: Any = Members()
    with pytest.raises(StudyError, match=r"There is no .*model\.json to be given out"):
        hand_over(kit, members, members, lambda _: None)

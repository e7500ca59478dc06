"""The model at the end of a study, including for members that are away then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyfdca.flare.jobs import MODEL, _can_hand_over, _has_model, hand_over
from hyfdca.flare.network import PausedError
from hyfdca.flare.status import is_over, note_over, progress, without_model
from hyfdca.flare.supervisor import Supervisor, Terms
from hyfdca.kits.kit import Kit
from hyfdca.protocol.checkpoint import CheckpointError
from hyfdca.runtime.store import StoreError
from hyfdca.study.presence import MisfitError

NAMES = ("north", "city", "coast")


class Members:
    """Members and their network; one member is away for some calls."""

    def __init__(self, n_calls_away: int = 0) -> None:
        self._n_left = n_calls_away
        self.missing = [0, 1, 2]
        self.has_model: list[int] = []

    def call(self, clients: Iterable[int]) -> list[int]:
        """Return who is present."""
        here = [c for c in clients if c != 1 or self._n_left <= 0]
        self._n_left -= 1
        self.missing = [c for c in self.missing if c not in here]
        return here

    def finish(self, model: bytes, clients: Iterable[int]) -> list[int]:
        """Give the model to those who are present."""
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
    """An organisation that returns later gets it too; the wait is reported once."""
    members: Any = Members(n_calls_away)
    said: list[str] = []
    hand_over(kit, members, members, said.append)
    assert sorted(members.has_model) == [0, 1, 2]
    assert without_model(kit) == []
    assert len(said) == (1 if n_calls_away else 0)
    assert all("Waiting for 'city'" in sentence for sentence in said)


def test_an_organisation_with_the_model_does_not_get_it_again(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study may pause or be killed meanwhile: who has no model yet is kept."""

    def pause(self: Members, missing: Iterable[int]) -> None:
        raise PausedError

    members: Any = Members(3)
    before = progress(kit)
    monkeypatch.setattr(Members, "wait", pause)
    with pytest.raises(PausedError):
        hand_over(kit, members, members, lambda _: None)
    assert is_over(kit)
    assert without_model(kit) == ["city"]
    assert progress(kit) != before  # so the attempt does not count as failed
    later: Any = Members()
    hand_over(kit, later, later, lambda _: None)
    assert later.has_model == [1]


def test_who_accepts_the_model_is_noted_although_another_refuses_it(kit: Any) -> None:
    """The next start does not send it again to those who have it."""

    class Refusing(Members):
        def finish(self, model: bytes, clients: Iterable[int]) -> list[int]:
            """Make one of them refuse."""
            raise MisfitError("Organisation 'city' refuses.", [0, 2])

    members: Any = Refusing()
    with pytest.raises(MisfitError, match="'city' refuses"):
        hand_over(kit, members, members, lambda _: None)
    assert without_model(kit) == ["city"]


def test_a_study_without_its_model_is_not_over(kit: Any) -> None:
    """Its last round is kept, so the model can be made again."""
    for content in (b"", b"{}", b'{"format_version": 1'):
        note_over(kit, NAMES)
        (kit.out / MODEL).write_bytes(content)
        assert not _has_model(kit)
        assert not is_over(kit)
    note_over(kit, NAMES)
    (kit.out / MODEL).unlink()
    assert not _has_model(kit)


@pytest.mark.parametrize("error", [StoreError, CheckpointError, None])
def test_a_study_whose_last_round_is_damaged_is_not_over(
    kit: Any, error: type[Exception] | None
) -> None:
    """What members said of that round would be missing, so it is run again."""

    class Host:
        def hand_over(self) -> None:
            if error is not None:
                raise error("It is damaged.")

    host: Any = Host()
    assert _can_hand_over(kit, host) == (error is None)
    assert is_over(kit) == (error is None)


def test_a_returning_organisation_gets_the_model_while_another_is_away(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server starts with those who are present."""
    note_over(kit, ["north", "city"])
    asked = []

    class Watch:
        def for_sites(self, names: tuple[str, ...], needed: int) -> set[str]:
            asked.append((names, needed))
            return {"city"}

        def submit(self, sites: list[str], at_least: int) -> str:
            asked.append((tuple(sites), at_least))
            return "job"

    watch: Any = Watch()
    Supervisor(kit, Terms(), lambda _: None)._submit(watch)
    assert asked == [(("north", "city"), 1), (("city",), 1)]

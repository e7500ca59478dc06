"""The model at the end of a study, for those who are away just then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from hyfdca.flare.jobs import _hand_over
from hyfdca.flare.network import PausedError


class Members:
    """Members of which one is away for some calls; the network between, too."""

    everyone = range(3)

    def __init__(self, n_calls_away: float) -> None:
        self._n_left = n_calls_away
        self.has_model: list[int] = []

    def finish(self, model: bytes, clients: Iterable[int]) -> list[int]:
        """Give the model to those who are there."""
        here = [c for c in clients if c != 1 or self._n_left <= 0]
        self.has_model += here
        return here

    def call(self, clients: Iterable[int]) -> list[int]:
        """See who is back."""
        self._n_left -= 1
        return [c for c in clients if c != 1 or self._n_left <= 0]

    def wait(self, missing: Iterable[int]) -> None:
        """Let no time pass."""


def handed_over(members: Any, patience: float) -> list[int]:
    return _hand_over(b"model", members, members, patience)


def test_everybody_gets_the_model_once() -> None:
    """Whoever comes back in time as well."""
    for n_calls_away in (0, 3):
        members = Members(n_calls_away)
        assert handed_over(members, 60.0) == []
        assert sorted(members.has_model) == [0, 1, 2]


def test_who_does_not_come_back_is_not_waited_for_forever() -> None:
    """It is named instead."""
    assert handed_over(Members(float("inf")), 0.01) == [1]


def test_who_needs_another_job_to_come_back_gets_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The study pauses while the others still wait; then all get the model again."""

    def pause(self: Members, missing: Iterable[int]) -> None:
        raise PausedError

    monkeypatch.setattr(Members, "wait", pause)
    with pytest.raises(PausedError):
        handed_over(Members(3), 60.0)

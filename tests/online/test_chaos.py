"""Two of the kills that `make chaos` has more of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import Blow, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_tls")]


def test_a_study_ends_at_the_same_numbers_whatever_is_killed(tmp_path: Path) -> None:
    """A member's job and the server while a round is kept."""
    blows = [
        Blow("client job", "coast", "keep"),
        Blow("server", "server", "keep"),
    ]
    kills = run(tmp_path, 0, blows)
    assert [kill.end for kill in kills] == ["the same numbers"] * 2

"""Three of the kills that `make chaos` has more of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import Blow, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_tls")]


def test_a_study_ends_at_the_same_numbers_whatever_is_killed(tmp_path: Path) -> None:
    """A member and the server while a round is kept, then a client with the model."""
    blows = [
        Blow("client job", "coast", "keep"),
        Blow("server", "server", "keep"),
        Blow("client", "city", "model"),
    ]
    kills = run(tmp_path, 0, blows)
    assert [kill.end for kill in kills] == ["the same numbers"] * 3

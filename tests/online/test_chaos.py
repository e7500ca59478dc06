"""One of the kills that `make chaos` has more of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import PATH, Blow, run

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.usefixtures("small_tls"),
]


def test_a_study_ends_at_the_same_numbers_whatever_is_killed(tmp_path: Path) -> None:
    """The server, while a round is kept."""
    [kill] = run(tmp_path, 0, [Blow("server", "server", "keep")])
    assert kill.end == "the same numbers"


def test_a_path_ends_at_the_same_choice_whatever_is_killed(tmp_path: Path) -> None:
    """A client, then the server, in rounds of a study that chooses l2."""
    blows = [
        Blow("client", "city", "round", rounds=3),
        Blow("server", "server", "round", rounds=2),
    ]
    for kill in run(tmp_path, 0, blows, **PATH):
        assert kill.end == "the same numbers"

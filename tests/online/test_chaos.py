"""One of the kills that `make chaos` has more of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import Blow, run

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.usefixtures("small_tls"),
]


def test_a_study_ends_at_the_same_numbers_whatever_is_killed(tmp_path: Path) -> None:
    """The server, while a round is kept."""
    [kill] = run(tmp_path, 0, [Blow("server", "server", "keep")])
    assert kill.end == "the same numbers"

from __future__ import annotations

import pytest

from hyfdca.flare.diagnosis import client_is_up, client_trouble, last_error
from tests.flare.flare_output import (
    EXPIRED,
    NOBODY,
    NORTH,
    REFUSED_BY_THEM,
    REFUSED_BY_US,
    TAKEN,
    UP,
)


@pytest.mark.parametrize(
    ("printed", "words", "may_pass"),
    [
        (REFUSED_BY_US, "was not issued by the authority of this kit", False),
        (EXPIRED, "is not valid at present", True),
        (REFUSED_BY_THEM, "does not accept the certificate of this kit", False),
        (TAKEN, "the name 'north' is already connected", False),
        (NOBODY, "server at coordinator.org:8002 is unavailable", True),
        (f"{NOBODY}\n{REFUSED_BY_US}", "authority of this kit", False),
    ],
)
def test_what_nvflare_prints_becomes_a_sentence(
    printed: str, words: str, may_pass: bool
) -> None:
    """The most serious message decides."""
    trouble = client_trouble(printed, NORTH)
    assert trouble is not None
    assert words in trouble.sentence
    assert trouble.may_pass is may_pass


def test_nothing_is_wrong_without_a_reason() -> None:
    """Ordinary output is not reported as trouble."""
    assert client_trouble("Waiting for the client cell", NORTH) is None
    assert client_is_up(UP)
    assert not client_is_up(NOBODY)


def test_the_last_error_is_without_colours() -> None:
    """Terminal colour codes are removed."""
    assert last_error(
        "\x1b[31mX - ERROR - first\n\x1b[31mY - ERROR - second\x1b[0m"
    ) == ("Y - ERROR - second")
    assert last_error("fine") == "no reason"

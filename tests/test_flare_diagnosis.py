from __future__ import annotations

import pytest

from hyfdca.flare.client import Visit
from hyfdca.flare.diagnosis import client_is_up, client_trouble, last_error
from hyfdca.kits.kit import Owner
from hyfdca.study_error import StudyError

NORTH = Owner("north", "north", "coordinator.org:8002")

# As NVFlare 2.9.0 and gRPC print them.
REFUSED_BY_US = "SSL_ERROR_SSL: error:1000007d: CERTIFICATE_VERIFY_FAILED: unable"
REFUSED_BY_THEM = "SSL_ERROR_SSL: error:10000418: TLSV1_ALERT_UNKNOWN_CA"
TAKEN = "failed to register: unauthenticated: register_client unauthenticated"
NOBODY = "Authenticator - INFO - re-challenge after 2.0 seconds"
UP = "FederatedClient - INFO - Successfully registered client:north for project x."


@pytest.mark.parametrize(
    ("printed", "words", "may_pass"),
    [
        (REFUSED_BY_US, "was not made by the authority of this kit", False),
        (REFUSED_BY_THEM, "does not accept the certificate of this kit", False),
        (TAKEN, "the identity 'north' is connected already", False),
        (NOBODY, "no server at coordinator.org:8002", True),
        (f"{NOBODY}\n{REFUSED_BY_US}", "authority of this kit", False),
    ],
)
def test_what_nvflare_prints_becomes_a_sentence(
    printed: str, words: str, may_pass: bool
) -> None:
    """The worst of what was printed is told."""
    trouble = client_trouble(printed, NORTH)
    assert trouble is not None
    assert words in trouble.sentence
    assert trouble.may_pass is may_pass


def test_nothing_is_wrong_without_a_reason() -> None:
    """Output that says nothing of trouble is none."""
    assert client_trouble("Waiting for the client cell", NORTH) is None
    assert client_is_up(UP)
    assert not client_is_up(NOBODY)


def test_the_last_error_is_without_colours() -> None:
    """What a terminal would colour is plain in a sentence."""
    assert last_error(
        "\x1b[31mX - ERROR - first\n\x1b[31mY - ERROR - second\x1b[0m"
    ) == ("Y - ERROR - second")
    assert last_error("fine") == "no reason"


def test_a_sentence_is_said_once_until_there_is_another() -> None:
    """Trying again is not told again and again."""
    said: list[str] = []
    visit = Visit(NORTH, said.append)
    for printed in (NOBODY, NOBODY, UP, UP):
        visit.look(printed)
    assert [words.split()[0] for words in said] == ["There", "'north'"]


def test_what_cannot_get_better_ends_the_client() -> None:
    """A certificate of another study will not become one of this."""
    with pytest.raises(StudyError, match="authority of this kit"):
        Visit(NORTH, lambda _: None).look(REFUSED_BY_US)


def test_a_server_is_waited_for_however_long_it_is_away() -> None:
    """NVFlare's client may end over it; that is no failed start."""
    visit = Visit(NORTH, lambda _: None)
    for _ in range(50):
        visit.look(NOBODY)
        visit.ended()
    assert visit.may_start()


def test_a_client_that_was_connected_is_started_again_however_often() -> None:
    """Only starts in a row that came to nothing are counted."""
    said: list[str] = []
    visit = Visit(NORTH, said.append)
    for _ in range(50):
        assert visit.may_start()
        visit.look(UP)
        visit.ended()
    for _ in range(50):
        visit.ended()
    assert not visit.may_start()
    assert "starting it again" in said[-1]

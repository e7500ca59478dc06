from __future__ import annotations

import pytest

from hyfdca.flare.decisions import (
    PAUSES,
    Attempts,
    how_it_ended,
    missing,
    outsiders,
    reason_of,
    sites_needed,
)
from hyfdca.flare.status import Note


@pytest.mark.parametrize(
    ("quorum", "has_begun", "needed"),
    [(None, False, 4), (None, True, 4), (2, False, 4), (2, True, 2), (9, True, 4)],
)
def test_everybody_is_needed_until_the_study_has_begun(
    quorum: int | None, has_begun: bool, needed: int
) -> None:
    """A quorum counts from the first progress on."""
    assert sites_needed(4, quorum, has_begun) == needed


def test_those_missing_are_in_the_order_of_the_study() -> None:
    """Connected clients outside the study do not count."""
    assert missing(("c", "a", "b"), {"a", "x"}) == ["c", "b"]


@pytest.mark.parametrize(
    ("note", "end"),
    [
        (None, "again"),
        (Note("old", "finished"), "again"),
        (Note("job", "finished"), "finished"),
        (Note("job", "refused", "No."), "refused"),
        (Note("job", "paused"), "paused"),
        (Note("old", "paused"), "again"),
        (Note("job", "failed"), "again"),
    ],
)
def test_a_job_ends_as_its_own_note_says(note: Note | None, end: str) -> None:
    """A job without a note of its own was killed, and is run again."""
    assert how_it_ended(note, "job") == end


def test_the_reason_is_the_notes_or_what_nvflare_calls_it() -> None:
    """Without a note, only NVFlare's status is known."""
    assert reason_of(Note("job", "failed", "It broke."), "job", "X") == "It broke."
    assert "FINISHED:ABNORMAL" in reason_of(None, "job", "FINISHED:ABNORMAL")


def test_outsiders_are_connected_and_not_in_the_job() -> None:
    """Sites that did not answer are not in the table and do not count."""
    jobs = {"north": {"job"}, "city": set(), "coast": {"old"}}
    assert outsiders("job", [*jobs, "island"], jobs) == ["city", "coast"]


def test_clients_outside_the_study_are_not_outsiders_of_its_job() -> None:
    """A study does not pause for a client that is not one of its organisations."""
    jobs = {"north": {"job"}, "stranger": set()}
    assert outsiders("job", ["north", "city"], jobs) == []


def test_a_job_that_everybody_has_left_is_not_joined() -> None:
    """It is about to end, and the next job takes in all of them."""
    names = ["north", "city"]
    assert outsiders("job", names, {"north": set(), "city": set()}) == []
    assert outsiders("job", names, {}) == []


def test_a_job_that_nobody_joins_for_long_is_left_too() -> None:
    """Its only client was killed before it began, so that NVFlare never ends it."""
    by_site = {"north": set[str](), "city": {"old"}}
    assert outsiders("job", ["north", "city", "coast"], by_site, 61.0) == [*by_site]
    assert outsiders("job", ["north", "city"], {}, 61.0) == []


def test_jobs_that_get_nowhere_are_tried_ever_more_slowly_then_not_at_all() -> None:
    """Progress resets the count."""
    attempts = Attempts(b"3")
    pauses = []
    for _ in PAUSES:
        attempts = attempts.after(b"3")
        pauses.append(attempts.pause)
    assert tuple(pauses) == PAUSES
    assert attempts.after(b"4").pause == 0.0
    assert attempts.after(b"3").pause is None

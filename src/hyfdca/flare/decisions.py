"""Decisions of a study's supervisor: pure conditions, no side effects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from hyfdca.flare.status import Note

# Seconds before each retry of a job without progress; no retries after the last.
PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)

_LONG = 60.0  # seconds, in which any machine starts the processes of a job

End = Literal["finished", "refused", "paused", "again"]


def sites_needed(n_clients: int, quorum: int | None, has_begun: bool) -> int:
    """Return how many organisations a job needs to start.

    All of them until the study has made progress: its set-up needs everybody once.
    """
    if quorum is None or not has_begun:
        return n_clients
    return min(quorum, n_clients)


def missing(names: Sequence[str], connected: Collection[str]) -> list[str]:
    """Return the organisations that are not connected, in the study's order."""
    return [name for name in names if name not in connected]


def how_it_ended(note: Note | None, job: str) -> End:
    """Return what the end of a job means; a job without a note was killed."""
    if note is None or note.job != job:
        return "again"
    if note.state in ("finished", "refused", "paused"):
        return note.state
    return "again"


def reason_of(note: Note | None, job: str, status: str) -> str:
    """Return why a job ended, in words."""
    if note is not None and note.job == job and note.reason:
        return note.reason
    return f"A job process ended (NVFlare reports {status})."


def outsiders(
    job: str,
    names: Sequence[str],
    jobs_by_site: Mapping[str, Set[str]],
    empty_for: float = 0.0,
) -> list[str]:
    """Return the organisations that are connected but not in the running job.

    Return none if nobody is in the job: then it begins, or is about to end. If nobody
    has been in it for long, ``empty_for`` seconds, it does neither: its only client was
    gone before it began.
    """
    here = [name for name in names if name in jobs_by_site]
    out = [name for name in here if job not in jobs_by_site[name]]
    return out if len(out) < len(here) or empty_for > _LONG else []


@dataclass(frozen=True)
class Attempts:
    """How many jobs in a row ended without progress of the study."""

    progress: bytes
    in_vain: int = 0

    def after(self, progress: bytes) -> Attempts:
        """Count one more job that ended with this progress of the study."""
        if progress != self.progress:
            return Attempts(progress)
        return Attempts(progress, self.in_vain + 1)

    @property
    def pause(self) -> float | None:
        """Seconds to wait before the next job; None if there should be no more."""
        if not self.in_vain:
            return 0.0
        return PAUSES[self.in_vain - 1] if self.in_vain <= len(PAUSES) else None

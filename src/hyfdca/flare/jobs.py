"""What runs inside the job processes: the whole study here, one handler there."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from hyfdca.flare.network import Network
from hyfdca.study_error import StudyError


class Handler(Protocol):
    """A client's side of a study: requests in, replies out, one at a time."""

    def handle(self, stage: str, phase: str, payload: bytes) -> bytes:
        """Answer a request; the same request again gets the same bytes."""
        ...


def join(kit: Path, data: Path) -> Handler:
    """Return the handler of an organisation, with its table loaded.

    Raises
    ------
    StudyError
    """
    raise StudyError("Studies between machines are not built yet.")


def serve(kit: Path, network: Network) -> None:
    """Run the study, or what is left of it; what it has done is in ``kit/state``.

    Raises
    ------
    StudyError
        If it cannot be run at all, however often it is tried.
    PausedError
        If it was asked to pause, at the end of a round (``network.pause_if_asked``).
    """
    raise StudyError("Studies between machines are not built yet.")

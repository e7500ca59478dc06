"""Counts how often a client answers rounds of a run again.

A round is repeated after a failure, and may then have another point. So a server could
repeat rounds on purpose, to learn more than the study file allows. What was answered
is on disk, so neither a restart nor a round that was saved in between hides a repeat.
"""

from __future__ import annotations

import msgspec

from hyfdca.errors import reading
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.runtime.store import Archive

_REPEATS = "repeats"
START = -1  # the last saved round, before the start was saved
_NOTHING = -2  # before any round was answered


def forget_repeats(archive: Archive) -> None:
    """Reset the count."""
    archive.forget(_REPEATS)


class Repeats:
    """Counts, on disk, the rounds that a client answers again.

    All rounds between two saved ones count as one. They are identified by the last
    round saved before them.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        kept = archive.read(_REPEATS)
        with reading(archive.damage(_REPEATS)):
            found = _decoder.decode(kept) if kept else (0, _NOTHING)
            self._number, self._furthest = found

    def begin(self, last_saved: int, most: int) -> None:
        """Note that rounds begin, before the first answer.

        Raises
        ------
        RemoteProtocolError
            If too many were repeated.
        """
        number = self._number + (last_saved <= self._furthest)
        if number > most:
            raise RemoteProtocolError(
                f"the server had more than {most} rounds repeated; start this "
                "organisation's client with --restart if that is right"
            )
        furthest = max(last_saved, self._furthest)
        self._archive.write(_REPEATS, msgspec.msgpack.encode((number, furthest)))
        self._number, self._furthest = number, furthest


_decoder = msgspec.msgpack.Decoder(tuple[int, int])

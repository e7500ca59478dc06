"""How often a client answers rounds of a run once more.

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
START = -1  # stands for the last round saved before the start was saved
_NOTHING = -2  # was answered yet


def forget_repeats(archive: Archive) -> None:
    """Begin to count again."""
    archive.forget(_REPEATS)


class Repeats:
    """Counts, on disk, the rounds that a client answers once more.

    All rounds between two that are saved count as one. They are known by the last
    round that was saved before them.
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

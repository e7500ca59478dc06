"""Counts how often a client answered the phases of a round.

A study limits its saved rounds, so a server that never saves one could continue for
ever. Therefore a client counts the requests of each phase since it last saved its
state. How many a round has is in the table of phases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hyfdca.errors import counted
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.phases import Phase, differ_in_grids_only


class AskedPhases:
    """How often a client answered each phase since its state was last saved."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Reset the count: the state was saved or restored."""
        self._counts: Counter[str] = Counter()
        self._last: tuple[str, Message] | None = None

    @contextmanager
    def unchanged_by_errors(self) -> Iterator[None]:
        """Do not count a request that is refused."""
        counts, last = self._counts.copy(), self._last
        try:
            yield
        except Exception:
            self._counts, self._last = counts, last
            raise

    def take(self, name: str, phase: Phase, request: Message, most: int | None) -> None:
        """Count a request; the same one with other grids was counted before.

        Raises
        ------
        RemoteProtocolError
            If the phase was answered that often.
        """
        if self._is_again(name, phase, request):
            return
        if most is not None and self._counts[name] >= most:
            raise RemoteProtocolError(
                f"phase {name!r} comes more than {counted(most, 'time')} since the "
                "state was last saved, and that is what the study's rounds have"
            )
        self._counts[name] += 1
        self._last = name, request

    def n_rounds(self, most: Mapping[str, int | None]) -> int:
        """Return the least number of rounds that these requests belong to."""
        numbers = [(count, most.get(name)) for name, count in self._counts.items()]
        return max((-(-count // n) for count, n in numbers if n), default=0)

    def _is_again(self, name: str, phase: Phase, request: Message) -> bool:
        if self._last is None or self._last[0] != name:
            return False
        return differ_in_grids_only(self._last[1], request, phase.again)

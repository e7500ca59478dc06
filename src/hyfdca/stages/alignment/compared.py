"""Which of its cells a client has shown tokens of, or hints on: each once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from hyfdca.arrays import IntArray
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.stages.alignment.messages import Line

Shown = tuple[str, Line, bool]  # phase, over whose cells, whether they are rounded


class ComparedGroups:
    """The column groups that a client was asked about since its placement.

    A server asks about some of them at a time, and about each once.
    """

    def __init__(self) -> None:
        self._asked: defaultdict[Shown, set[int]] = defaultdict(set)

    @contextmanager
    def once(self, shown: Shown, columns: IntArray) -> Iterator[None]:
        """Note these column groups if the request for them can be answered.

        Raises
        ------
        RemoteProtocolError
            If there are none, or some were asked about before.
        """
        new, before = set(columns.tolist()), self._asked[shown]
        if not new or new & before:
            raise RemoteProtocolError(
                f"phase {shown[0]!r} is about no cells, or about cells of before"
            )
        yield
        before |= new

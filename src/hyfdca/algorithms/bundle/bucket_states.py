"""What the server keeps of each bucket of the asynchronous bundle method."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation.sums import RunningSum, Space
from hyfdca.protocol import messages as m
from hyfdca.protocol.checkpoint import Kept


@dataclass
class Owed(Kept):
    """New planes of a bucket, for which some holders have yet to give slopes."""

    kept: ClassVar[tuple[str, ...]] = (
        "number",
        "point",
        "margins",
        "slopes",
        "conjugates",
        "lent",
        "duals_grid",
        "given",
    )

    number: int
    point: FloatArray | None  # none is w = 0
    margins: RunningSum  # empty at w = 0, where all margins are 0
    slopes: RunningSum
    conjugates: FloatArray
    lent: RunningSum | None
    duals_grid: m.GridSpec  # on which all holders round the same duals
    given: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Spaces:
    """Of a bucket's vectors; clients of those by sample are places among its holders.

    Slopes are by feature and open, so that their width is a number a plane and output.
    """

    margins: Space
    slopes: Space
    lent: Space | None  # none where all holders have labels


@dataclass
class Bucket(Kept):
    """One bucket's state: whose margins and slopes are there."""

    kept: ClassVar[tuple[str, ...]] = (
        "point",
        "margins",
        "given",
        "owed",
        "number",
        "last_point",
    )

    holders: list[int]
    labelled: frozenset[int]
    spaces: Spaces
    margins: RunningSum = field(init=False)
    point: FloatArray | None = None  # where margins are being collected
    given: set[int] = field(default_factory=set)
    owed: Owed | None = None
    number: int = 0
    last_point: FloatArray | None = None

    def __post_init__(self) -> None:
        """Start without margins."""
        self.margins = self._no_margins()

    def _no_margins(self) -> RunningSum:
        return RunningSum(self.spaces.margins)

    def can_owe(self, client: int) -> bool:
        """Return whether a client owes slopes and could give them now."""
        owed = self.owed
        if owed is None or client in owed.given:
            return False
        return client in self.labelled or self.labelled <= owed.given

    def start(self, point: FloatArray) -> None:
        """Start to collect margins at a point."""
        self.point = self.last_point = point
        self.margins, self.given = self._no_margins(), set()

    def finish(self, duals_grid: m.GridSpec) -> None:
        """Have the margins, which are complete; wait for a point."""
        self.owe(self.point, self.margins, duals_grid)
        self.point, self.margins = None, self._no_margins()

    def owe(
        self, point: FloatArray | None, margins: RunningSum, duals_grid: m.GridSpec
    ) -> None:
        """Start to collect slopes of the planes that touch at these margins."""
        self.number += 1
        self.owed = self._new_owed(point, margins, duals_grid)

    def _new_owed(
        self, point: FloatArray | None, margins: RunningSum, duals_grid: m.GridSpec
    ) -> Owed:
        slopes, lent = self.spaces.slopes, self.spaces.lent
        return Owed(
            self.number,
            point,
            margins,
            RunningSum(slopes),
            np.zeros((1, slopes.width)),
            None if lent is None else RunningSum(lent),
            duals_grid,
        )

    def new_part(self, name: str) -> Kept:
        """Return planes that nobody has given slopes of, for a state that has some."""
        return self._new_owed(None, self._no_margins(), m.GridSpec(0, 1))

"""What the server keeps of each bucket of the asynchronous bundle method."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation.sums import RunningSum, RunningSumState, VectorLayout
from hyfdca.protocol.messages import GridSpec


@dataclass(frozen=True, repr=False)
class OwedState:
    """What a checkpoint keeps of planes that are owed."""

    number: int
    point: FloatArray | None
    margins: RunningSumState
    slopes: RunningSumState
    conjugates: FloatArray
    forwarded: RunningSumState | None
    duals_grid: GridSpec
    given: set[int]


@dataclass
class Owed:
    """New planes of a bucket, for which some holders have yet to give slopes."""

    number: int
    point: FloatArray | None  # None is w = 0
    margins: RunningSum  # empty at w = 0, where all margins are 0
    slopes: RunningSum
    conjugates: FloatArray  # with a free intercept, balances after them
    forwarded: RunningSum | None
    duals_grid: GridSpec  # on which all holders round the same duals
    given: set[int] = field(default_factory=set)

    def state(self) -> OwedState:
        """Return what a checkpoint keeps."""
        return OwedState(
            self.number,
            self.point,
            self.margins.state(),
            self.slopes.state(),
            self.conjugates,
            None if self.forwarded is None else self.forwarded.state(),
            self.duals_grid,
            self.given,
        )

    def restore(self, state: OwedState) -> None:
        """Take a state."""
        self.number, self.point = state.number, state.point
        self.margins.restore(state.margins)
        self.slopes.restore(state.slopes)
        self.conjugates, self.duals_grid = state.conjugates, state.duals_grid
        if self.forwarded is not None and state.forwarded is not None:
            self.forwarded.restore(state.forwarded)
        self.given = set(state.given)


@dataclass(frozen=True)
class BucketLayouts:
    """The layouts of a bucket's vectors; by sample, clients are places among holders.

    Slopes are by feature and open; their width is one number per plane and output.
    """

    margins: VectorLayout
    slopes: VectorLayout
    forwarded: VectorLayout | None  # None where all holders have labels
    offsets_width: int


@dataclass(frozen=True, repr=False)
class BucketState:
    """What a checkpoint keeps of a bucket."""

    point: FloatArray | None
    margins: RunningSumState
    given: set[int]
    owed: OwedState | None
    number: int
    last_point: FloatArray | None


@dataclass
class Bucket:
    """One bucket: the margins and slopes that have arrived."""

    holders: list[int]
    labelled: frozenset[int]
    layouts: BucketLayouts
    margins: RunningSum = field(init=False)
    point: FloatArray | None = None  # where margins are being collected
    given: set[int] = field(default_factory=set)
    owed: Owed | None = None
    number: int = 0
    last_point: FloatArray | None = None

    def __post_init__(self) -> None:
        """Start without margins."""
        self.margins = self._no_margins()

    def state(self) -> BucketState:
        """Return what a checkpoint keeps."""
        return BucketState(
            self.point,
            self.margins.state(),
            self.given,
            None if self.owed is None else self.owed.state(),
            self.number,
            self.last_point,
        )

    def restore(self, state: BucketState) -> None:
        """Take a state."""
        self.point, self.last_point = state.point, state.last_point
        self.margins = self._no_margins()
        self.margins.restore(state.margins)
        self.given, self.number = set(state.given), state.number
        self.owed = None
        if state.owed is not None:
            self.owed = self._new_owed(None, self._no_margins(), state.owed.duals_grid)
            self.owed.restore(state.owed)

    def _no_margins(self) -> RunningSum:
        return RunningSum(self.layouts.margins)

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

    def finish(self, duals_grid: GridSpec) -> None:
        """Take the margins, which are complete; wait for a point."""
        self.owe(self.point, self.margins, duals_grid)
        self.point, self.margins = None, self._no_margins()

    def owe(
        self, point: FloatArray | None, margins: RunningSum, duals_grid: GridSpec
    ) -> None:
        """Start to collect slopes of the planes that touch at these margins."""
        self.number += 1
        self.owed = self._new_owed(point, margins, duals_grid)

    def _new_owed(
        self, point: FloatArray | None, margins: RunningSum, duals_grid: GridSpec
    ) -> Owed:
        slopes, forwarded = self.layouts.slopes, self.layouts.forwarded
        return Owed(
            self.number,
            point,
            margins,
            RunningSum(slopes),
            np.zeros((1, self.layouts.offsets_width)),
            None if forwarded is None else RunningSum(forwarded),
            duals_grid,
        )

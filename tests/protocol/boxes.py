"""Small things with states."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyfdca.algorithms.bundle.lbfgs import Path
from hyfdca.algorithms.bundle.messages import Move
from hyfdca.crypto.schemes.blocks import Blocks
from hyfdca.crypto.schemes.fixedpoint import Grid
from hyfdca.crypto.schemes.stream_sums import Padded
from hyfdca.protocol.checkpoint import load, save
from hyfdca.protocol.messages import GridSpec

# A field of any type, in which these classes may be.
Anything = object | Grid | GridSpec | Move | Padded | Blocks | Path


@dataclass(frozen=True)
class BoxState:
    """The state of a box."""

    value: Anything


@dataclass
class Box:
    """Something with one value."""

    value: Any = None
    label: str = "made of settings"

    def state(self) -> BoxState:
        """Return what a checkpoint keeps."""
        return BoxState(self.value)

    def restore(self, state: BoxState) -> None:
        """Take a state."""
        self.value = state.value


@dataclass(frozen=True)
class OtherState:
    """A state that looks the same, by another name."""

    value: Anything


class Other(Box):
    """Something else with one value."""

    def state(self) -> OtherState:
        """Return what a checkpoint keeps."""
        return OtherState(self.value)


@dataclass(frozen=True)
class ChestState:
    """The state of a chest."""

    box: BoxState
    boxes: list[BoxState]
    spare: BoxState | None


@dataclass
class Chest:
    """Something with parts, one of which is not always there."""

    box: Box = field(default_factory=Box)
    boxes: list[Box] = field(default_factory=lambda: [Box(), Box()])
    spare: Box | None = None

    def state(self) -> ChestState:
        """Return what a checkpoint keeps."""
        spare = None if self.spare is None else self.spare.state()
        return ChestState(self.box.state(), [b.state() for b in self.boxes], spare)

    def restore(self, state: ChestState) -> None:
        """Take a state."""
        self.box.restore(state.box)
        for box, kept in zip(self.boxes, state.boxes, strict=True):
            box.restore(kept)
        self.spare = None if state.spare is None else Box(state.spare.value)


def again(value):
    """Return a value that was saved and put back."""
    box = Box("something else")
    load(box, save(Box(value)))
    return box.value


def same(one, other):
    """Whether two values are alike: kinds, bits, order and place in memory."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        facts = [(a.dtype, a.shape, a.tolist()) for a in (one, other)]
        if one.dtype != object:
            facts = [(a.dtype, a.shape, a.tobytes()) for a in (one, other)]
        return facts[0] == facts[1]
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, dict):
        one, other = list(one.items()), list(other.items())
    if isinstance(one, (list, tuple, deque)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other

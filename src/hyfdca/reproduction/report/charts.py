"""The content of a chart, however it is drawn: panels in a grid, of lines or bars."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hyfdca.arrays import FloatArray

COLOURS = {
    "HyFDCA": "#b5452c",
    "FedAvg": "#1f6f8b",
    "HyFEM": "#e0a030",
    "bundle": "#3a3a3a",
}
DASHES = ("solid", "dash", "dot")
_MOST_POINTS = 150  # of a line, which is a pixel or two each


@dataclass(frozen=True)
class Line:
    """A line through points.

    Parameters
    ----------
    dash : {"solid", "dash", "dot"}
    is_marked : bool
        Whether its last point is marked, because the run is known to end there.
    """

    label: str
    x: FloatArray
    y: FloatArray
    colour: str
    dash: str = "solid"
    is_marked: bool = False

    @property
    def points(self) -> tuple[FloatArray, FloatArray]:
        """The drawable points: finite, and no more than there are pixels."""
        is_shown = np.isfinite(self.x) & np.isfinite(self.y)
        x, y = self.x[is_shown], self.y[is_shown]
        every = np.unique(np.linspace(0, max(len(x) - 1, 0), _MOST_POINTS).astype(int))
        return (x[every], y[every]) if len(x) else (x, y)


@dataclass(frozen=True)
class Bar:
    """A bar of a group."""

    group: str
    label: str
    value: float
    colour: str


@dataclass(frozen=True)
class Panel:
    """A pair of axes."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()
    is_log_x: bool = False
    is_log_y: bool = False


@dataclass(frozen=True)
class Chart:
    """A figure.

    Parameters
    ----------
    name : str
        The name of its files.
    caption : str
        What it shows, what to look at, and its counterpart in the paper.
    panels : tuple of rows of Panel
    """

    name: str
    title: str
    caption: str
    panels: tuple[tuple[Panel, ...], ...] = field(repr=False)

    @property
    def labels(self) -> dict[str, tuple[str, str]]:
        """The colour and dash of every label, for one legend of all panels."""
        every = [panel for row in self.panels for panel in row]
        lines = {
            line.label: (line.colour, line.dash) for p in every for line in p.lines
        }
        return lines | {b.label: (b.colour, "solid") for p in every for b in p.bars}

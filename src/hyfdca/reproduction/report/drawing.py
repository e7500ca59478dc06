"""Charts as PNG and SVG files."""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hyfdca.reproduction.report.charts import Bar, Chart, Panel
from hyfdca.study.figures import INK, as_png, tidy

_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
_WIDTH, _HEIGHT = 4.2, 2.9  # inches of a panel
_GROUP = 0.8  # of the distance of two ticks, at most taken by the bars of a group
_DPI = 90  # of figures with up to 18 panels


def draw_chart(chart: Chart) -> Figure:
    """Return a figure, with one legend for all panels."""
    n_rows, n_columns = len(chart.panels), len(chart.panels[0])
    size = (_WIDTH * n_columns, _HEIGHT * n_rows + 0.8)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(chart.title, fontsize=13, color=INK)
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    for axes_row, row in zip(grid, chart.panels, strict=True):
        for axes, panel in zip(axes_row, row, strict=True):
            _draw_panel(axes, panel)
    handles = _handles(chart)
    has_bars = any(isinstance(handle, Patch) for handle in handles)
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=len(handles) if has_bars else min(len(handles), 4),
        frameon=False,
    )
    return figure


def _handles(chart: Chart) -> list[Artist]:
    """Return a line for every label of lines, and a patch for every label of bars."""
    bars = {bar.label for row in chart.panels for panel in row for bar in panel.bars}
    return [
        Patch(color=colour, label=label)
        if label in bars
        else Line2D([], [], color=colour, ls=_DASHES[dash], lw=2.5, label=label)
        for label, (colour, dash) in chart.labels.items()
    ]


def chart_files(chart: Chart) -> dict[str, bytes]:
    """Return the chart's files, by name."""
    figure, text = draw_chart(chart), io.BytesIO()
    image = as_png(figure, _DPI)
    figure.set_layout_engine("none")  # the panels are in place; that takes longest
    # The same chart gives the same file: no date, no random names.
    with mpl.rc_context({"svg.hashsalt": chart.name, "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return {f"{chart.name}.png": image, f"{chart.name}.svg": text.getvalue()}


def _draw_panel(axes: Axes, panel: Panel) -> None:
    tidy(axes)
    axes.set_title(panel.title, fontsize=10, color=INK)
    axes.set_xlabel(panel.x_label, fontsize=9)
    axes.set_ylabel(panel.y_label, fontsize=9)
    if panel.is_log_x:
        axes.set_xscale("log")
    if panel.is_log_y:
        axes.set_yscale("log")
    for line in panel.lines:
        x, y = line.points
        style = _DASHES[line.dash]
        axes.plot(x, y, color=line.colour, ls=style, lw=1.6)
        if line.is_marked and len(x):
            axes.plot(x[-1:], y[-1:], "o", color=line.colour, ms=4)
    if panel.bars:
        _draw_bars(axes, panel)


def _draw_bars(axes: Axes, panel: Panel) -> None:
    """Draw the bars of a group side by side, with the group's tick in their middle."""
    axes.set_axisbelow(True)
    groups: dict[str, list[Bar]] = {}
    for bar in panel.bars:
        groups.setdefault(bar.group, []).append(bar)
    width = _GROUP / max(map(len, groups.values()))
    for tick, own in enumerate(groups.values()):
        for number, bar in enumerate(own):
            place = tick + (number - 0.5 * (len(own) - 1)) * width
            axes.bar(place, bar.value, width, color=bar.colour)
    axes.set_xticks(np.arange(len(groups)), list(groups), fontsize=9)
    axes.set_xlim(-0.5, len(groups) - 0.5)

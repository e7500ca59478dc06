"""The figure of a comparison, as the bytes of a PNG file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    EngFormatter,
    Formatter,
    FuncFormatter,
    MaxNLocator,
    NullFormatter,
)

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.arrays import FloatArray
from hyfdca.comparison.runs import Curve, CurvePoint
from hyfdca.comparison.smoothing import smoothed, smoothed_ratios
from hyfdca.study.figures import INK, as_png, tidy

Number = Callable[[CurvePoint], float | None]
Smoothing = Callable[[FloatArray], FloatArray | None]

_COLOURS = (
    *("#b5452c", "#1f6f8b", "#e0a030", "#3f7d4f", "#8e6bb5"),
    *("#3a3a3a", "#d77fa6", "#6fb7c9", "#8a5a2b", "#9aa84f"),
    *("#e8743b", "#4b5fa8", "#17a398", "#a0a0a0", "#c23b75"),
)
_DASHES = ("-", "--", ":", "-.")  # of one algorithm with several settings
_FEW = 2  # points, up to which no line is drawn
_FAR_APART = 10.0  # curves that end by this factor apart need a logarithmic axis
_MOST_COLUMNS, _LETTERS = 5, 100  # of the legend; letters in one line of it
_ABOVE_START = 10.0  # losses that are higher by this factor are not shown
_NEARLY = 100.0  # a single step's loss that is lower by less extends the axis
_LOWEST_R2 = -1.0  # scores below are not shown
_INSIDE = 0.025  # share of an axis by which marks of curves beyond it are inside
_HINT = (
    "Where a curve keeps going up and down, the line is a mean of nearby rounds, "
    "and every round is faint. A triangle is a curve that ends beyond the axis."
)
_LEAST_SPAN = 0.1  # of scores, or single rows would look like much


class _Column(NamedTuple):
    """What a column of panels has as its horizontal axis."""

    label: str
    number: Number
    ticks: Formatter
    is_count: bool = False  # whole numbers from 0


_PLAIN = FuncFormatter(lambda number, _: f"{number:,g}")
_COLUMNS = (
    _Column("rounds", lambda point: point.round, _PLAIN, is_count=True),
    _Column(
        "sent, up and down",
        lambda point: point.spent.bytes_up + point.spent.bytes_down,
        EngFormatter("B"),
    ),
    _Column(
        "simulated time, seconds", lambda point: point.spent.simulated_seconds, _PLAIN
    ),
)
_SCORES = {"accuracy": "accuracy on held-out rows", "R2": "R² on held-out rows"}


def draw_comparison(title: str, curves: Sequence[Curve], metric: str | None) -> bytes:
    """Return a PNG of relative losses and scores by rounds, bytes and simulated time.

    Without a metric nothing was held out, and there is only one row of panels.
    """
    curves = [curve for curve in curves if curve.points]
    n_rows = 1 if metric is None else 2
    figure = Figure(figsize=(13.0, 1.3 + 3.2 * n_rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(n_rows, 3, sharex="col", sharey="row", squeeze=False)
    # A study's name is plain text, even if it contains mathematical symbols.
    figure.suptitle(title, fontsize=13, color=INK, parse_math=False)
    handles = _draw_row(panels[0], curves, _loss, smoothed_ratios)
    _show_losses(panels[0, 0], curves)
    if metric is not None:
        _draw_row(panels[1], curves, _score, smoothed)
        _show_scores(panels[1, 0], curves, metric)
    for axes, column in zip(panels[-1], _COLUMNS, strict=True):
        _show_column(axes, curves, column)
    for row, height in zip(panels, (_loss, _score), strict=False):
        for axes, column in zip(row, _COLUMNS, strict=True):
            _mark_ends_beyond(axes, curves, column, height)
    figure.legend(
        handles=handles,
        title=_HINT,
        title_fontsize=8,
        loc="outside lower center",
        ncols=_legend_columns([curve.contender.label for curve in curves]),
        frameon=False,
        fontsize=10,
    )
    return as_png(figure)


def _loss(point: CurvePoint) -> float | None:
    return point.relative_loss


def _score(point: CurvePoint) -> float | None:
    return point.validation


def _draw_row(
    panels: Any, curves: Sequence[Curve], height: Number, smooth: Smoothing
) -> list[Line2D]:
    """Draw one line per curve into each panel, with a dot where it ends.

    Smooth curves lie on top of rough ones, which would hide them. A curve that keeps
    going up and down is faint, with a smoothed one over it. Returns a line for
    each curve.
    """
    heights = [_numbers(curve, height) for curve in curves]
    roughest_first = np.argsort([-_roughness(own) for own in heights])
    styles = _styles(curves)
    for axes, column in zip(panels, _COLUMNS, strict=True):
        lines = []
        for place, (curve, y) in enumerate(zip(curves, heights, strict=True)):
            colour, dashes = styles[place]
            x = _numbers(curve, column.number)
            own_place = roughest_first.tolist().index(place) / len(curves)
            mean = smooth(y)
            if mean is not None:
                axes.plot(x, y, color=colour, lw=0.5, alpha=0.3, zorder=1.5)
            axes.plot(x[-1:], y[-1:], "o", color=colour, ms=5, zorder=2.0 + own_place)
            [line] = axes.plot(
                x,
                y if mean is None else mean,
                color=colour,
                # A line to the only round of ``pooled`` would suggest a false path.
                ls=dashes if len(y) > _FEW else "none",
                lw=1.4,
                zorder=2.0 + own_place,
            )
            lines.append(line)
        tidy(axes)
    return [
        _legend_line(line, curve) for line, curve in zip(lines, curves, strict=True)
    ]


def _legend_line(line: Line2D, curve: Curve) -> Line2D:
    label, colour = curve.contender.label, line.get_color()
    style = line.get_linestyle()
    return Line2D([], [], color=colour, ls=style, lw=1.4, marker="o", ms=5, label=label)


def _mark_ends_beyond(
    axes: Axes, curves: Sequence[Curve], column: _Column, height: Number
) -> None:
    """Draw a triangle at the edge for every curve that ends above or below the axis."""
    low, high = axes.get_ylim()
    for curve, (colour, _) in zip(curves, _styles(curves), strict=True):
        x, y = _numbers(curve, column.number), _numbers(curve, height)
        if np.isnan(y[-1]) or low <= y[-1] <= high:
            continue
        is_above = bool(y[-1] > high)
        is_beyond = (y > high) if is_above else (y < low)
        first = len(y) - int(np.argmin(is_beyond[::-1])) if not is_beyond.all() else 0
        axes.plot(
            x[first : first + 1],
            [1.0 - _INSIDE if is_above else _INSIDE],
            marker="^" if is_above else "v",
            color=colour,
            ms=6,
            ls="none",
            transform=axes.get_xaxis_transform(),
            zorder=3.5,
        )


def _styles(curves: Sequence[Curve]) -> list[tuple[str, str]]:
    """Return colours and dashes: an algorithm has its colour in every figure."""
    names, styles = list(ALGORITHMS), []
    seen: Counter[str] = Counter()
    for curve in curves:
        name = curve.contender.algorithm.name
        colour = _COLOURS[names.index(name) % len(_COLOURS)]
        styles.append((colour, _DASHES[seen[name] % len(_DASHES)]))
        seen[name] += 1
    return styles


def _numbers(curve: Curve, number: Number) -> FloatArray:
    """Return a number of every point, NaN where there is none."""
    return np.array([number(point) for point in curve.points], dtype=np.float64)


def _roughness(heights: FloatArray) -> float:
    """Return how much a curve goes up and down, in all."""
    known = heights[np.isfinite(heights)]
    return float(np.abs(np.diff(known)).sum()) if len(known) else 0.0


def _show_losses(axes: Axes, curves: Sequence[Curve]) -> None:
    axes.set_ylabel("relative loss (P - P*) / P*")
    losses = [_numbers(curve, _loss) for curve in curves]
    drawn = [own for own in losses if len(own) > _FEW] or losses
    every, start = np.concatenate(drawn), max(own[0] for own in losses)
    shown = every[(every > 0.0) & (every <= _ABOVE_START * start)]
    if len(shown):
        lowest = shown.min()
        # The end of a single step, if that does not squeeze the others.
        near = [own[-1] for own in losses if lowest / _NEARLY < own[-1] < lowest]
        axes.set_yscale("log")
        axes.set_ylim(min([lowest, *near]) / 1.6, shown.max() * 1.6)


def _show_scores(axes: Axes, curves: Sequence[Curve], metric: str) -> None:
    """Choose a range that shows where curves end, not how low they began.

    Curves that ended with a higher loss than they began with do not extend it.
    """
    axes.set_ylabel(_SCORES[metric])
    lows, highs = [], []
    for curve in curves:
        scores = _numbers(curve, _score)
        known = scores[np.isfinite(scores)]
        if len(known):
            highs.append(float(known.max()))
        if len(known) and _is_trained(curve):
            lows.append(max(float(np.quantile(known, 0.1)), _LOWEST_R2))
    if lows:
        high = max(highs)
        low = min(*lows, high - _LEAST_SPAN)
        margin = 0.05 * (high - low)
        axes.set_ylim(low - margin, high + margin)


def _is_trained(curve: Curve) -> bool:
    return curve.points[-1].relative_loss < curve.points[0].relative_loss


def _show_column(axes: Axes, curves: Sequence[Curve], column: _Column) -> None:
    """Name an axis and scale it: logarithmically if curves end far apart."""
    axes.set_xlabel(column.label)
    every = [_numbers(curve, column.number) for curve in curves]
    ends = np.array([own[-1] for own in every])
    is_wide = bool(ends.max() > _FAR_APART * ends.min())
    if column.is_count and is_wide:
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.3)
        axes.set_xlim(-0.1, ends.max() * 1.3)
    elif column.is_count:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif is_wide:
        lowest = min(own[0] for own in every)
        axes.set_xscale("log")
        axes.set_xlim(lowest / 1.3, ends.max() * 1.3)
    else:
        axes.set_xlim(0.0, ends.max() * 1.03)
    axes.xaxis.set_major_formatter(column.ticks)
    axes.xaxis.set_minor_formatter(NullFormatter())


def _legend_columns(labels: Sequence[str]) -> int:
    longest = max(map(len, labels)) + 8  # the line before it
    return max(1, min(len(labels), _MOST_COLUMNS, _LETTERS // longest))

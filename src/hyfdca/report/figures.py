"""Figures of the report, each as plotly's JSON; texts in them are escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hyfdca.pages.charts import chart_html
from hyfdca.pages.elements import Html, element

# Distinguishable without seeing red or green, and in print without colour.
RUST, BLUE, AMBER, INK, FAINT = "#b5452c", "#1f6f8b", "#e0a030", "#3a3a3a", "#e3e3e3"
LINES = (BLUE, RUST, AMBER, INK, "#7a5ba0", "#5b8c3e", "#c06a9b", "#8a6d3b")
DASHES = ("solid", "dash", "dot", "dashdot")

_MOST_TEXT = 42  # characters of a label
_FEW = 12  # rounds

# Ticks of odds ratios are evenly spaced up to this ratio of the largest to the least.
_EVEN = 4.0
_MOST_TICKS, _FEW_DECADES = 6, 3
_STEPS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)

Trace = dict[str, Any]


def figure(
    name: str,
    caption: str,
    traces: Sequence[Trace],
    layout: Mapping[str, Any],
    height: int = 340,
    least: int = 0,
) -> Html:
    """Return a figure with its caption, which also describes it to blind readers.

    Parameters
    ----------
    name : str
        Unique among the figures of the page.
    least : int
        The height that its labels need, also on paper.
    """
    axis = {"gridcolor": FAINT, "zerolinecolor": "#b8b8b8", "automargin": True}
    whole = {
        "template": {"data": {}, "layout": {}},
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
        "margin": {"l": 56, "r": 16, "t": 12, "b": 48},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "dragmode": False,
        "height": max(height, least),
        "meta": {"least": least},
        **layout,
        "xaxis": {**axis, **layout.get("xaxis", {})},
        "yaxis": {**axis, **layout.get("yaxis", {})},
    }
    content = {
        "data": list(traces),
        "layout": whole,
        "config": {"displayModeBar": False},
    }
    drawn = chart_html(f"chart-{name}", msgspec.json.encode(content).decode(), caption)
    return element("figure", drawn, element("figcaption", caption))


def title(text: str) -> dict[str, Any]:
    """Return an axis title."""
    return {"text": text, "standoff": 8}


def round_axis(last: int) -> dict[str, Any]:
    """Return an axis of rounds, which are whole numbers."""
    few = {"dtick": 1} if last <= _FEW else {}
    return {"title": title("round"), "tickformat": "d", **few}


def label(text: str) -> str:
    """Return text as a short label, without anything that plotly would interpret."""
    short = text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
    return html.escape(short)


def line(x: Sequence[Any], y: Sequence[Any], name: str, colour: str) -> Trace:
    """Return a line."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "name": label(name),
        "line": {"color": colour, "width": 2},
    }


def dashed(trace: Trace, dash: str = "dash") -> Trace:
    """Return a line with another stroke."""
    return {**trace, "line": {**trace["line"], "dash": dash, "width": 1.4}}


def ratio_ticks(effects: Sequence[float]) -> dict[str, Any]:
    """Return ticks at round odds ratios, on an axis of their logarithms."""
    low, high = min(effects, default=0.0), max(effects, default=0.0)
    ratios = _round_ratios(min(low, 0.0), max(high, 0.0))
    return {
        "tickvals": [power * math.log(10) + math.log(m) for m, power in ratios],
        "ticktext": [_ratio_text(m, power) for m, power in ratios],
    }


def _round_ratios(low: float, high: float) -> list[tuple[float, int]]:
    """Return numbers times powers of ten, from about exp(low) to exp(high)."""
    first, last = math.floor(low / math.log(10)), math.ceil(high / math.log(10))
    if high - low > math.log(_EVEN):
        step = math.ceil((last - first) / _MOST_TICKS)
        mantissas = (1.0, 2.0, 5.0) if last - first <= _FEW_DECADES else (1.0,)
        # A multiple of the step, so that 1 is included.
        powers = range(step * math.floor(first / step), last + step, step)
        return [(m, power) for power in powers for m in mantissas]
    least, most = math.exp(low), math.exp(high)
    fits = (s for s in _STEPS if most - least <= _MOST_TICKS * s)
    step_size = next(fits, _STEPS[-1])
    places = range(math.floor(least / step_size), math.ceil(most / step_size) + 1)
    return [(place * step_size, 0) for place in places if place > 0]


def _ratio_text(mantissa: float, power: int) -> str:
    if abs(power) > _FEW_DECADES:
        return f"{mantissa:g}e{power}"
    return f"{mantissa * 10.0**power:.6g}"

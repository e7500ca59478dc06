"""Figures of the report, each as plotly's JSON; texts in them are escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hyfdca.pages.charts import chart_html
from hyfdca.pages.elements import Html, element

# Told apart by readers who do not see red or green, and in print without colour.
RUST, BLUE, AMBER, INK, FAINT = "#b5452c", "#1f6f8b", "#e0a030", "#3a3a3a", "#e3e3e3"
LINES = (BLUE, RUST, AMBER, INK, "#7a5ba0", "#5b8c3e", "#c06a9b", "#8a6d3b")
DASHES = ("solid", "dash", "dot", "dashdot")

_MOST_TEXT = 42  # characters of a label
_FEW = 12  # rounds

Trace = dict[str, Any]


def figure(
    name: str,
    caption: str,
    traces: Sequence[Trace],
    layout: Mapping[str, Any],
    height: int = 340,
) -> Html:
    """Return a figure with its caption, which also describes it to those who see none.

    Parameters
    ----------
    name : str
        Unique among the figures of the page.
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
        "height": height,
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
    """Return text as a label: short, and with nothing that plotly would interpret."""
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
    """Return ticks that show the exponentials of an axis of logarithms."""
    most = max((abs(e) for e in effects), default=1.0)
    steps = (1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0, 1e4, 1e8, 1e16, 1e64)
    step = next((s for s in steps if most <= 4 * math.log(s)), steps[-1])
    powers = range(-4, 5)
    texts = [f"{step**power:.3g}" for power in powers]
    return {"tickvals": [p * math.log(step) for p in powers], "ticktext": texts}

"""Charts with plotly, in which a reader can zoom and switch lines off."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from hyfdca.pages.charts import chart_html
from hyfdca.pages.elements import Html
from hyfdca.reproduction.report.charts import Chart, Line, Panel

_ROW_HEIGHT, _MARGIN = 280, 160  # pixels


def interactive(chart: Chart) -> Html:
    """Return a chart as an element of a page."""
    return chart_html(chart.name, _figure(chart).to_json(), chart.title)


def _figure(chart: Chart) -> go.Figure:
    n_rows, n_columns = len(chart.panels), len(chart.panels[0])
    titles = [panel.title for row in chart.panels for panel in row]
    figure = make_subplots(
        n_rows,
        n_columns,
        subplot_titles=titles,
        vertical_spacing=min(0.3 / n_rows, 0.12),
        horizontal_spacing=0.07,
    )
    named: set[str] = set()
    for i, row in enumerate(chart.panels, start=1):
        for j, panel in enumerate(row, start=1):
            _draw(figure, panel, i, j, named)
    figure.update_layout(
        height=_ROW_HEIGHT * n_rows + _MARGIN,
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 12},
        legend={"orientation": "h", "yref": "container", "y": 1.0, "yanchor": "top"},
        margin={"l": 60, "r": 20, "t": 100, "b": 60},
        hovermode="closest",
        barmode="group",
    )
    figure.update_annotations(font_size=12)
    return figure


def _draw(
    figure: go.Figure, panel: Panel, row: int, column: int, named: set[str]
) -> None:
    for line in panel.lines:
        figure.add_trace(_trace(line, line.label not in named), row, column)
        named.add(line.label)
    for label in dict.fromkeys(bar.label for bar in panel.bars):
        own = [bar for bar in panel.bars if bar.label == label]
        trace = go.Bar(
            x=[bar.group for bar in own],
            y=[bar.value for bar in own],
            name=label,
            legendgroup=label,
            showlegend=label not in named,
            marker_color=own[0].colour,
            hovertemplate="%{x}: %{y:.3g} s<extra>" + label + "</extra>",
        )
        figure.add_trace(trace, row, column)
        named.add(label)
    place = {"row": row, "col": column}
    kinds = (panel.is_log_x, panel.is_log_y)
    x_kind, y_kind = ("log" if is_log else None for is_log in kinds)
    figure.update_xaxes(
        title_text=panel.x_label, type=x_kind, exponentformat="power", **place
    )
    figure.update_yaxes(
        title_text=panel.y_label, type=y_kind, exponentformat="power", **place
    )


def _trace(line: Line, is_first: bool) -> go.Scatter:
    x, y = line.points
    sizes = [0] * max(len(x) - 1, 0) + [7 if line.is_marked else 0] * bool(len(x))
    return go.Scatter(
        x=[float(f"{value:.5g}") for value in x],
        y=[float(f"{value:.5g}") for value in y],
        name=line.label,
        legendgroup=line.label,
        showlegend=is_first,
        mode="lines+markers",
        marker={"size": sizes, "color": line.colour, "line": {"width": 0}},
        line={"color": line.colour, "dash": line.dash, "width": 1.8},
        hovertemplate="%{x:.3g}: %{y:.4g}<extra>" + line.label + "</extra>",
    )

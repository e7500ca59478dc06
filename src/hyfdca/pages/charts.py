"""Charts of a page: data in the page, drawn by one script with plotly.

A chart is the JSON of a plotly figure. The page has it as data, not as a program,
so a page has exactly two scripts, and its policy allows no others.
"""

from __future__ import annotations

import importlib.resources
from functools import cache

from hyfdca.pages.elements import Html, element

# Characters that end a script, or a line in old browsers. JSON has them only in texts.
_ESCAPED = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}

# Paper is narrower than a screen: charts are redrawn for it, and details opened.
DRAW = """
"use strict";
(function () {
  var drawn = [], paper = 680, low = 230;
  document.querySelectorAll("script[data-chart]").forEach(function (source) {
    var chart = document.getElementById(source.dataset.chart);
    var figure = JSON.parse(source.textContent);
    figure.layout.autosize = true;
    var config = Object.assign({displaylogo: false, responsive: true}, figure.config);
    Plotly.newPlot(chart, figure.data, figure.layout, config);
    var least = (figure.layout.meta || {}).least || 0;
    drawn.push({chart: chart, height: figure.layout.height, least: least});
  });
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.from(document.querySelectorAll("details.printed:not([open])"));
    closed.forEach(function (own) { own.open = true; });
    drawn.forEach(function (own) {
      var shorter = Math.round(0.8 * own.height);
      var size = {width: paper, height: Math.max(shorter, own.least)};
      if (own.chart.closest(".pair")) {
        var height = Math.min(own.height, Math.max(low, own.least));
        size = {width: paper / 2 - 8, height: height};
      }
      Plotly.relayout(own.chart, size);
    });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (own) { own.open = false; });
    drawn.forEach(function (own) {
      Plotly.relayout(own.chart, {width: null, height: own.height, autosize: true});
    });
  });
})();
"""


def chart_html(name: str, figure: str, description: str) -> Html:
    """Return a chart as an element of a page.

    Parameters
    ----------
    name : str
        The element's ID.
    figure : str
        JSON, with ``data``, ``layout`` and perhaps ``config``.
    description : str
        A description for readers who cannot see it.
    """
    place = element("div", id=name, class_="chart", role="img", aria_label=description)
    data = element(
        "script", safe_json(figure), type="application/json", data_chart=name
    )
    return Html(place + data)


def safe_json(text: str) -> Html:
    """Return JSON escaped for a script of a page."""
    return Html(text.translate(_ESCAPED))


@cache
def plotly_script() -> str:
    """Return plotly.js, without importing plotly's figures.

    Raises
    ------
    ImportError
        If plotly is not installed.
    """
    source = importlib.resources.files("plotly") / "package_data" / "plotly.min.js"
    return source.read_text("utf-8")

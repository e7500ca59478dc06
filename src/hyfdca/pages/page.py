"""The skeleton of a page: one self-contained file."""

from __future__ import annotations

import base64
import hashlib

from hyfdca.pages.charts import DRAW, plotly_script
from hyfdca.pages.elements import Html, element, joined
from hyfdca.pages.style import STYLE

_NO_SCRIPTS = "Charts need JavaScript. The tables have their numbers."


def page_html(title: str, *content: str, style: str = "") -> str:
    """Return a whole page with the scripts that draw its charts.

    Its policy lets browsers run only these two scripts and load nothing, whatever names
    and texts the content has.

    Parameters
    ----------
    style : str
        Added to the style of all pages.

    Raises
    ------
    ImportError
        If plotly is not installed.
    """
    scripts = (plotly_script(), DRAW)
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hashed, scripts))}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = joined(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Html('<meta name="viewport" content="width=device-width">'),
            element("title", title),
            element("style", Html(STYLE + style)),
        ]
    )
    plotly, draw = (element("script", Html(script)) for script in scripts)
    body = element(
        "body",
        element("main", element("noscript", element("p", _NO_SCRIPTS)), *content),
        plotly,
        draw,
    )
    page = element("html", element("head", head), body, lang="en")
    return f"<!doctype html>\n{page}\n"


def _hashed(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

"""Elements of a page; text is escaped unless it is HTML already."""

from __future__ import annotations

import html
from collections.abc import Iterable


class Html(str):
    """Text that is HTML already. Any other text is escaped where it is used."""

    __slots__ = ()


def escaped(content: str) -> Html:
    """Return HTML as it is, and any other text escaped."""
    return content if isinstance(content, Html) else Html(html.escape(content))


def joined(parts: Iterable[str]) -> Html:
    """Return one piece after another."""
    return Html("".join(map(escaped, parts)))


def element(name: str, *content: str, **attributes: str) -> Html:
    """Return an element; ``class_`` is its class, ``data_x`` its attribute data-x."""
    given = (
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{''.join(given)}>{joined(content)}</{name}>")


def folded(title: str, *content: str, is_printed: bool = False) -> Html:
    """Return content that is folded, so that only its title shows at first.

    Parameters
    ----------
    is_printed : bool
        Whether it is printed unfolded.
    """
    printed = {"class_": "printed"} if is_printed else {}
    return element("details", element("summary", title), *content, **printed)

"""Tables, as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hyfdca.pages.elements import Html, element, joined


@dataclass(frozen=True)
class Table:
    """A table of texts; the first columns are words, the others numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    n_words: int = 1

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row of {self.title!r} has not one text per column")


def as_markdown(table: Table) -> str:
    """Return the table with its note."""
    n_words = table.n_words
    lines = [
        _line(table.columns),
        _line([*["---"] * n_words, *["---:"] * (len(table.columns) - n_words)]),
        *map(_line, table.rows),
    ]
    if table.note:
        lines += ["", table.note]
    return "\n".join(lines) + "\n"


def as_html(table: Table) -> Html:
    """Return the table as an element of a page."""
    head = element("thead", _row("th", table.columns, table.n_words))
    rows = [_row("td", row, table.n_words) for row in table.rows]
    own = element("table", head, element("tbody", *rows))
    note = [element("p", table.note, class_="note")] if table.note else []
    return joined([element("div", own, class_="wide"), *note])


def _row(tag: str, texts: Sequence[str], n_words: int) -> Html:
    words = [element(tag, text, class_="word") for text in texts[:n_words]]
    return element("tr", *words, *(element(tag, text) for text in texts[n_words:]))


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with some significant digits; n/a if there is none."""
    if value is None:
        return "n/a"
    return f"{value:.{digits}g}" if value == value else "diverged"  # noqa: PLR0124

"""Tables, as Markdown and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass


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


def as_html(table: Table) -> str:
    """Return the table as an element of a page."""
    heads = _cells("th", table.columns, table.n_words)
    rows = "".join(f"<tr>{_cells('td', row, table.n_words)}</tr>" for row in table.rows)
    note = f"<p class='note'>{html.escape(table.note)}</p>" if table.note else ""
    return (
        f"<div class='wide'><table><thead><tr>"
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>{note}"
    )


def _cells(tag: str, texts: Sequence[str], n_words: int) -> str:
    marks = [" class='word'" if j < n_words else "" for j in range(len(texts))]
    cells = zip(marks, map(html.escape, texts), strict=True)
    return "".join(f"<{tag}{mark}>{text}</{tag}>" for mark, text in cells)


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def number(value: float | None, digits: int = 4) -> str:
    """Return a figure with some significant digits; n/a if there is none."""
    if value is None:
        return "n/a"
    return f"{value:.{digits}g}" if value == value else "diverged"  # noqa: PLR0124

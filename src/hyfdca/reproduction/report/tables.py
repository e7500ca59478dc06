"""Tables, as Markdown and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of texts; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row of {self.title!r} has not one text per column")


def as_markdown(table: Table) -> str:
    """Return the table with its title and note."""
    lines = [
        f"**{table.title}**",
        "",
        _line(table.columns),
        _line(["---", *["---:"] * (len(table.columns) - 1)]),
        *map(_line, table.rows),
    ]
    if table.note:
        lines += ["", table.note]
    return "\n".join(lines) + "\n"


def as_html(table: Table) -> str:
    """Return the table as an element of a page."""
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>"
        for row in table.rows
    )
    note = f"<p class='note'>{html.escape(table.note)}</p>" if table.note else ""
    return (
        f"<h3>{html.escape(table.title)}</h3><div class='wide'><table><thead><tr>"
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>{note}"
    )


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def number(value: float | None, digits: int = 4) -> str:
    """Return a figure with some significant digits; n/a if there is none."""
    if value is None:
        return "n/a"
    return f"{value:.{digits}g}" if value == value else "diverged"  # noqa: PLR0124

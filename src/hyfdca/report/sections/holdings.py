"""Who held what."""

from __future__ import annotations

from collections.abc import Iterator

from hyfdca.errors import counted
from hyfdca.pages.elements import Html, element, folded
from hyfdca.pages.tables import Table, as_html
from hyfdca.report.card import Card
from hyfdca.report.numbers import count, share
from hyfdca.report.sections import UNKNOWN, Section, note
from hyfdca.study.about import About, ColumnGroup, RowGroup

_MOST_COLUMNS = 8  # of the map
_DARKEST = 3  # holders; more look the same


def holdings(card: Card) -> Section:
    """Return who held how many rows and columns, and which cells nobody holds."""
    about = card.about
    if about is None:
        return Section("holdings", "Who held what", UNKNOWN, ())
    lead = (
        f"Together the organisations hold {counted(about.rows, 'row')} and "
        f"{counted(about.columns, 'column')}"
    )
    if card.uncovered_cells and card.cells:
        missing = share(card.uncovered_cells / card.cells)
        lead += f". Nobody holds {missing} of the cells"
    return Section("holdings", "Who held what", f"{lead}.", tuple(_content(about)))


def _content(about: About) -> Iterator[Html]:
    rows = [
        (
            own.name,
            count(own.rows),
            count(own.shared_rows),
            count(own.columns),
            count(own.shared_columns),
            "yes" if own.has_labels else "no",
        )
        for own in about.organisations
    ]
    rows.append(("together", count(about.rows), "", count(about.columns), "", ""))
    columns = ("organisation", "rows", "shared", "columns", "shared", "labels")
    yield as_html(Table("", columns, tuple(rows)))
    if len(about.row_groups) * len(about.column_groups) > 1:
        yield element("h3", "Who held which cells")
        yield _map(about)
    names = [element("li", line) for line in map(_columns, about.column_groups)]
    if names:
        yield folded("Names of the columns", element("ul", *names), is_printed=True)


def _map(about: About) -> Html:
    """Return a table of rows with the same holders by columns with the same holders."""
    groups = about.column_groups[:_MOST_COLUMNS]
    heads = [element("th", counted(own.columns, "column")) for own in groups]
    lines = [
        element(
            "tr",
            element("th", counted(own.rows, "row"), scope="row"),
            *(_cell(own, columns) for columns in groups),
        )
        for own in about.row_groups
    ]
    head = element("thead", element("tr", element("td"), *heads))
    table = element("table", head, element("tbody", *lines), class_="map")
    left = (
        about.n_row_groups - len(about.row_groups),
        about.n_column_groups - len(groups),
    )
    own = element("div", table, class_="wide")
    if not any(left):
        return own
    rest = f"Not shown: {left[0]:,} more groups of rows and {left[1]:,} of columns."
    return Html(own + note(rest))


def _cell(rows: RowGroup, columns: ColumnGroup) -> Html:
    held = [name for name in rows.holders if name in columns.holders]
    shade = f"held{min(len(held), _DARKEST)}"
    return element("td", ", ".join(held) or "nobody", class_=shade)


def _columns(group: ColumnGroup) -> str:
    n_more = group.columns - len(group.names)
    names = ", ".join(group.names) + (f" and {n_more:,} more" if n_more > 0 else "")
    return f"{', '.join(group.holders)}: {names}"

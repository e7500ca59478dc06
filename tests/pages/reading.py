"""A page as a program reads it."""

from __future__ import annotations

from html.parser import HTMLParser


class Parsed(HTMLParser):
    """The elements and the text of a page, and its scripts apart.

    Parameters
    ----------
    elements : list of (name, attributes)
    text : str
        Of everything but scripts and styles.
    rows : list of list of str
        The cells of all rows of all tables.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.rows = "", []
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Take note of an element."""
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        """Check that elements are closed in order."""
        assert self._open.pop() == tag

    def handle_data(self, data):
        """Collect text."""
        if not {"script", "style"} & set(self._open):
            self.text += data
            if {"td", "th"} & set(self._open):
                self.rows[-1][-1] += data

    def row(self, *start: str) -> list[str]:
        """Return the one row that starts with these texts."""
        (found,) = (row for row in self.rows if row[: len(start)] == list(start))
        return found

    @property
    def ids(self) -> list[str | None]:
        """All IDs."""
        return [a["id"] for _, a in self.elements if "id" in a]

    @property
    def charts(self) -> list[str | None]:
        """The IDs of all charts."""
        return [a["data-chart"] for _, a in self.elements if "data-chart" in a]

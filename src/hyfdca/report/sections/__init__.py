"""The sections of the report, one file each."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.pages.elements import Html, element


@dataclass(frozen=True)
class Section:
    """A part of the page with its own heading.

    Parameters
    ----------
    key : str
        Its ID in the page.
    lead : str
        A sentence or two, for readers in a hurry.
    """

    key: str
    title: str
    lead: str
    content: tuple[Html, ...]

    def as_html(self) -> Html:
        """Return the section as an element of a page."""
        lead = element("p", self.lead, class_="lead")
        return element(
            "section", element("h2", self.title), lead, *self.content, id=self.key
        )


UNKNOWN = (
    "This folder does not say: its result.json is missing or of an older hyfdca. The "
    "party that ran the server has it."
)


def facts(*pairs: tuple[str, str | None]) -> Html:
    """Return a list of names and values, without those that have no value."""
    parts = [
        element("div", element("dt", name), element("dd", value))
        for name, value in pairs
        if value
    ]
    return element("dl", *parts)


def note(text: str) -> Html:
    """Return a remark."""
    return element("p", text, class_="note")


def warning(*content: str) -> Html:
    """Return a warning."""
    return element("div", *content, class_="warning")


def pair(*figures: Html) -> Html:
    """Return figures side by side, where there is room."""
    return element("div", *figures, class_="pair")

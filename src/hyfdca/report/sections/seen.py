"""What each party could see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyfdca.pages.elements import Html, element, folded
from hyfdca.pages.tables import Table, as_html
from hyfdca.report.card import Card
from hyfdca.report.sections import UNKNOWN, Section, note, warning
from hyfdca.report.seen import SeenValue

_TITLE = "What each party could see"
_NO_CELLS = "Tables stayed with their owners: no cell and no ID was sent."
_SHARED_CELLS = (
    "Tables stayed with their owners: no ID was sent, and no cell but those that "
    "another holder had blank, sealed to it."
)
_LEAD = "Numbers computed from tables were, and parties can infer something from these."
_EXPOSED = "What organisations can find out about each other"


def seen(card: Card) -> Section:
    """Return what could be read, and what can be inferred from it."""
    settings = card.about.settings if card.about is not None else {}
    is_shared = settings.get("blank_cells") == "share"
    lead = f"{_SHARED_CELLS if is_shared else _NO_CELLS} {_LEAD}"
    return Section("seen", _TITLE, lead, tuple(_content(card)))


def _content(card: Card) -> Iterator[Html]:
    if card.about is not None and card.about.exposed:
        items = [element("li", sentence) for sentence in card.about.exposed]
        yield warning(element("h3", _EXPOSED), element("ul", *items))
    if card.seen is None:
        yield note(UNKNOWN)
        return
    sealed = [value.what for value in card.seen if value.server == "sealed"]
    opened = [value.what for value in card.seen if value.server == "open"]
    yield element(
        "div",
        _party("The server passed on, but could not read", sealed),
        _party("The server could read", opened),
        class_="columns",
    )
    title = "Every value, and which organisations see it"
    yield folded(title, _table(card.seen), is_printed=True)


def _party(heading: str, values: Sequence[str]) -> Html:
    text = "; ".join(values) or "nothing"
    return element("div", element("h3", heading), element("p", f"{text}."))


def _table(values: Sequence[SeenValue]) -> Html:
    rows = [(own.what, own.server, own.holder, own.other) for own in values]
    columns = ("value", "server", "holders of the row or column", "others")
    said = (
        "From the annotations of all messages that a study of this kind can send; the "
        "audit of a recorded run reads the same table. Not every study sends them all."
    )
    return as_html(Table("", columns, tuple(rows), said, n_words=4))

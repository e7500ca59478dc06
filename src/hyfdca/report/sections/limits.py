"""What a reader must know before using the model."""

from __future__ import annotations

from hyfdca.pages.elements import element
from hyfdca.report.card import Card
from hyfdca.report.sections import Section


def limits(card: Card) -> Section:
    """Return the limits in plain words."""
    items = [element("li", sentence) for sentence in card.limits]
    return Section(
        "limits",
        "Limits",
        "Read these before you use the model.",
        (element("ul", *items, class_="limits"),),
    )

"""Shows names from other parties' files safely on a screen."""

from __future__ import annotations

from rich import markup


def escape(text: str) -> str:
    """Return a text without rich's markup, and with blanks for control characters.

    A terminal obeys any control characters: those in a model or a study file could set
    colours, move the cursor, or reverse the direction of writing.
    """
    return markup.escape("".join(c if c.isprintable() else " " for c in text))

"""A guess of the columns with a role in several tables, with its reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Guess:
    """A column, and why it was chosen.

    Parameters
    ----------
    columns : tuple of str or None
        By table; None where a table has no such column.
    """

    columns: tuple[str | None, ...]
    why: str

    @property
    def usual(self) -> str | None:
        """The name that most tables have."""
        found = Counter(name for name in self.columns if name is not None)
        return found.most_common(1)[0][0] if found else None


def has_word(name: str, words: Sequence[str]) -> bool:
    """Return whether one of the words is in a name such as "patient_id" or "rowID"."""
    parts = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", name)
    return any(part.casefold() in words for part in parts)

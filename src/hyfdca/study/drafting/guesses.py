"""What the columns of several tables seem to be: IDs, labels, features."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hyfdca.data.glance import Glance
from hyfdca.data.labels import is_fraction
from hyfdca.data.tables import listed
from hyfdca.errors import StudyError

_ID_WORDS = (
    "id",
    *("patient", "person", "customer", "client", "subject", "case", "record"),
    *("member", "account", "key", "code", "number", "nr"),
)
_LABEL_WORDS = (
    *("label", "outcome", "target", "y", "class", "response", "diagnosis"),
    *("result", "event", "status", "default", "churn", "readmitted"),
)
_MOST_CLASSES = 20  # more values are rather numbers


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


@dataclass(frozen=True)
class Roles:
    """What the columns of all tables are."""

    ids: Guess
    labels: Guess
    ignored: tuple[dict[str, str], ...]  # by table: columns, and why
    label_values: frozenset[str] = field(repr=False)

    @property
    def is_classification(self) -> bool:
        """Whether labels are classes rather than numbers."""
        return len(self.label_values) <= _MOST_CLASSES and not any(
            map(is_fraction, self.label_values)
        )

    def features(self, place: int, glance: Glance) -> list[str]:
        """Return the features of one table."""
        own = (self.ids.columns[place], self.labels.usual, *self.ignored[place])
        return glance.features(own)


def guess_roles(
    glances: Sequence[Glance], id_column: str | None, label_column: str | None
) -> Roles:
    """Return what columns seem to be; names that are given are not guessed.

    Raises
    ------
    StudyError
        If there is no good guess.
    """
    ids = _given(glances, id_column, "--id") or _guess_ids(glances)
    _check_ids(glances, ids)
    labels = _given(glances, label_column, "--label") or _guess_labels(glances, ids)
    values = [
        glance.label_values(name)
        for glance, name in zip(glances, labels.columns, strict=True)
        if glance.has_label(name)
    ]
    ignored = tuple(
        _ignored(glance, own, labels.usual)
        for glance, own in zip(glances, ids.columns, strict=True)
    )
    return Roles(ids, labels, ignored, frozenset().union(*values))


def _given(glances: Sequence[Glance], name: str | None, option: str) -> Guess | None:
    if name is None:
        return None
    columns = tuple(name if name in glance.columns else None for glance in glances)
    if not any(columns):
        known = sorted({column for glance in glances for column in glance.columns})
        raise StudyError(
            f"No table has the column {name!r} that {option} names; the columns are "
            f"{listed(known) or 'without names'}."
        )
    return Guess(columns, f"As {option} says.")


def _check_ids(glances: Sequence[Glance], ids: Guess) -> None:
    """Refuse an option --id that names no column of some table."""
    for glance, name in zip(glances, ids.columns, strict=True):
        if name is None and glance.numbered is None:
            raise StudyError(
                f"{glance.path.name} has no column {ids.usual!r}, which --id names; "
                f"its columns are {listed(list(glance.columns))}."
            )


def _ignored(glance: Glance, own_id: str | None, label: str | None) -> dict[str, str]:
    names = [] if glance.numbered else glance.features((own_id, label))
    found = {name: glance.objection(name, own_id) for name in names}
    return {name: why for name, why in found.items() if why}


# IDs


def _guess_ids(glances: Sequence[Glance]) -> Guess:
    named = [glance for glance in glances if glance.numbered is None]
    if not named:
        return Guess((None,) * len(glances), "")
    common = [
        name
        for name in named[0].id_candidates
        if all(name in glance.id_candidates for glance in named)
    ]
    if not common:
        return _guess_own_ids(glances)
    shared = {name: _n_shared(glances, [name] * len(glances)) for name in common}
    best = max(common, key=lambda name: _id_rank(name, named, shared[name]))
    columns = tuple(None if glance.numbered else best for glance in glances)
    return Guess(columns, _why_ids(best, shared[best], len(glances)))


def _guess_own_ids(glances: Sequence[Glance]) -> Guess:
    """Guess the IDs of tables that name them differently, by the rows they share."""
    known: set[str] = set()
    chosen: list[str | None] = []
    for glance in glances:
        if glance.numbered is not None:
            chosen.append(None)
            known |= glance.ids(None)
            continue
        overlaps = {n: len(glance.ids(n) & known) for n in glance.id_candidates}
        if not overlaps or (known and not max(overlaps.values())):
            raise StudyError(
                f"No column of {glance.path.name} looks like the IDs of its rows: "
                "texts or whole numbers, another in each row, shared with the other "
                "tables; name it with --id."
            )
        best = max(overlaps, key=lambda n: (overlaps[n], *_id_rank(n, [glance], 0)))
        chosen.append(best)
        known |= glance.ids(best)
    return Guess(tuple(chosen), "The columns whose values the tables share.")


def _id_rank(name: str, glances: Sequence[Glance], n_shared: int) -> tuple[int, ...]:
    """Return a sort key: the larger, the more a column looks like an ID."""
    counts_rows = any(glance.is_row_number(name) for glance in glances)
    return (n_shared > 0, not counts_rows, has_word(name, _ID_WORDS), n_shared)


def _n_shared(glances: Sequence[Glance], names: Sequence[str]) -> int:
    """Return how many IDs two or more tables have."""
    own = [glance.ids(name) for glance, name in zip(glances, names, strict=True)]
    counts = Counter(value for ids in own for value in ids)
    return sum(count > 1 for count in counts.values())


def _why_ids(name: str, n_shared: int, n_tables: int) -> str:
    if n_tables == 1:
        return f"{name!r} differs in every row."
    return (
        f"{name!r} is in all tables, differs in every row of each, and {n_shared:,} of "
        "its values are in two tables or more."
    )


# Labels


def _guess_labels(glances: Sequence[Glance], ids: Guess) -> Guess:
    taken = {name for name in ids.columns if name is not None}
    names = list(
        dict.fromkeys(n for glance in glances for n in glance.columns if n not in taken)
    )
    if not names:
        return Guess((None,) * len(glances), "")
    by_word = [name for name in names if has_word(name, _LABEL_WORDS)]
    if by_word:
        best = max(by_word, key=lambda name: _label_rank(name, glances))
        return _in_tables(glances, best, f"{best!r} is a usual name of labels.")
    binary = [name for name in names if _n_values(glances, name) == 2]
    if len(binary) != 1:
        found = f"; {listed(binary)} have two values each" if binary else ""
        raise StudyError(
            f"No column of these tables has the name of a label{found}; name it with "
            "--label."
        )
    why = f"{binary[0]!r} is the only column with two values."
    return _in_tables(glances, binary[0], why)


def _in_tables(glances: Sequence[Glance], name: str, why: str) -> Guess:
    return Guess(tuple(name if name in g.columns else None for g in glances), why)


def _label_rank(name: str, glances: Sequence[Glance]) -> tuple[int, int]:
    place = next(i for i, word in enumerate(_LABEL_WORDS) if has_word(name, (word,)))
    return sum(name in glance.columns for glance in glances), -place


def _n_values(glances: Sequence[Glance], name: str) -> int:
    own = [glance.label_values(name) for glance in glances if name in glance.columns]
    return len(frozenset().union(*own))


def has_word(name: str, words: Sequence[str]) -> bool:
    """Return whether one of the words is in a name such as "patient_id" or "rowID"."""
    parts = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", name)
    return any(part.casefold() in words for part in parts)

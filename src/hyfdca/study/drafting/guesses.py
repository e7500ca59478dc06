"""Guesses the roles of columns in several tables: IDs, labels, features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hyfdca.data.glance import Glance
from hyfdca.data.labels import is_fraction
from hyfdca.data.tables import listed, parsed_number
from hyfdca.errors import StudyError
from hyfdca.study.drafting.guess import Guess, has_word
from hyfdca.study.drafting.ids import check_known, given_ids, guess_ids

_LABEL_WORDS = (
    *("label", "outcome", "target", "y", "class", "response", "diagnosis"),
    *("result", "event", "status", "default", "churn", "readmitted"),
)
_FEWEST_COUNTS = 6  # consecutive whole numbers; fewer may be grades
MOST_CLASSES = 20  # with more values, they are probably numbers


@dataclass(frozen=True)
class Roles:
    """The roles of the columns of all tables."""

    ids: Guess
    labels: Guess
    ignored: tuple[dict[str, str], ...]  # by table: columns, and why
    label_values: frozenset[str] = field(repr=False)

    @property
    def is_classification(self) -> bool:
        """Whether labels are classes rather than numbers."""
        is_few = len(self.label_values) <= MOST_CLASSES
        return is_few and not self.is_count and not self.has_fractions

    @property
    def has_fractions(self) -> bool:
        """Whether some labels are numbers that are not whole."""
        return any(map(is_fraction, self.label_values))

    @property
    def is_count(self) -> bool:
        """Whether labels are whole numbers, many of which follow on each other."""
        numbers = [parsed_number(label) for label in self.label_values]
        whole = {n for n in numbers if n is not None and n.is_integer()}
        if len(whole) < len(numbers):
            return False
        runs = (n for n in whole if n - 1 not in whole)  # where one begins
        return any(all(n + k in whole for k in range(_FEWEST_COUNTS)) for n in runs)

    def features(self, place: int, glance: Glance) -> list[str]:
        """Return the features of one table."""
        own = (self.ids.columns[place], self.labels.usual, *self.ignored[place])
        return glance.features(own)


def guess_roles(
    glances: Sequence[Glance], id_columns: Sequence[str], label_column: str | None
) -> Roles:
    """Guess the roles of columns, except those that are given.

    Parameters
    ----------
    id_columns : sequence of str
        Values of ``--id-column``: names of columns, or ``table=column``.

    Raises
    ------
    StudyError
        If there is no good guess.
    """
    empty = [glance.path.name for glance in glances if not glance.n_rows]
    if empty:
        raise StudyError(f"The file {empty[0]} has no rows; add some, or leave it out.")
    ids = given_ids(glances, id_columns) or guess_ids(glances, {})
    labels = _given_labels(glances, label_column) or _guess_labels(glances, ids)
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


def _given_labels(glances: Sequence[Glance], name: str | None) -> Guess | None:
    if name is None:
        return None
    check_known(glances, name, "--label-column")
    columns = tuple(name if name in glance.columns else None for glance in glances)
    return Guess(columns, "As --label-column says.")


def _ignored(glance: Glance, own_id: str | None, label: str | None) -> dict[str, str]:
    names = [] if glance.numbered else glance.features((own_id, label))
    found = {name: glance.objection(name, own_id) for name in names}
    return {name: why for name, why in found.items() if why}


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
            "--label-column."
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

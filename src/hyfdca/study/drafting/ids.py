"""Finds or guesses the ID columns of several tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from hyfdca.data.glance import Glance
from hyfdca.data.id_forms import ID_FORMS, IdForm
from hyfdca.data.tables import listed
from hyfdca.errors import StudyError, counted
from hyfdca.study.drafting.guess import Guess, has_word

_ID_WORDS = (
    "id",
    *("patient", "person", "customer", "client", "subject", "case", "record"),
    *("member", "account", "key", "code", "number", "nr"),
)
SINGLE_FORMS: tuple[IdForm, ...] = (
    *("leading zeros", "zeros after a decimal point"),
    *("capitals", "blanks or punctuation"),
)

_Values = dict[str | None, frozenset[str]]  # the IDs that columns of a table would give


def given_ids(glances: Sequence[Glance], given: Sequence[str]) -> Guess | None:
    """Return the columns that ``--id-column`` names; None if it names none.

    Each is the name for all tables, or ``table=column``. If all are of the second kind,
    the columns of other tables are guessed.

    Raises
    ------
    StudyError
    """
    own = _own_names(glances, given)
    rest = [text for text in given if _table_of(glances, text) is None]
    if len(rest) > 1:
        raise StudyError(
            "Several names are given with --id-column for all tables, "
            f"{listed(rest)}; give one, or --id-column "
            f"{glances[0].path.name}=COLUMN for a table of its own."
        )
    if rest:
        check_known(glances, rest[0], "--id-column")
        own = dict.fromkeys(_named(glances), rest[0]) | own
    for place, name in own.items():
        if name not in glances[place].columns:
            raise StudyError(
                f"{glances[place].path.name} has no column {name!r}, which --id-column "
                f"names; its columns are {listed(list(glances[place].columns))}; name "
                "the column of this table with --id-column "
                f"{glances[place].path.name}=COLUMN."
            )
    if len(own) < len(_named(glances)):
        return guess_ids(glances, own) if own else None
    columns = tuple(own.get(place) for place in range(len(glances)))
    return Guess(columns, "As --id-column says.") if own else None


def check_known(glances: Sequence[Glance], name: str, option: str) -> None:
    """Refuse a name that is not a column of any table."""
    if not any(name in glance.columns for glance in glances):
        known = sorted({column for glance in glances for column in glance.columns})
        raise StudyError(
            f"No table has the column {name!r} that {option} names; the columns are "
            f"{listed(known) or 'without names'}."
        )


def _named(glances: Sequence[Glance]) -> list[int]:
    return [place for place, own in enumerate(glances) if own.numbered is None]


def _table_of(glances: Sequence[Glance], text: str) -> int | None:
    """Return the table that an option such as ``bank.csv=customer`` names."""
    for place in _named(glances):
        path = glances[place].path
        if text.startswith((f"{path.name}=", f"{path}=")):
            return place
    return None


def _own_names(glances: Sequence[Glance], given: Sequence[str]) -> dict[int, str]:
    own: dict[int, str] = {}
    for text in given:
        place = _table_of(glances, text)
        if place is not None:
            path = glances[place].path
            own[place] = text.removeprefix(f"{path}=").removeprefix(f"{path.name}=")
    return own


def guess_ids(glances: Sequence[Glance], own: Mapping[int, str]) -> Guess:
    """Guess the ID columns, given those of some tables.

    Raises
    ------
    StudyError
        If there is no good guess.
    """
    named = [glances[place] for place in _named(glances)]
    if not named:
        return Guess((None,) * len(glances), "")
    common = [
        name
        for name in named[0].id_candidates
        if all(name in glance.id_candidates for glance in named)
    ]
    if own or not common:
        return _guess_own_ids(glances, own)
    shared = {name: _n_shared(glances, [name] * len(glances)) for name in common}
    best = max(common, key=lambda name: _id_rank(name, named, shared[name]))
    columns = tuple(None if glance.numbered else best for glance in glances)
    return Guess(columns, _why_ids(best, shared[best], len(glances)))


def _guess_own_ids(glances: Sequence[Glance], own: Mapping[int, str]) -> Guess:
    """Guess the IDs of tables that name them differently, by the rows they share.

    Tables are added one by one, each time the one that shares most with the others.
    """
    values = [_values(glance, own.get(place)) for place, glance in enumerate(glances)]
    chosen: dict[int, str | None] = {}
    known = frozenset[str]()
    while len(chosen) < len(glances):
        rest = [place for place in range(len(glances)) if place not in chosen]
        overlaps = {
            (place, name): len(ids & known) if chosen else _n_met(values, place, ids)
            for place in rest
            for name, ids in values[place].items()
        }
        best = max(
            overlaps,
            key=lambda which: (overlaps[which], *_own_rank(glances, *which), -which[0]),
        )
        if chosen and not overlaps[best]:
            _refuse_odd(glances, values, chosen, rest)
        chosen[best[0]] = best[1]
        known |= values[best[0]][best[1]]
    columns = tuple(chosen[place] for place in range(len(glances)))
    return Guess(columns, "The columns whose values the tables share.")


def _own_rank(
    glances: Sequence[Glance], place: int, name: str | None
) -> tuple[int, ...]:
    return (0,) if name is None else _id_rank(name, [glances[place]], 0)


def _n_met(values: Sequence[_Values], place: int, ids: frozenset[str]) -> int:
    """Return how many values of a column other tables have, each in its best column."""
    others = (own for other, own in enumerate(values) if other != place)
    return sum(max(len(ids & theirs) for theirs in own.values()) for own in others)


def _values(glance: Glance, given: str | None) -> _Values:
    """Return the columns that may be the IDs of a table, with their values."""
    if glance.numbered is not None:
        return {None: glance.ids(None)}
    if given is not None:
        return {given: glance.ids(given)}
    names = glance.id_candidates
    if not names:
        file = glance.path.name
        raise StudyError(
            f"No column of {file} looks like the IDs of its rows: texts or whole "
            f"numbers, another in each row{_near_miss(glance)}, or name the column "
            f"with --id-column {file}=COLUMN."
        )
    # Any two tables share numbers of rows.
    names = tuple(n for n in names if not glance.is_row_number(n)) or names
    return {name: glance.ids(name) for name in names}


def _refuse_odd(
    glances: Sequence[Glance],
    values: Sequence[_Values],
    chosen: Mapping[int, str | None],
    rest: Sequence[int],
) -> NoReturn:
    """Refuse a table that shares no IDs with most of the others."""
    # With at most half of the tables so far, these may be the odd ones instead.
    odd = rest[0] if len(rest) <= len(chosen) else min(chosen)
    others = chosen if odd in rest else dict.fromkeys(rest)
    file = glances[odd].path.name
    raise StudyError(
        f"No column of {file} shares values with the IDs of the other tables"
        f"{_written_alike(glances, values, odd, others)}; write IDs alike in all "
        "tables, or name the column of a table with --id-column, such as --id-column "
        f"{file}=COLUMN."
    )


def _written_alike(
    glances: Sequence[Glance],
    values: Sequence[_Values],
    odd: int,
    others: Collection[int],
) -> str:
    """Return the form in which columns would share values, or possible ID columns."""
    best, said = (
        0,
        f" (its columns that may be IDs: {listed(list(map(str, values[odd])))})",
    )
    for form in SINGLE_FORMS:
        for name, ids in values[odd].items():
            for other in others:
                for their_name, theirs in values[other].items():
                    if (n := n_alike(form, ids, theirs)) > best:
                        best = n
                        said = (
                            f": {n:,} values of {name!r} are those of {their_name!r} "
                            f"of {glances[other].path.name} except for {form}"
                        )
    return said


def n_alike(form: IdForm, own: Collection[str], theirs: Collection[str]) -> int:
    """Return how many IDs of two tables are the same in a form."""
    simple = ID_FORMS[form]
    return len(set(map(simple, own)) & set(map(simple, theirs)))


def _near_miss(glance: Glance) -> str:
    """Return what is wrong with a column that resembles IDs by name or cells."""
    is_named = {name: has_word(name, _ID_WORDS) for name in glance.columns}
    for name in sorted(is_named, key=is_named.__getitem__, reverse=True):
        n_blank, n_repeated = glance.n_blank_and_repeated(name)
        most = glance.n_rows / (2 if is_named[name] else 20)
        if 0 < n_blank + n_repeated < most:
            blank = f" is blank in {counted(n_blank, 'row')}" * (n_blank > 0)
            repeats = f" repeats in {counted(n_repeated, 'row')}" * (n_repeated > 0)
            advice = [
                *["give each row an ID"] * (n_blank > 0),
                *["keep one row per ID"] * (n_repeated > 0),
            ]
            faults = " and".join(filter(None, (blank, repeats)))
            return f" ({name!r}{faults}); {' and '.join(advice)}"
    return "; give it a column of IDs"


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

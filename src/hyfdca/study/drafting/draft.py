"""Drafts a study file from the tables, with the reason for every guess."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from hyfdca.data.glance import Glance, glance_at
from hyfdca.data.tables import DATE_ORIGIN, KINDS, Kind, TableError, listed
from hyfdca.data.words import are_dates, boolean_of, is_yes_or_no, words_of
from hyfdca.errors import StudyError, counted
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.class_checks import check_linked, check_spelling
from hyfdca.study.drafting.guesses import MOST_CLASSES, Roles, guess_roles
from hyfdca.study.drafting.hints import (
    code_hints,
    date_hints,
    id_hints,
    missing_hints,
    role_hints,
    twin_names,
)
from hyfdca.study.file import parse
from hyfdca.study.kind_notes import kind_word
from hyfdca.study.values import without_controls

_HEAD = """\
# Drafted by hyfdca study new from a look at {tables}.
# Every guess has its reason above it: correct what is wrong, then train with
#   hyfdca train {study}
# docs/study-file.md describes all keys.
"""


def draft_study(
    paths: Sequence[Path],
    out: Path,
    id_columns: Sequence[str] = (),
    label_column: str | None = None,
) -> str:
    """Return the text of a study file for these tables.

    Parameters
    ----------
    out : Path
        Where the file will be; paths in it are relative to its folder.
    id_columns : sequence of str
        The names of the ID columns: a name for all tables, or ``table=column`` for
        some; guessed if not given.
    label_column : str, optional
        The name of the label column; guessed if not given.

    Raises
    ------
    StudyError
        If a table cannot be read, or if there is no good guess.
    """
    try:
        glances = [glance_at(path) for path in paths]
        roles = guess_roles(glances, id_columns, label_column)
        lines = [*_study(glances, roles, out), *_clients(glances, roles, out)]
    except TableError as error:
        raise StudyError(_sentence(str(error), paths)) from None
    tables = f"{len(paths)} tables" if len(paths) > 1 else "one table"
    text = "\n".join([_HEAD.format(tables=tables, study=out), *lines, ""])
    parse(text.encode(), out)  # as hyfdca train will
    return text


def _sentence(text: str, paths: Sequence[Path]) -> str:
    """Return what is wrong with a table as a sentence; file names stay unchanged."""
    if any(text.startswith(path.name) for path in paths):
        return f"The file {text}."
    return f"{text[:1].upper()}{text[1:]}."


def _study(glances: Sequence[Glance], roles: Roles, out: Path) -> Iterator[str]:
    yield "[study]"
    yield _line("name", without_controls(out.stem))
    yield from _columns(glances, roles)
    yield from _loss(glances, roles)
    yield from _kinds(glances, roles)
    yield from _cells(glances, roles)
    yield "# The strength of regularisation; larger values give smaller weights."
    yield "l2 = 1e-3"
    if any(not has for has in _labelled(glances, roles)):
        yield "# Some organisations have no labels. The numbers that they receive show"
        yield "# the labels of rows that they share: all organisations must agree."
        yield "labels_visible_to_holders = true"


def _columns(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    without_ids = [g for g in glances if g.numbered is not None and not g.has_ids]
    if roles.ids.usual is not None:
        yield _comment(roles.ids.why)
        yield from map(_comment, id_hints(glances, roles))
        yield _line("id_column", roles.ids.usual)
    if roles.labels.usual is not None:
        yield _comment(roles.labels.why)
        yield _line("label_column", roles.labels.usual)
        yield from map(_comment, role_hints(glances, roles))
    if without_ids and len({glance.n_rows for glance in glances}) == 1:
        yield "# Some tables have no IDs, and all have the same number of rows. Check"
        yield "# that the same line is the same case everywhere, or add IDs instead."
        yield _line("rows", "by order")
    elif without_ids:
        names = ", ".join(glance.path.name for glance in without_ids)
        yield _comment(f"These tables have no IDs and different row counts: {names}.")
        yield '# Save them as NPZ with an array ids; rows = "by order" would mix cases.'


def _loss(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    n_values = len(roles.label_values)
    if roles.is_classification:
        yield f"# The labels have {n_values} different values: classes."
        yield '# If they are numbers to predict, use loss = "squared".'
        yield _line("loss", "logistic")
        yield from _positive(roles.label_values)
        yield from map(_comment, _refused_labels(glances, roles))
    elif are_dates(roles.label_values):
        yield "# Training will be refused: the labels are dates. Name a label_column of"
        yield "# numbers, such as the days between two dates, or of classes."
        yield _line("loss", "squared")
    else:
        what = "whole numbers in a row" if roles.is_count else "different values"
        yield f"# The labels have {n_values:,} {what}: numbers to predict."
        yield '# If they are classes, use loss = "logistic"' + (
            "." if n_values <= MOST_CLASSES else " and raise max_classes."
        )
        yield _line("loss", "squared")


def _refused_labels(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Yield what training would say of classes that tables write differently."""
    each = zip(_names(glances), glances, roles.labels.columns, strict=True)
    own = {
        name: glance.label_values(column)
        for name, glance, column in each
        if glance.has_label(column)
    }
    try:
        check_spelling(list(own), list(own.values()))
        check_linked(list(own), [sorted(values) for values in own.values()])
    except AlignmentError as error:
        yield f"Training will be refused: {error}"


def _positive(values: Collection[str]) -> Iterator[str]:
    """Name the positive label if labels are yes and no.

    Otherwise it would be the second in alphabetical order: nein rather than ja.
    """
    if len(values) == 2 and is_yes_or_no(words_of(values)):
        found = sorted(values, key=lambda value: boolean_of(value) or 0.0)
        if boolean_of(found[0]) != boolean_of(found[1]):
            yield _comment(f"{found[1]!r} means yes: the model tells how likely it is,")
            yield "# and sensitivity is of its rows."
            yield _line("positive_label", found[1])


def _kinds(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Describe columns that are not numbers, and those that cannot be read."""
    found: dict[str, set[Kind]] = {}
    for place, glance in enumerate(glances):
        for name in [] if glance.numbered else roles.features(place, glance):
            if mistake := glance.mistake(name):
                yield _comment(f"Training will be refused: {mistake}.")
            else:
                found.setdefault(name, set()).add(glance.kind_of(name))
    yield from map(_comment, code_hints(glances, roles))
    yield from map(_comment, date_hints(glances, roles))
    yield from map(_comment, missing_hints(glances, roles))
    for kind in KINDS:
        names = [name for name, kinds in found.items() if kinds - {"blank"} == {kind}]
        if names and kind != "number":
            yield _comment(f"{kind_word(kind, DATE_ORIGIN)}: {listed(names)}.")
    yield from _categorical(glances, found)


def _categorical(
    glances: Sequence[Glance], found: Mapping[str, set[Kind]]
) -> Iterator[str]:
    """Name the columns that are categories, even if not all tables show it."""
    codes = {name: n for name in found if (n := sum(_codes(glances, name)))}
    mixed = [n for n, kinds in found.items() if kinds - {"blank"} > {"category"}]
    mixed = [n for n in mixed if n not in codes and _has_common_values(glances, n)]
    for name, n_codes in codes.items():
        cells = counted(n_codes, "cell")
        yield _comment(f"{name!r} has {cells} with leading zeros, as codes have. If")
        yield "# these are numbers, write them without the zeros in the tables."
    yield from _comments_of_numbers(glances, codes)
    if mixed:
        yield _comment(f"Text in some tables and not in others: {listed(mixed)}.")
        yield "# If they are not categories, correct the tables, or use ignore."
    if codes or mixed:
        yield f"categorical = {json.dumps([*codes, *mixed], ensure_ascii=False)}"


def _codes(glances: Sequence[Glance], name: str) -> Iterator[int]:
    """Yield how many cells of a column have leading zeros, by table that has it."""
    return (glance.n_codes(name) for glance in glances if name in glance.columns)


def _comments_of_numbers(
    glances: Sequence[Glance], codes: Collection[str]
) -> Iterator[str]:
    """Name codes that are stored as numbers and so have lost their zeros."""
    for glance in glances:
        for name in codes:
            if name in glance.columns and glance.is_stored_as_numbers(name):
                yield _comment(f"In {glance.path.name}, {name!r} is stored as numbers:")
                yield "# if these lost leading zeros, save them as text with the zeros."


def _has_common_values(glances: Sequence[Glance], name: str) -> bool:
    """Return whether two tables have the same value in a column."""
    own = [glance.label_values(name) for glance in glances if name in glance.columns]
    return any(one & other for one, other in combinations(own, 2))


def _cells(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    is_sparse = any(glance.is_sparse for glance in glances)
    yield "# " + (
        "Zeros are not stored in some tables; centring would fill them."
        if is_sparse
        else "Features to mean 0 and deviation 1, over all organisations."
    )
    yield _line("scale", "maxabs" if is_sparse else "standard")
    features = [roles.features(k, glance) for k, glance in enumerate(glances)]
    each = zip(glances, features, strict=True)
    n_blank = sum(glance.n_blank(own) for glance, own in each)
    if n_blank:
        blank = counted(n_blank, "cell is", "cells are")
        yield f"# {blank} blank: taken as the mean of their column,"
        yield "# or in text as a level of its own."
        yield _line("missing", "mean")
    if n_blank and (n_known := _n_known(glances, roles, features)):
        yield f"# {n_known:,} of them have a value in another table, which is given to"
        yield "# the organisation that lacks it: all organisations must agree."
        yield _line("blank_cells", "share")
    twins = list(twin_names(glances, roles))
    for one, own, other, theirs in twins:
        yield _comment(
            f"{own!r} of {one.path.name} and {theirs!r} of {other.path.name}"
        )
        yield "# are two features. If they are the same, name them alike."
    share = _uncovered_share(glances, roles, features)
    if share and twins:
        yield f"# {share:.1%} of all cells are in no table. If that is right, write:"
        yield _comment(_line("uncovered", "zero" if is_sparse else "mean"))
    elif share:
        filling = "zero" if is_sparse else "the mean of their column"
        yield f"# {share:.1%} of all cells are in no table: taken as {filling},"
        yield "# or in a category as its most frequent level."
        yield _line("uncovered", "zero" if is_sparse else "mean")


def _n_known(
    glances: Sequence[Glance], roles: Roles, features: Sequence[Sequence[str]]
) -> int:
    """Return how many blank cells have a value in another table."""
    each = zip(glances, features, roles.ids.columns, strict=True)
    cells = [
        {n: glance.blank_ids(n, own_id) for n in own if not glance.mistake(n)}
        for glance, own, own_id in each
    ]
    ids = [g.ids(own) for g, own in zip(glances, roles.ids.columns, strict=True)]
    return sum(
        len(blank & ids[other] - cells[other][name])
        for place, own in enumerate(cells)
        for name, blank in own.items()
        for other in range(len(cells))
        if blank and other != place and name in cells[other]
    )


def _uncovered_share(
    glances: Sequence[Glance], roles: Roles, features: Sequence[Sequence[str]]
) -> float:
    """Return the share of cells, of all rows with a label, that no table has."""
    names = zip(glances, roles.ids.columns, roles.labels.columns, strict=True)
    labelled = frozenset().union(*(glance.labelled_ids(*own) for glance, *own in names))
    holders = dict.fromkeys(labelled, frozenset[int]())
    for place, glance in enumerate(glances):
        for own in glance.ids(roles.ids.columns[place]) & labelled:
            holders[own] |= {place}
    n_columns = len({name for own in features for name in own})
    n_held = sum(
        count * len({name for place in group for name in features[place]})
        for group, count in Counter(holders.values()).items()
    )
    n_cells = n_columns * len(holders)
    return 1.0 - n_held / n_cells if n_cells else 0.0


def _labelled(glances: Sequence[Glance], roles: Roles) -> list[bool]:
    each = zip(glances, roles.labels.columns, strict=True)
    return [glance.has_label(name) for glance, name in each]


def _clients(glances: Sequence[Glance], roles: Roles, out: Path) -> Iterator[str]:
    labelled = _labelled(glances, roles)
    for place, (glance, name) in enumerate(zip(glances, _names(glances), strict=True)):
        yield ""
        yield f"# {glance.n_rows:,} rows."
        yield from map(_comment, glance.notes)
        yield "[[clients]]"
        yield _line("name", name)
        yield _line("data", _relative(glance.path, out))
        own_id = roles.ids.columns[place]
        if own_id not in (None, roles.ids.usual):
            yield _line("id_column", str(own_id))
        if not labelled[place]:
            yield _comment(f"It has no column {roles.labels.usual!r}.")
            yield "label = false"
        ignored = roles.ignored[place]
        for column, why in ignored.items():
            yield _comment(f"Not a feature: {column!r}, because {why}.")
        if ignored:
            yield f"ignore = {json.dumps(list(ignored), ensure_ascii=False)}"


def _names(glances: Sequence[Glance]) -> list[str]:
    """Return a name for each organisation: that of its file, made unique."""
    stems = [without_controls(glance.path.name.split(".")[0]) for glance in glances]
    counts = Counter(stems)
    return [
        stem if counts[stem] == 1 else f"{stem}-{place + 1}"
        for place, stem in enumerate(stems)
    ]


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out.parent)).as_posix()


def _comment(text: str) -> str:
    """Return a comment on one line, even if names of files and columns have several."""
    return "# " + "".join(c if c.isprintable() else " " for c in text)


def _line(key: str, value: str) -> str:
    # Texts of JSON are texts of TOML.
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"

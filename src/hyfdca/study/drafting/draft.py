"""A first study file from a look at the tables, with the reason of every guess."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from hyfdca.data.glance import Glance, glance_at
from hyfdca.data.tables import DATE_ORIGIN, KINDS, Kind, TableError, listed
from hyfdca.errors import StudyError
from hyfdca.study.drafting.guesses import Roles, guess_roles
from hyfdca.study.drafting.hints import id_hints, role_hints
from hyfdca.study.file import parse
from hyfdca.study.kind_notes import kind_word

_HEAD = """\
# Drafted by hyfdca study new from a look at {tables}.
# Every guess has its reason above it: correct what is wrong, then train with
#   hyfdca train {study}
# docs/study-file.md describes all keys.
"""


def draft_study(
    paths: Sequence[Path],
    out: Path,
    id_column: str | None = None,
    label_column: str | None = None,
) -> str:
    """Return the text of a study file for these tables.

    Parameters
    ----------
    out : Path
        Where the file will be; paths in it are relative to its folder.
    id_column, label_column : str, optional
        What these columns are called; guessed if not given.

    Raises
    ------
    StudyError
        If a table cannot be read, or if there is no good guess.
    """
    try:
        glances = [glance_at(path) for path in paths]
        roles = guess_roles(glances, id_column, label_column)
        lines = [*_study(glances, roles, out), *_clients(glances, roles, out)]
    except TableError as error:
        text = str(error)
        raise StudyError(f"{text[:1].upper()}{text[1:]}.") from None
    tables = f"{len(paths)} tables" if len(paths) > 1 else "one table"
    text = "\n".join([_HEAD.format(tables=tables, study=out), *lines, ""])
    parse(text.encode(), out)  # as hyfdca train will
    return text


def _study(glances: Sequence[Glance], roles: Roles, out: Path) -> Iterator[str]:
    yield "[study]"
    yield _line("name", out.stem)
    yield from _columns(glances, roles)
    yield from _loss(roles)
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
        yield _comment(f"These tables have no IDs, and other numbers of rows: {names}.")
        yield '# Save them as NPZ with an array ids; rows = "by order" would mix cases.'


def _loss(roles: Roles) -> Iterator[str]:
    n_values = len(roles.label_values)
    if roles.is_classification:
        yield f"# The labels have {n_values} different values: classes."
        yield '# If they are numbers to predict, use loss = "squared".'
        yield _line("loss", "logistic")
    else:
        yield f"# The labels have {n_values:,} different values: numbers to predict."
        yield '# If they are classes, use loss = "logistic" and raise max_classes.'
        yield _line("loss", "squared")


def _kinds(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Say what becomes of columns that are not numbers."""
    found: dict[str, set[Kind]] = {}
    for place, glance in enumerate(glances):
        for name in [] if glance.numbered else roles.features(place, glance):
            found.setdefault(name, set()).add(glance.kind_of(name))
    for kind in KINDS:
        names = [name for name, kinds in found.items() if kinds - {"blank"} == {kind}]
        if names and kind != "number":
            yield _comment(f"{kind_word(kind, DATE_ORIGIN)}: {listed(names)}.")
    mixed = [n for n, kinds in found.items() if kinds - {"blank"} > {"category"}]
    if mixed:
        yield "# These are text in some tables and not in others. If they are no"
        yield "# categories, correct the tables, or leave them out with ignore."
        yield f"categorical = {json.dumps(mixed, ensure_ascii=False)}"


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
        yield f"# {n_blank:,} cells are blank: taken as the mean of their column."
        yield _line("missing", "mean")
    share = _uncovered_share(glances, roles, features)
    if share:
        filling = "zero" if is_sparse else "the mean of their column"
        yield f"# {share:.1%} of all cells are in no table: taken as {filling}."
        yield _line("uncovered", "zero" if is_sparse else "mean")


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
    stems = [glance.path.name.split(".")[0] for glance in glances]
    counts = Counter(stems)
    return [
        stem if counts[stem] == 1 else f"{stem}-{place + 1}"
        for place, stem in enumerate(stems)
    ]


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out.parent)).as_posix()


def _comment(text: str) -> str:
    """Return a comment on one line, whatever names of files and columns contain."""
    return "# " + "".join(c if c.isprintable() else " " for c in text)


def _line(key: str, value: str) -> str:
    # Texts of JSON are texts of TOML.
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"

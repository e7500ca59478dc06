"""Refuses what cannot be aligned, in one sentence with organisations and counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.data.tables import (
    LONGEST_NAME,
    bare_name,
    first_twins,
    without_brackets,
)
from hyfdca.errors import counted
from hyfdca.holdings.coverage import Coverage
from hyfdca.holdings.layout import Layout
from hyfdca.stages.alignment.comparison import Disagreements
from hyfdca.stages.alignment.label_rows import Blanks
from hyfdca.stages.alignment.messages import AlignmentSettings, Refused
from hyfdca.stages.alignment.similar_ids import SimilarIds
from hyfdca.stages.alignment.target_comparison import ComparedTargets

_MOST_NAMED = 3  # organisations, or pairs of them, in one sentence

_REFUSALS = {
    "repeated": "{rows} with the ID of another row; keep one row per ID",
    "no numbers": (
        "{rows} with a label that is not a number, or is beyond 1e50; correct them "
        "(set decimal if it is a comma), name another "
        'label_column, or choose a loss for classes such as "logistic"'
    ),
    "signs": (
        "{rows} with a label that is a number with signs or separators, such as "
        "$4,738.44; write them as in 4738.44 (set decimal if it is a comma)"
    ),
    "dates": (
        "{rows} with a date as the label; name a label_column of numbers, such as the "
        "days between two dates, or of classes"
    ),
    "classes": (
        "{count} classes, more than {limit}; choose a loss for numbers such as "
        '"squared", name a positive_label or raise max_classes'
    ),
    "fractions": (
        "{rows} whose label is a fraction, but the loss is for classes; choose a "
        'loss for numbers such as "squared", name a positive_label or set max_classes '
        "if these are classes"
    ),
    "blank words": (
        '{rows} with a label such as "-" or "unknown" beside two classes or more; '
        "leave these labels blank, or set max_classes if they are a class"
    ),
    "spelling": (
        "{rows} with a label that differs from the positive_label only in capitals or "
        "blanks; write it alike in all tables"
    ),
    "long names": (
        f"{{names}} of features, classes or levels with no characters or more than "
        f"{LONGEST_NAME}; change them"
    ),
}


class AlignmentError(ValueError):
    """Tables that do not fit together; the message is one plain sentence."""


def refusal(name: str, refused: Refused, settings: AlignmentSettings) -> AlignmentError:
    """Return the error about what a client reports of its own table."""
    n = refused.count
    reason = _REFUSALS[refused.reason].format(
        count=n,
        rows=counted(n, "row"),
        names=counted(n, "name"),
        limit=settings.n_classes_allowed,
    )
    return AlignmentError(f"Organisation {name!r} has {reason}.")


def check_names(names: Sequence[str], features: Sequence[Sequence[str]]) -> None:
    """Refuse features of two clients whose names differ only in capitals or blanks."""
    met: dict[str, tuple[str, str]] = {}  # by bare name: a feature, and who has it
    for name, own in zip(names, features, strict=True):
        for feature in own:
            other, holder = met.setdefault(bare_name(feature), (feature, name))
            if other != feature:
                raise AlignmentError(
                    f"The columns {other!r} of {holder!r} and {feature!r} of {name!r} "
                    "differ only in capitals or blanks; rename one of them, or leave "
                    "one out with ignore."
                )


def check_labelled(
    names: Sequence[str], rows: Sequence[IntArray], is_labelled: BoolArray
) -> None:
    """Refuse clients none of whose rows has a label at any client.

    Parameters
    ----------
    rows : sequence of arrays
        Each client's rows, before any is left out.
    """
    if not is_labelled.any():
        raise AlignmentError(
            f"None of the {len(is_labelled)} rows has a label and a weight above 0 at "
            "any organisation; fill the label_column where label is not false."
        )
    for name, own in zip(names, rows, strict=True):
        if len(own) and not is_labelled[own].any():
            raise AlignmentError(
                f"None of the {len(own)} rows of organisation {name!r} has a label and "
                "a weight above 0 at any organisation; make its IDs like those of the "
                "others, fill its label_column or leave it out of the study."
            )


def check_labels_visible(
    names: Sequence[str], blanks: Blanks, settings: AlignmentSettings
) -> None:
    """Refuse labels that a client lacks and others have, unless it may learn them."""
    if settings.targets.labels_visible or not blanks:
        return
    parts = [
        f"{counted(len(own), 'row')} of {name!r}"
        for name, own in zip(names, blanks.lacking, strict=True)
        if len(own)
    ]
    raise AlignmentError(
        f"The label_column is blank in {listed_names(parts)} whose labels others have; "
        "set labels_visible_to_holders = true if all organisations agree that holders "
        "of a row learn its label, or fill these labels."
    )


def check_covered(
    names: Sequence[str], coverage: Coverage, features: Sequence[str]
) -> None:
    """Refuse cells that no client holds; name the largest rectangle of them."""
    if not coverage.n_uncovered:
        return
    sizes = np.where(coverage.is_held, 0, coverage.sizes)
    row, column = divmod(int(sizes.argmax()), sizes.shape[1])
    holders = [names[k] for k in np.flatnonzero(coverage.row_holders[row]).tolist()]
    n_columns = counted(int(coverage.columns[column]), "column")
    n_rows = counted(int(coverage.rows[row]), "row")
    such_as = features[int(coverage.columns_of(column)[0])]
    raise AlignmentError(
        f"No organisation holds {coverage.uncovered_share:.1%} of all cells "
        f"({coverage.n_uncovered:,} of {coverage.n_cells:,}), such as {n_columns} "
        f"like {such_as!r} of the {n_rows} that "
        f"{listed_names([repr(name) for name in holders])} alone "
        f"{'holds' if len(holders) == 1 else 'hold'}; {_twins(features)}"
        'set uncovered = "mean" to take numbers as the mean of their column and '
        "categories as their most frequent level, or "
        'uncovered = "zero" (not with scale = "standard"), or leave these rows or '
        "columns out."
    )


def _twins(features: Sequence[str]) -> str:
    """Return advice on two names that differ only in brackets, such as units."""
    if twins := first_twins(features, without_brackets):
        first, second = twins
        return f"name {first!r} and {second!r} alike if they are the same column, "
    return ""


def check_shared(names: Sequence[str], layout: Layout) -> None:
    """Refuse clients that share no ID with others and lack features of theirs.

    Clients that share IDs, directly or through others, belong together. Those that
    belong together must have all features; otherwise rows failed to match.
    """
    together = _together(layout)
    lacking = [(m, n) for m in together if (n := _n_lacking(layout, m))]
    if len(together) < 2 or not lacking:
        return
    members, n_lacking = min(lacking, key=lambda own: len(own[0]))  # the odd ones out
    n_features = layout.features.n_items
    remedy = (
        "correct their IDs or id_column, or set allow_unshared = true (the default is "
        "false) if they have no rows in common"
    )
    if all(len(own) == 1 for own in together):
        every = [repr(name) for name in names]
        raise AlignmentError(
            f"No two of the {len(names)} organisations {listed_names(every)} share any "
            f"of their {layout.samples.n_items} IDs, though they have different "
            f"features; {remedy}."
        )
    n_ids = np.unique(np.concatenate([layout.samples.items[k] for k in members])).size
    who = listed_names([repr(names[k]) for k in members])
    what = (
        f"{counted(n_ids, 'ID')} with the others and lack {n_lacking} of "
        f"{counted(n_features, 'feature')}"
    )
    if len(members) == 1:
        raise AlignmentError(
            f"Organisation {who} shares none of its "
            f"{what.replace('lack', 'lacks')}; {remedy}."
        )
    raise AlignmentError(f"Organisations {who} share none of their {what}; {remedy}.")


def check_similar_ids(names: Sequence[str], found: SimilarIds | None) -> None:
    """Refuse two clients whose IDs would match if they were written alike."""
    if found is None:
        return
    one, other = (names[client] for client in found.pair)
    how = "in how they are written"
    if found.reasons:
        how = f"only in {listed_names(found.reasons)}"
    more = f"{'about ' if found.is_estimate else ''}{found.n_similar} more"
    raise AlignmentError(
        f"Organisations {one!r} and {other!r} share {found.n_shared} of {found.n_rows} "
        f"rows, and {more} have IDs that differ {how}; write these IDs alike in "
        'both tables, or set similar_ids = "allow" (the default is "refuse") if they '
        "are of different rows."
    )


def differing_targets(
    names: Sequence[str],
    compared: ComparedTargets,
    settings: AlignmentSettings,
    rows: Sequence[IntArray],
) -> AlignmentError:
    """Return the error that labels, weights or offsets of clients' rows differ."""
    columns = settings.targets.names
    what = [
        f"{name}s ({key} {columns[key]!r})" if key in columns else f"{name}s"
        for name in compared.columns
        for key in [f"{name}_column"]
    ]
    exactly = (
        ""
        if settings.rounds_targets
        else f", raise cell_tolerance (now {settings.cell_tolerance:g}) if numbers are "
        "only rounded"
    )
    return AlignmentError(
        f"Organisations have different {listed_names(what)} for rows that they share: "
        f"{_pairs(names, compared.counts)}; correct them{exactly}, or write label = "
        "false below the name of an organisation whose labels are not to count"
        f"{_alike(compared.counts, rows)}."
    )


def differing_cells(
    names: Sequence[str],
    counts: Disagreements,
    columns: Sequence[str],
    tolerance: float | None,
    rows: Sequence[IntArray],
    *,
    may_be_blank: bool,
) -> AlignmentError:
    """Return the error that cells differ by more than a tolerance, in some columns.

    Parameters
    ----------
    tolerance : float or None
        None if all these columns are categories.
    rows : sequence of arrays
        Each client's rows.
    """
    is_text = tolerance is None
    first = ", capitals and blanks first" if is_text else ""
    wider = "" if is_text else f"raise cell_tolerance (relative, now {tolerance:g}), "
    ignored = json.dumps(columns[:1], ensure_ascii=False)
    blank = (
        'set blank_cells = "share" if some of them are blank and all organisations '
        "agree that a holder of such a cell learns its value, "
        if may_be_blank
        else ""
    )
    return AlignmentError(
        f"Organisations have different values in cells that they share: "
        f"{_pairs(names, counts)}, in {_columns(columns)}; correct them{first}, "
        f"{blank}{wider}write ignore = {ignored} below the name of the organisation "
        'that has them, or set disagreeing_cells = "first" to take the cell of the '
        "organisation that the study names first"
        f"{', blank or not' if may_be_blank else ''}{_alike(counts, rows)}."
    )


def blank_cells(name: str, n_cells: int, column: str) -> AlignmentError:
    """Return the error that cells of a client are blank and nobody else has them."""
    cells = counted(n_cells, "blank cell that", "blank cells that")
    return AlignmentError(
        f"Organisation {name!r} has {cells} no other organisation has a value of, the "
        f'first in column {column!r}; fill them or set missing = "mean" (the default '
        'is "refuse").'
    )


def _together(layout: Layout) -> list[list[int]]:
    """Return the clients that have rows, grouped by shared IDs."""
    n_clients, samples = layout.n_clients, layout.samples
    first = samples.first_holders([True] * n_clients)
    links = [np.unique(first[items]) for items in samples.items]
    starts = np.concatenate([[0], np.cumsum([len(own) for own in links])])
    every = np.concatenate([*links, np.empty(0, np.int64)])
    graph = sp.csr_array(
        (np.ones(len(every)), every, starts), shape=(n_clients, n_clients)
    )
    component = connected_components(graph, directed=False)[1].tolist()
    found: dict[int, list[int]] = {}
    for client, number in enumerate(component):
        if len(samples.items[client]):
            found.setdefault(number, []).append(client)
    return list(found.values())


def _n_lacking(layout: Layout, members: Iterable[int]) -> int:
    """Return how many features some clients lack between them."""
    is_held = np.zeros(layout.features.n_items, dtype=bool)
    for client in members:
        is_held[layout.features.items[client]] = True
    return int(np.sum(~is_held))


def _pairs(names: Sequence[str], counts: Disagreements) -> str:
    most = sorted(counts.items(), key=lambda item: -item[1])
    parts = [
        f"{names[a]!r} and {names[b]!r} in {counted(n, 'row')}" for (a, b), n in most
    ]
    return listed_names(parts, ", ")


def _alike(counts: Disagreements, rows: Sequence[IntArray]) -> str:
    """Return advice on spelling, if pairs differ in all rows that they share."""
    n_shared = [len(np.intersect1d(rows[a], rows[b])) for a, b in counts]
    if min(n_shared) < 2 or n_shared != list(counts.values()):
        return ""
    return (
        f", or, as none of the {max(n_shared):,} rows that they share agrees, write "
        "the values in the same way and unit"
    )


def _columns(names: Sequence[str]) -> str:
    noun = "column" if len(names) == 1 else "columns"
    return f"{noun} {listed_names([repr(name) for name in names])}"


def listed_names(parts: Sequence[str], last: str = " and ") -> str:
    """Return a list as text; the end of a long one is a count."""
    if len(parts) > _MOST_NAMED:
        n_more = len(parts) - _MOST_NAMED
        parts = [*parts[:_MOST_NAMED], f"{n_more} more"]
    return last.join([", ".join(parts[:-1]), parts[-1]]) if parts[1:] else parts[0]

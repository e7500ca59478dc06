"""What organisations can find out about each other's cells, in sentences.

An organisation with labels receives margins of its rows, and the others' part of them
is linear in the others' cells. Once there are as many margins per row as the others
have columns, as many known rows are enough to compute all their cells, and sparse
columns need no known row (docs/threat-model.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from hyfdca.errors import counted
from hyfdca.federation.server import Federation
from hyfdca.holdings.exposure import Exposure, exposures
from hyfdca.holdings.layout import Layout
from hyfdca.maths.losses import Loss
from hyfdca.stages.evaluation.scores import HeldOut

_MOST_GROUPS = 3  # of an organisation's rows, the largest
_MOST_LINES = 10
_PER_L2 = 6  # least number of points that fits at one l2 usually need
_SPARSE = (
    "No known row is needed for features of 0 and 1 among these, nor for features that "
    "are mostly 0: linear programmes find most of them. hyfdca audit measures it, and "
    "docs/threat-model.md explains it."
)


def exposure_notes(
    names: Sequence[str], layout: Layout, n_margins: Sequence[int], loss: Loss
) -> tuple[str, ...]:
    """Return a sentence about each organisation that receives margins.

    Parameters
    ----------
    n_margins : sequence of int
        The most margins of a row that each client received.
    """
    found = [one for one in exposures(layout) if _matters(one, n_margins)]
    lines = [
        _line(names, list(own), n_margins[client])
        for client, own in groupby(found, key=lambda one: one.client)
    ]
    lines = _shortened(lines)
    if any(one.n_columns <= n_margins[one.client] for one in found):
        lines.append(_SPARSE)
    return (*(label_notes(names, layout, loss) if any(n_margins) else ()), *lines)


def label_notes(names: Sequence[str], layout: Layout, loss: Loss) -> tuple[str, ...]:
    """Return a sentence about each organisation that learns labels it does not have.

    It needs the duals of its rows for its share, and duals depend on labels: the sign
    of a dual is the class. For numbers, a dual is the residual where the loss is
    smooth, and elsewhere has the sign of the residual.
    """
    without = [client for client, has in enumerate(layout.labelled) if not has]
    learnt = [(names[c], len(layout.samples.items[c])) for c in without]
    lines = [
        f"{name} learns {_shown_by_duals(loss, counted(n_rows, 'row'))}."
        for name, n_rows in learnt
        if n_rows
    ]
    return tuple(_shortened(lines))


def _shown_by_duals(loss: Loss, rows: str) -> str:
    if loss.task == "classification":
        return f"the labels of {rows}, from the signs of duals"
    if not loss.shape.smoothing:
        return (
            f"on which side of the model's predictions the labels of {rows} are, from "
            "the signs of duals"
        )
    bound = "" if math.isinf(loss.lipschitz) else ", up to the bound of the loss"
    return (
        f"how far the labels of {rows} are from the model's predictions{bound}, from "
        "duals; a dual and the prediction of its row give the label"
    )


def held_out_notes(
    names: Sequence[str], layout: Layout, held_out: HeldOut, n_scores: Sequence[int]
) -> tuple[str, ...]:
    """Return a sentence about each organisation that receives scores.

    Parameters
    ----------
    layout : Layout
        The layout of the training.
    n_scores : sequence of int
        The most scores of a row set aside that each client received.
    """
    lines = [
        _line(names, own, n_scores[client], "score", "row set aside")
        for client, own in _scored(layout, held_out, n_scores)
    ]
    return tuple(_shortened(lines))


def _shortened(lines: list[str]) -> list[str]:
    """Return the first lines, and how many more there are."""
    n_more = len(lines[_MOST_LINES:])
    if not n_more:
        return lines
    others = counted(n_more, "more organisation")
    return [*lines[:_MOST_LINES], f"The same kind of line holds for {others}."]


def curves_note(
    names: Sequence[str], layout: Layout, held_out: HeldOut, n_scores: int
) -> str | None:
    """Return what organisations will be able to find out from curves, if anything.

    Parameters
    ----------
    n_scores : int
        Scores of a row set aside, if training takes all of its rounds.
    """
    counts = [n_scores] * len(names)
    able = [
        names[client]
        for client, own in _scored(layout, held_out, counts)
        if any(one.n_columns <= n_scores for one in own)
    ]
    if not able:
        return None
    return (
        f"Curves tell up to {n_scores:,} scores of each row set aside to the "
        f"organisation that has its label. So {', '.join(able)} can compute "
        "features of others in shared rows set aside from known rows; raise curves, or "
        "lower max_rounds, if that matters, and see docs/threat-model.md."
    )


def _scored(
    layout: Layout, held_out: HeldOut, n_scores: Sequence[int]
) -> Iterator[tuple[int, list[Exposure]]]:
    """Yield the rows set aside whose scores a client gets, by other holders."""
    for client in held_out.receivers:
        own = exposures(replace(layout, samples=held_out.rows_of(client)))
        shared = [one for one in own if one.client == client]
        if shared := [one for one in shared if _matters(one, n_scores)]:
            yield client, shared


def path_note(names: Sequence[str], federation: Federation) -> str | None:
    """Return what organisations will be able to find out if l2 is chosen, if anything.

    The number of margins of a path is not known beforehand; it is rarely lower than
    this.
    """
    problem = federation.problem
    if problem.path is None:
        return None
    n_l2s = len(problem.path.l2s)
    n_margins = _PER_L2 * n_l2s * problem.n_outputs
    counts = [n_margins] * len(names)
    found = [one for one in exposures(federation.layout) if _matters(one, counts)]
    able = {one.client for one in found if one.n_columns <= n_margins}
    if not able:
        return None
    who = ", ".join(names[client] for client in sorted(able))
    return (
        f"Choosing l2 among {n_l2s} takes {n_margins:,} margins per row or more. So "
        f"{who} can compute features of others in shared rows from known rows; give "
        "fewer l2 if that matters, and see docs/threat-model.md."
    )


def _matters(one: Exposure, n_margins: Sequence[int]) -> bool:
    """Return whether there are margins, unknown cells, and rows beyond the known."""
    is_told = n_margins[one.client] > 0 and one.has_unknown
    return is_told and one.n_columns < one.n_rows


def _line(
    names: Sequence[str],
    own: Sequence[Exposure],
    n_margins: int,
    what: str = "margin",
    of: str = "row",
) -> str:
    parts = [_group(names, one, n_margins) for one in own[:_MOST_GROUPS]]
    if n_more := len(own[_MOST_GROUPS:]):
        parts.append(f"and {counted(n_more, 'more group')} of rows")
    margins = f"up to {counted(n_margins, what)} per {of}"
    return f"{names[own[0].client]} ({margins}): {'; '.join(parts)}."


def _group(names: Sequence[str], one: Exposure, n_margins: int) -> str:
    features = counted(one.n_columns, "feature")  # levels of categories too
    whose = ", ".join(names[other] for other in one.others)
    # A cell that several have counts for the first of them, also if it has it too.
    own = f" ({one.n_own:,} of which it has itself)" if one.n_own else ""
    where = f"{whose}{own} in {one.n_rows:,} shared rows"
    if n_margins < one.n_columns:
        return f"known rows give estimates of the {features} of {where}"
    known = counted(one.n_columns, "known row")
    return f"with {known} it can compute the {features} of {where}"

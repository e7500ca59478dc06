"""A round of HyFDCA over all clients, compiled: Algorithms 1, 2, 4 and 5."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hyfdca.maths.compiling import jit
from hyfdca.maths.draws import draw_distinct
from hyfdca.maths.losses import dual_step
from hyfdca.training.bulk.counts import WORK

NOT_MISSED, LAST = -2, -1  # in the lists of rows that absent clients missed
_DUAL_GRID = 2.0**50
_AHEAD = 64  # samples whose values are fetched together
_LINE = 64  # bytes that memory transfers at a time

_compiled = jit(nogil=True, error_model="numpy")


class Table(NamedTuple):
    """The rows, their samples and clients, and each sample's label and curvature."""

    indptr: Any
    indices: Any
    data: Any
    row_samples: Any
    row_clients: Any
    sample_starts: Any
    client_starts: Any
    client_rows: Any
    labels: Any
    curvatures: Any


class Rule(NamedTuple):
    """The settings as numbers.

    ``divides_by_all`` counts absent holders too. With ``refreshes_all`` those present
    send margins of all their samples. With ``recalls`` these are computed when a sample
    is drawn, with the weights that its holder had when it was last present.
    ``factor`` multiplies curvatures; 0 stands for the number of samples drawn.
    """

    loss: tuple[Any, ...]
    l2_scale: float
    divides_by_all: bool
    refreshes_all: bool
    recalls: bool
    factor: float


class State(NamedTuple):
    """What changes from round to round.

    By sample: ``duals``. By feature: ``weights``, of what clients have shown. By row:
    the duals as clients ``known`` them, the ``margins`` they sent last, and in
    ``missed_next`` the lists of rows whose dual an absent client has not received, of
    which ``missed_first`` has the heads by client. ``taken`` and ``touched`` are the
    last rounds in which a row, and a sample, was drawn, ``places`` where the sample was
    among those drawn. By client: how many duals it had ``missed`` when it came, the
    round in which it was ``last_present`` (0: none yet), and the ``counts`` of a round,
    of which kernels fill in the work. By round: ``past_weights``, if they are recalled.
    """

    duals: Any
    weights: Any
    known: Any
    margins: Any
    missed_first: Any
    missed_next: Any
    taken: Any
    touched: Any
    places: Any
    missed: Any
    last_present: Any
    counts: Any
    past_weights: Any


class Present(NamedTuple):
    """The participants of a round, which of them were away, and how much each draws."""

    number: int
    key: Any
    participants: Any
    returning: Any
    is_present: Any
    steps: Any
    aggregation: float


class Draw(NamedTuple):
    """What is drawn in a round.

    ``rows`` are those drawn, ``samples`` theirs without repetition; ``touched`` counts
    how many of these samples each client holds, present or not.
    """

    rows: Any
    samples: Any
    touched: Any


# Loops use arrays that were taken out of tuples before: a tuple that is passed on
# inside a loop counts references to all of its arrays each time.


@_compiled
def ascent_round(table, rule, present, draw, state):  # type: ignore[no-untyped-def]
    """Run one round; changes ``state``. The return value means nothing."""
    for client in present.participants:
        state.missed[client] = state.counts[client, :] = 0
    _catch_up(table, rule, present, state)
    fetched = _inner_products(table, rule, present, state, draw.samples)
    changes = _dual_changes(table, rule, present, state, draw.samples)
    duals, places, row_samples = state.duals, state.places, table.row_samples
    for row in draw.rows:  # all that draw a sample would change it in the same way
        sample = row_samples[row]
        duals[sample] += changes[places[sample]]
    _announce(table, rule, present, state, draw.samples)
    return fetched  # otherwise the compiler would remove the fetching


@_compiled
def _catch_up(table, rule, present, state):  # type: ignore[no-untyped-def]
    """Give clients that were away the duals that they missed."""
    indptr, indices, data, weights = _shares(table, state)
    duals, known, row_samples = state.duals, state.known, table.row_samples
    missed, missed_first, missed_next = _lists(state)
    counts, l2_scale = state.counts, rule.l2_scale
    for client in present.returning:
        row = missed_first[client]
        while row != LAST:
            change = _heard(duals, known, row_samples, row) / l2_scale
            if change:
                first, last = indptr[row], indptr[row + 1]
                _add_row(indices, data, weights, first, last, change)
                counts[client, WORK] += last - first
            missed[client] += 1
            following = missed_next[row]
            missed_next[row] = NOT_MISSED
            row = following
        missed_first[client] = LAST


def drawn(table: Table, present: Present, state: State) -> Draw:
    """Draw for all present clients, after the previous round.

    The arrays are made here: numba crashes if Ctrl-C is pressed while a compiled
    function returns a tuple of arrays.
    """
    n_drawn = int(present.steps[present.participants].sum())
    rows, samples = np.empty(n_drawn, np.int64), np.empty(n_drawn, np.int64)
    touched = np.zeros(table.client_starts.size - 1, np.int64)
    samples = samples[: _draw(table, present, state, rows, samples)]
    samples.sort()  # memory is read faster in order
    _place(table, state, samples, touched)
    return Draw(rows, samples, touched)


@_compiled
def _draw(table, present, state, rows, samples):  # type: ignore[no-untyped-def]
    """Fill ``rows`` and ``samples``; return how many samples there are."""
    n_drawn = n_touched = 0
    starts, steps, taken = table.client_starts, present.steps, state.taken
    for client in present.participants:
        first, last = starts[client], starts[client + 1]
        own = rows[n_drawn : n_drawn + steps[client]]
        draw_distinct(
            present.key, client, last - first, taken[first:last], present.number, own
        )
        own += first
        n_drawn += own.size
    # One array after the other: cells that are far apart are then read side by side.
    for j in range(n_drawn):
        rows[j] = table.client_rows[rows[j]]
    for j in range(n_drawn):
        samples[j] = table.row_samples[rows[j]]
    for sample in samples:
        if state.touched[sample] != present.number:
            state.touched[sample] = present.number
            samples[n_touched] = sample
            n_touched += 1
    return n_touched


@_compiled
def _place(table, state, samples, held):  # type: ignore[no-untyped-def]
    """Note where each sample is among those drawn, and how many each client holds."""
    starts, row_clients = table.sample_starts, table.row_clients
    for j in range(samples.size):
        sample = samples[j]
        state.places[sample] = j
        for row in range(starts[sample], starts[sample + 1]):
            held[row_clients[row]] += 1


@_compiled
def _inner_products(table, rule, present, state, touched):  # type: ignore[no-untyped-def]
    """SecureInnerProduct: those present send margins of the samples drawn, or all."""
    fetched = 0.0
    if rule.refreshes_all:
        _refresh(table, present, state)
        return fetched
    indptr, indices, data, weights = _shares(table, state)
    margins, counts, last_present = state.margins, state.counts, state.last_present
    row_clients, is_present = table.row_clients, present.is_present
    starts, recalls, past_weights = (
        table.sample_starts,
        rule.recalls,
        state.past_weights,
    )
    for j in range(touched.size):
        sample = touched[j]
        if j % _AHEAD == 0:
            soon = touched[j : j + _AHEAD]
            fetched += _fetch(indptr, indices, data, starts, soon)
        for row in range(starts[sample], starts[sample + 1]):
            client = row_clients[row]
            first, last = indptr[row], indptr[row + 1]
            if is_present[client]:
                margins[row] = _row_product(indices, data, weights, first, last)
                counts[client, WORK] += last - first
            elif recalls and last_present[client]:
                then = past_weights[last_present[client]]
                margins[row] = _row_product(indices, data, then, first, last)
    if recalls:
        past_weights[present.number] = weights
        last_present[present.participants] = present.number
    return fetched


@_compiled
def _refresh(table, present, state):  # type: ignore[no-untyped-def]
    """Let those present send the margins of all their samples."""
    indptr, indices, data, weights = _shares(table, state)
    margins, counts = state.margins, state.counts
    row_clients, is_present = table.row_clients, present.is_present
    for row in range(row_clients.size):  # memory is read faster in order
        client = row_clients[row]
        if is_present[client]:
            first, last = indptr[row], indptr[row + 1]
            margins[row] = _row_product(indices, data, weights, first, last)
            counts[client, WORK] += last - first


@_compiled
def _dual_changes(table, rule, present, state, touched):  # type: ignore[no-untyped-def]
    """LocalDualMethod: return the change that a draw of each sample makes."""
    changes = np.empty(touched.size)
    factor = rule.factor if rule.factor else float(touched.size)
    for j in range(touched.size):
        sample = touched[j]
        margin, n_holders = 0.0, 0
        for row in range(table.sample_starts[sample], table.sample_starts[sample + 1]):
            margin += state.margins[row]
            is_present = present.is_present[table.row_clients[row]]
            n_holders += rule.divides_by_all or is_present
        curvature = factor * table.curvatures[sample]
        change = dual_step(
            state.duals[sample], margin, table.labels[sample], curvature, *rule.loss
        )
        change *= present.aggregation / n_holders
        # Towards zero on a grid: sums are exact and stay in the domain of the loss.
        changes[j] = np.trunc(change * _DUAL_GRID) / _DUAL_GRID
    return changes


@_compiled
def _announce(table, rule, present, state, touched):  # type: ignore[no-untyped-def]
    """PrimalAggregation: present clients receive duals; for others they are noted."""
    indptr, indices, data, weights = _shares(table, state)
    duals, known, row_samples = state.duals, state.known, table.row_samples
    _, missed_first, missed_next = _lists(state)
    counts, l2_scale = state.counts, rule.l2_scale
    row_clients, is_present = table.row_clients, present.is_present
    starts = table.sample_starts
    for sample in touched:
        for row in range(starts[sample], starts[sample + 1]):
            client = row_clients[row]
            if is_present[client]:
                change = _heard(duals, known, row_samples, row) / l2_scale
                if change:
                    first, last = indptr[row], indptr[row + 1]
                    _add_row(indices, data, weights, first, last, change)
                    counts[client, WORK] += last - first
            elif missed_next[row] == NOT_MISSED:
                missed_next[row] = missed_first[client]
                missed_first[client] = row


@_compiled
def _shares(table, state):  # type: ignore[no-untyped-def]
    return table.indptr, table.indices, table.data, state.weights


@_compiled
def _lists(state):  # type: ignore[no-untyped-def]
    return state.missed, state.missed_first, state.missed_next


@_compiled
def _fetch(indptr, indices, data, starts, samples):  # type: ignore[no-untyped-def]
    """Fetch the values of samples in parallel; return a number that depends on all.

    Sequential products would wait for memory at each sample.
    """
    total = 0.0
    for sample in samples:
        first, last = indptr[starts[sample]], indptr[starts[sample + 1]]
        for p in range(first, last, _LINE // data.itemsize):
            total += data[p]
        for p in range(first, last, _LINE // indices.itemsize):
            total += indices[p]
    return total


@_compiled
def _row_product(indices, data, weights, first, last):  # type: ignore[no-untyped-def]
    total = 0.0
    for p in range(first, last):
        total += data[p] * weights[indices[p]]
    return total


@_compiled
def _add_row(indices, data, weights, first, last, change):  # type: ignore[no-untyped-def]
    for p in range(first, last):
        weights[indices[p]] += change * data[p]


@_compiled
def _heard(duals, known, row_samples, row):  # type: ignore[no-untyped-def]
    """Update a client's dual; return its change."""
    dual = duals[row_samples[row]]
    change = dual - known[row]
    known[row] = dual
    return change


@_compiled
def read_all(table, weights):  # type: ignore[no-untyped-def]
    """Return Σ x_row·w: reads every stored value once, as refreshed margins do."""
    indptr, indices, data = table.indptr, table.indices, table.data
    total = 0.0
    for row in range(indptr.size - 1):
        total += _row_product(indices, data, weights, indptr[row], indptr[row + 1])
    return total

"""A round of HyFDCA over all clients, compiled: Algorithms 1, 2, 4 and 5."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from hyfdca.maths.compiling import CACHE
from hyfdca.maths.draws import draw_distinct
from hyfdca.maths.losses import dual_step
from hyfdca.training.bulk.counts import WORK

NOT_MISSED, LAST = -2, -1  # in the lists of rows that absent clients missed
_DUAL_GRID = 2.0**50

_compiled = njit(cache=CACHE, nogil=True, error_model="numpy")
_inlined = njit(cache=CACHE, nogil=True, error_model="numpy", inline="always")


class Table(NamedTuple):
    """The rows, what they belong to, and each sample's label and curvature."""

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
    """What the settings say, as numbers.

    ``divides_by_all`` counts absent holders too. ``factor`` multiplies curvatures; 0
    stands for the number of samples drawn.
    """

    loss: tuple[Any, ...]
    l2_scale: float
    divides_by_all: bool
    refreshes_all: bool
    factor: float


class State(NamedTuple):
    """What changes from round to round.

    By sample: ``duals``. By feature: ``weights``, of what clients have shown. By row:
    the duals as clients ``known`` them, the ``margins`` they sent last, and in
    ``missed_next`` the lists of rows whose dual an absent client has not heard of, of
    which ``missed_first`` has the heads by client. ``taken`` and ``touched`` are the
    last rounds in which a row, and a sample, was drawn, ``places`` where the sample was
    among those drawn. By client: how many duals it had ``missed`` when it came, and the
    ``counts`` of a round, of which kernels fill in the work.
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
    counts: Any


class Present(NamedTuple):
    """Who takes part in a round, who of them was away, and how much each draws."""

    number: int
    key: Any
    participants: Any
    returning: Any
    is_present: Any
    steps: Any
    aggregation: float


class Draw(NamedTuple):
    """What is drawn in a round.

    ``rows`` are those drawn, ``samples`` theirs, each once; ``touched`` counts for each
    client, present or not, how many of these samples it holds.
    """

    rows: Any
    samples: Any
    touched: Any


@_compiled
def ascent_round(table, rule, present, draw, state):  # type: ignore[no-untyped-def]
    """Run one round; changes ``state``."""
    for client in present.participants:
        state.missed[client] = state.counts[client, :] = 0
    for client in present.returning:
        _catch_up(table, rule, state, client)
    _inner_products(table, rule, present, state, draw.samples)
    changes = _dual_changes(table, rule, present, state, draw.samples)
    for row in draw.rows:  # all who draw a sample would change it in the same way
        sample = table.row_samples[row]
        state.duals[sample] += changes[state.places[sample]]
    for sample in draw.samples:
        _announce(table, rule, present, state, sample)


@_compiled
def _catch_up(table, rule, state, client):  # type: ignore[no-untyped-def]
    """Have a client that was away hear of the duals it missed."""
    row = state.missed_first[client]
    while row != LAST:
        _hear(table, rule, state, row)
        state.missed[client] += 1
        following = state.missed_next[row]
        state.missed_next[row] = NOT_MISSED
        row = following
    state.missed_first[client] = LAST


@_compiled
def drawn(table, present, state):  # type: ignore[no-untyped-def]
    """Draw for all who are present, when the round before is over."""
    n_drawn, n_touched = present.steps[present.participants].sum(), 0
    rows = np.empty(n_drawn, np.int64)
    touched = np.empty(n_drawn, np.int64)
    n_drawn = 0
    for client in present.participants:
        first, last = table.client_starts[client], table.client_starts[client + 1]
        own = rows[n_drawn : n_drawn + present.steps[client]]
        taken = state.taken[first:last]
        draw_distinct(present.key, client, last - first, taken, present.number, own)
        n_drawn += own.size
        for j in range(own.size):
            own[j] = table.client_rows[first + own[j]]
            sample = table.row_samples[own[j]]
            if state.touched[sample] != present.number:
                state.touched[sample] = present.number
                touched[n_touched] = sample
                n_touched += 1
    touched = np.sort(touched[:n_touched])  # memory is read faster in its order
    for j in range(n_touched):
        state.places[touched[j]] = j
    return Draw(rows, touched, _held(table, touched))


@_compiled
def _held(table, samples):  # type: ignore[no-untyped-def]
    """Count how many of some samples each client holds."""
    counts = np.zeros(table.client_starts.size - 1, np.int64)
    for sample in samples:
        for row in range(table.sample_starts[sample], table.sample_starts[sample + 1]):
            counts[table.row_clients[row]] += 1
    return counts


@_compiled
def _inner_products(table, rule, present, state, touched):  # type: ignore[no-untyped-def]
    """SecureInnerProduct: those present send margins of the samples drawn, or all."""
    if rule.refreshes_all:
        for client in present.participants:
            first, last = table.client_starts[client], table.client_starts[client + 1]
            for row in table.client_rows[first:last]:
                _send_margin(table, state, row)
        return
    for sample in touched:
        for row in range(table.sample_starts[sample], table.sample_starts[sample + 1]):
            if present.is_present[table.row_clients[row]]:
                _send_margin(table, state, row)


@_compiled
def _dual_changes(table, rule, present, state, touched):  # type: ignore[no-untyped-def]
    """LocalDualMethod: return the change that whoever draws a sample makes."""
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


@_inlined
def _announce(table, rule, present, state, sample):  # type: ignore[no-untyped-def]
    """PrimalAggregation: those present hear of a dual, for others it is noted."""
    for row in range(table.sample_starts[sample], table.sample_starts[sample + 1]):
        client = table.row_clients[row]
        if present.is_present[client]:
            _hear(table, rule, state, row)
        elif state.missed_next[row] == NOT_MISSED:
            state.missed_next[row] = state.missed_first[client]
            state.missed_first[client] = row


@_inlined
def _send_margin(table, state, row):  # type: ignore[no-untyped-def]
    first, last = table.indptr[row], table.indptr[row + 1]
    total = 0.0
    for p in range(first, last):
        total += table.data[p] * state.weights[table.indices[p]]
    state.margins[row] = total
    state.counts[table.row_clients[row], WORK] += last - first


@_inlined
def _hear(table, rule, state, row):  # type: ignore[no-untyped-def]
    """Have a client know a dual and show it in its share of the weights."""
    first, last = table.indptr[row], table.indptr[row + 1]
    dual = state.duals[table.row_samples[row]]
    change = (dual - state.known[row]) / rule.l2_scale
    state.known[row] = dual
    for p in range(first, last):
        state.weights[table.indices[p]] += change * table.data[p]
    state.counts[table.row_clients[row], WORK] += last - first

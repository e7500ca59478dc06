"""The messages of HyFDCA's simulated rounds, by formula.

Recipients are those of the server, ``algorithms/hyfdca/hyfdca.py``. Sealed and
opened are the numbers by sample that a client encrypts and decrypts in these messages,
as in the paper: weights are open to the server. Where clients are absent and samples
are split, the count is the paper's: duals that a client missed, margins of the samples
that anybody draws, margins at those who draw, changes of duals, and the duals that
changed. It differs from the paper's where messages save something:

- all are present: the margins of a round travel at the end of the round before and
  count there; those of the first round are zero and not sent;
- all are present and draw everything: one holder changes a sample, not each of them;
- each sample is at one client: nobody needs the margins of others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hyfdca.algorithms.hyfdca.messages import (
    MarginsRequest,
    SharesRequest,
    StepRequest,
    WeightsNotice,
)
from hyfdca.algorithms.hyfdca.settings import HyfdcaSettings
from hyfdca.arrays import IntArray
from hyfdca.runtime.driver import Traffic
from hyfdca.training.bulk.counts import OPENED, SEALED, SEALED_DRAWN
from hyfdca.training.bulk.message_sizes import (
    GRID,
    PART,
    add_exchange,
    compiled,
    envelope_size,
    indices_size,
    part_size,
    sum_size,
    traffic_of,
)
from hyfdca.training.bulk.stacked import StackedBlocks

_OF_WEIGHTS, _OF_MARGINS = range(2)  # sums over holders, which are empty at first

_SHARES = envelope_size(SharesRequest([], None, GRID))
_MARGINS = envelope_size(MarginsRequest(None, None, GRID))
_STEP = envelope_size(StepRequest(None, None, None, None, False, 1.0, 1.0, None, GRID))
_WEIGHTS = envelope_size(WeightsNotice([]))


class _DualRule(NamedTuple):
    """What all rounds have in common.

    By client: how many samples it holds and draws, and the sizes of its ``weights`` in
    a message, of a reply with its ``share``, of a ``step`` request without margins and
    weights, of the ``margins`` in it, and of the reply with ``changes``. Then the
    envelopes. Where ``draws_all`` every client is asked about all of its samples.
    """

    n_held: Any
    n_drawn: Any
    weights: Any
    share: Any
    step: Any
    margins: Any
    changes: Any
    shares_envelope: int
    margins_envelope: int
    notice_envelope: int
    part_envelope: int
    is_complete: bool
    is_horizontal: bool
    draws_all: bool
    refreshes_all: bool


class _DualState(NamedTuple):
    """The clients that have the present weights, and the sums that exist."""

    is_informed: Any
    is_there: Any


class DualTraffic:
    """The messages of HyFDCA's rounds.

    Parameters
    ----------
    steps : array (n_clients,)
        How many samples each client draws.
    is_complete : bool
        Whether every client takes part in every round.
    """

    def __init__(
        self,
        blocks: StackedBlocks,
        settings: HyfdcaSettings,
        steps: IntArray,
        is_complete: bool,
    ) -> None:
        n_held, n_features = blocks.n_held, blocks.n_features_held
        draws_all = is_complete and np.array_equal(steps, n_held)
        drawn = _designated(blocks) if draws_all else steps
        step = _STEP + indices_size(drawn) * (drawn < n_held)
        if not settings.divides_by_all(is_complete):
            step += indices_size(drawn)
        self._rule = _DualRule(
            n_held,
            drawn,
            weights=sum_size(n_features),
            share=part_size(PART, n_features),
            step=step,
            margins=sum_size(drawn),
            changes=part_size(PART, drawn),
            shares_envelope=_SHARES,
            margins_envelope=_MARGINS,
            notice_envelope=_WEIGHTS,
            part_envelope=PART,
            is_complete=is_complete,
            is_horizontal=blocks.layout.is_horizontal,
            draws_all=draws_all,
            refreshes_all=draws_all or settings.refreshes_all(is_complete),
        )
        self._state = _DualState(
            np.zeros(blocks.n_clients, np.bool_), np.zeros(2, np.bool_)
        )

    def round(
        self,
        participants: IntArray,
        missed: IntArray,
        touched: IntArray,
        upcoming: IntArray,
        counts: IntArray,
    ) -> Traffic:
        """Return the traffic of the next round; adds to ``counts``.

        Parameters
        ----------
        participants : array (clients,)
        missed : array (n_clients,)
            How many duals each participant has missed when it comes.
        touched, upcoming : array (n_clients,)
            How many of each client's samples somebody draws in this round and in the
            next, whose draws matter only where participation is complete.
        counts : array (n_clients, 4)
        """
        rows = (missed, touched, upcoming)
        return traffic_of(
            _dual_round(self._rule, self._state, participants, rows, counts)
        )


def _designated(blocks: StackedBlocks) -> IntArray:
    """Return how many samples each client changes where one client changes each."""
    return np.bincount(blocks.layout.sample_designees, minlength=blocks.n_clients)


# Loops use arrays that were taken out of tuples before: a tuple that is passed on or
# read inside counts references to all of its arrays each time, eight times as slow.


@compiled
def _dual_round(rule, state, participants, rows, counts):  # type: ignore[no-untyped-def]
    missed, touched, upcoming = rows
    cost = np.zeros(3, np.int64)
    if not rule.is_complete:
        _shares(rule, state, participants, missed, counts, cost)
        _margins(rule, state, participants, touched, counts, cost)
    _steps(rule, state, participants, counts, cost)
    _shares(rule, state, participants, touched, counts, cost)
    if rule.is_complete:
        _margins(rule, state, participants, upcoming, counts, cost)
    else:
        _notices(rule, state, participants, cost)
    return cost


@compiled
def _shares(rule, state, clients, rows, counts, cost):  # type: ignore[no-untyped-def]
    """PrimalAggregation: duals of some rows down, shares up."""
    share, down, up = rule.share, 0, 0
    for client in clients:
        n_rows = rows[client]
        if n_rows or rule.draws_all:
            down += rule.shares_envelope + sum_size(n_rows)
            if not rule.draws_all:
                down += indices_size(n_rows)
            up += share[client]
            counts[client, OPENED] += n_rows
    if down:
        state.is_informed[:] = False
        state.is_there[_OF_WEIGHTS] = True
    add_exchange(cost, 2, down, up)


@compiled
def _margins(rule, state, clients, rows, counts, cost):  # type: ignore[no-untyped-def]
    """SecureInnerProduct: weights down, margins of some or all rows up."""
    if rule.is_horizontal:
        return
    drawn, rows = rows, rule.n_held if rule.refreshes_all else rows
    weights, is_informed, down, up = _weights(rule, state), state.is_informed, 0, 0
    for client in clients:
        n_rows = rows[client]
        counts[client, SEALED_DRAWN] += drawn[client]
        if n_rows or rule.refreshes_all:
            down += rule.margins_envelope
            if not is_informed[client]:
                down += weights[client]
            if not rule.refreshes_all:
                down += indices_size(n_rows)
            up += part_size(rule.part_envelope, n_rows)
            counts[client, SEALED] += n_rows
            is_informed[client] = True
    if down:
        state.is_there[_OF_MARGINS] = True
    add_exchange(cost, 2, down, up)


@compiled
def _steps(rule, state, clients, counts, cost):  # type: ignore[no-untyped-def]
    """LocalDualMethod: margins of drawn samples down, changes of duals up."""
    drawn, step, margins, changes = rule.n_drawn, rule.step, rule.margins, rule.changes
    weights, is_informed, down, up = _weights(rule, state), state.is_informed, 0, 0
    opens_margins = not rule.is_horizontal and state.is_there[_OF_MARGINS]
    for client in clients:
        if drawn[client]:
            down += step[client]
            if rule.is_horizontal and not is_informed[client]:
                down += weights[client]
            if opens_margins:
                down += margins[client]
                counts[client, OPENED] += drawn[client]
            up += changes[client]
            counts[client, SEALED] += drawn[client]
            counts[client, SEALED_DRAWN] += drawn[client]
    add_exchange(cost, 2, down, up)


@compiled
def _notices(rule, state, clients, cost):  # type: ignore[no-untyped-def]
    """Weights down to those who do not have them; no answer."""
    weights, is_informed, down = _weights(rule, state), state.is_informed, 0
    for client in clients:
        if not is_informed[client]:
            down += rule.notice_envelope + weights[client]
            is_informed[client] = True
    add_exchange(cost, 1, down, 0)


@compiled
def _weights(rule, state):  # type: ignore[no-untyped-def]
    """Return what the weights add to a message, by client: at first nothing."""
    return rule.weights if state.is_there[_OF_WEIGHTS] else np.zeros_like(rule.weights)

"""The messages of simulated rounds, by formula: bytes, and numbers that are sealed.

Bytes are those that ``runtime.driver.Traffic`` counts in a training by messages without
encryption, exactly. A message is

- an envelope: the header, and all fields but vectors and positions. It is measured here
  on a message without them;
- vectors of numbers, 8 bytes each, and positions or counts of holders, 4 bytes each;
- in front of each of these its length: 2 bytes, 3 from 2^8 bytes on, 5 from 2^16 on.

It is exact under two conditions. No number outgrows its grid: a run that diverges asks
for coarser grids, with more messages. And the bounds from which grids are chosen lie
between 2^-60 and 2^60, so that msgpack writes the exponent of a grid as one byte. Who
gets which message follows the server, ``algorithms/hyfdca/hyfdca.py`` and
``federation/local_sgd.py``. All is compiled: some rounds take no more than 0.1 ms.

Sealed and opened are the numbers that a client encrypts and decrypts in these messages.
For HyFDCA they are those by sample, as in the paper: weights are open to the server.
For FedAvg and HyFEM they are the weights, as in the sealed profile; in the paper these
two methods encrypt nothing. Where clients are absent and samples are split, HyFDCA's
count is the paper's: duals that a client missed, margins of the samples that anybody
draws, margins at those who draw, changes of duals, and the duals that changed. The
paper's is another where the messages save something:

- all are present: the margins of a round travel at the end of the round before and
  count there; those of the first round are zero and not sent;
- all are present and draw everything: one holder changes a sample, not each of them;
- each sample is at one client: nobody needs the margins of others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from hyfdca.algorithms.hyfdca.messages import (
    MarginsRequest,
    SharesRequest,
    StepRequest,
    WeightsNotice,
)
from hyfdca.algorithms.hyfdca.settings import HyfdcaSettings
from hyfdca.arrays import IntArray
from hyfdca.federation.local_sgd import TrainRequest
from hyfdca.maths.compiling import CACHE
from hyfdca.protocol.messages import GridSpec, Message, Part, Sealed
from hyfdca.protocol.sessions import TOKEN_BYTES, frame
from hyfdca.runtime.driver import Traffic
from hyfdca.training.bulk.counts import OPENED, SEALED, SEALED_DRAWN
from hyfdca.training.bulk.stacked import StackedBlocks

_NUMBER, _INDEX = 8, 4  # bytes of a number that is not encrypted, and of a position
_NONE = 1  # byte of what is left out
_LENGTH = 2  # bytes of the length of a vector, if that is short
_PAIR = 2  # bytes of a vector besides its numbers: it is a pair with its grid
_GRID = GridSpec(0, 1)

_HALF_TRIPS, _DOWN, _UP = range(3)  # of a cost
_OF_WEIGHTS, _OF_MARGINS = range(2)  # sums over holders, which are empty at first

_compiled = njit(cache=CACHE, nogil=True, error_model="numpy")


# Sizes, of numbers and of arrays


@_compiled
def binary_size(n_bytes):  # type: ignore[no-untyped-def]
    """Return the size of bytes in msgpack, with their length in front."""
    return n_bytes + _LENGTH + (n_bytes >= 2**8) + 2 * (n_bytes >= 2**16)


@_compiled
def integer_size(number):  # type: ignore[no-untyped-def]
    """Return the size of a whole number of at most 32 bits in msgpack."""
    return 1 + (number >= 2**7) + (number >= 2**8) + 2 * (number >= 2**16)


@_compiled
def _sum(n_numbers):  # type: ignore[no-untyped-def]
    """Return what a sum over holders adds to a message that has none."""
    return _PAIR + binary_size(_NUMBER * n_numbers)


@_compiled
def _indices(n_indices):  # type: ignore[no-untyped-def]
    """Return what positions or counts add to a message that has none."""
    return binary_size(_INDEX * n_indices) - _NONE


def _envelope(message: Message) -> int:
    """Return the size of a message without vectors and positions."""
    return len(frame(bytes(TOKEN_BYTES), 0, message))


def _traffic(cost: IntArray) -> Traffic:
    return Traffic(
        round_trips=float(cost[_HALF_TRIPS]) / 2,
        bytes_up=int(cost[_UP]),
        bytes_down=int(cost[_DOWN]),
    )


# Envelopes are arguments of compiled functions: these are cached with the constants
# they were compiled with, even if a message has changed since.
_SHARES = _envelope(SharesRequest([], None, _GRID))
_MARGINS = _envelope(MarginsRequest(None, None, _GRID))
_STEP = _envelope(StepRequest(None, None, None, None, False, 1.0, 1.0, None, _GRID))
_WEIGHTS = _envelope(WeightsNotice([]))
_TRAIN = _envelope(TrainRequest([], None, 0, 0, _GRID))
_PART = _envelope(Part(Sealed(0, memoryview(b"")))) - _LENGTH


@_compiled
def _part(envelope, n_numbers):  # type: ignore[no-untyped-def]
    """Return the size of a reply, which is a vector."""
    return envelope + binary_size(_NUMBER * n_numbers)


@_compiled
def _add(cost, half_trips, down, up):  # type: ignore[no-untyped-def]
    """Add an exchange with some clients, if there are any."""
    if down:
        cost[_HALF_TRIPS] += half_trips
        cost[_DOWN] += down
        cost[_UP] += up


# HyFDCA


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
    """Which clients have the present weights, and which sums are there."""

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
        step = _STEP + _indices(drawn) * (drawn < n_held)
        if not settings.divides_by_all(is_complete):
            step += _indices(drawn)
        self._rule = _DualRule(
            n_held,
            drawn,
            weights=_sum(n_features),
            share=_part(_PART, n_features),
            step=step,
            margins=_sum(drawn),
            changes=_part(_PART, drawn),
            shares_envelope=_SHARES,
            margins_envelope=_MARGINS,
            notice_envelope=_WEIGHTS,
            part_envelope=_PART,
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
            How many duals each participant has not heard of when it comes.
        touched, upcoming : array (n_clients,)
            How many of each client's samples somebody draws in this round and in the
            next, whose draws matter only where participation is complete.
        counts : array (n_clients, 4)
        """
        rows = (missed, touched, upcoming)
        return _traffic(
            _dual_round(self._rule, self._state, participants, rows, counts)
        )


def _designated(blocks: StackedBlocks) -> IntArray:
    """Return how many samples each client changes where one client changes each."""
    return np.bincount(blocks.layout.sample_designees, minlength=blocks.n_clients)


# Loops use arrays that were taken out of tuples before: a tuple that is passed on or
# read inside counts references to all of its arrays each time, eight times as slow.


@_compiled
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


@_compiled
def _shares(rule, state, clients, rows, counts, cost):  # type: ignore[no-untyped-def]
    """PrimalAggregation: duals of some rows down, shares up."""
    share, down, up = rule.share, 0, 0
    for client in clients:
        n_rows = rows[client]
        if n_rows or rule.draws_all:
            down += rule.shares_envelope + _sum(n_rows)
            if not rule.draws_all:
                down += _indices(n_rows)
            up += share[client]
            counts[client, OPENED] += n_rows
    if down:
        state.is_informed[:] = False
        state.is_there[_OF_WEIGHTS] = True
    _add(cost, 2, down, up)


@_compiled
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
                down += _indices(n_rows)
            up += _part(rule.part_envelope, n_rows)
            counts[client, SEALED] += n_rows
            is_informed[client] = True
    if down:
        state.is_there[_OF_MARGINS] = True
    _add(cost, 2, down, up)


@_compiled
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
    _add(cost, 2, down, up)


@_compiled
def _notices(rule, state, clients, cost):  # type: ignore[no-untyped-def]
    """Weights down to those who do not have them; no answer."""
    weights, is_informed, down = _weights(rule, state), state.is_informed, 0
    for client in clients:
        if not is_informed[client]:
            down += rule.notice_envelope + weights[client]
            is_informed[client] = True
    _add(cost, 1, down, 0)


@_compiled
def _weights(rule, state):  # type: ignore[no-untyped-def]
    """Return what the weights add to a message, by client: nothing in the beginning."""
    return rule.weights if state.is_there[_OF_WEIGHTS] else np.zeros_like(rule.weights)


# FedAvg and HyFEM


class _SgdRule(NamedTuple):
    """What all rounds have in common, by client.

    How many features it holds, and the sizes of its ``request`` in round 0 without
    vectors, of the ``weights`` and ``holders`` in it, and of the reply.
    """

    n_features: Any
    request: Any
    weights: Any
    holders: Any
    part: Any


class SgdTraffic:
    """The messages of FedAvg and HyFEM, which have one exchange per round.

    Parameters
    ----------
    n_steps : array (n_clients,)
        How many local steps each client takes.
    """

    def __init__(self, blocks: StackedBlocks, n_steps: IntArray) -> None:
        n_features = blocks.n_features_held
        self._rule = _SgdRule(
            n_features,
            request=_TRAIN + integer_size(n_steps) - integer_size(0),
            weights=_sum(n_features),
            holders=_indices(n_features),
            part=_part(_PART, n_features),
        )
        self._has_weights = False  # as the sum is empty at first

    def round(self, number: int, able: IntArray, counts: IntArray) -> Traffic:
        """Return the traffic of the next round; adds to ``counts``.

        Parameters
        ----------
        able : array (clients,)
            Those who train.
        counts : array (clients, 3)
        """
        cost = _sgd_round(self._rule, number, able, self._has_weights, counts)
        self._has_weights |= len(able) > 0
        return _traffic(cost)


@_compiled
def _sgd_round(rule, number, able, has_weights, counts):  # type: ignore[no-untyped-def]
    """Weights, and how many hold them, down; parts of the next weights up."""
    n_features, request, weights, holders, part = rule
    cost, down, up = np.zeros(3, np.int64), 0, 0
    are_all = able.size == n_features.size  # then they know how many they are
    for j in range(able.size):
        client = able[j]
        down += request[client] + integer_size(number) - integer_size(0)
        if has_weights:
            down += weights[client]
            counts[j, OPENED] += n_features[client]
        if not are_all:
            down += holders[client]
        up += part[client]
        counts[j, SEALED] += n_features[client]
    _add(cost, 2, down, up)
    return cost

"""The messages of the simulated rounds of FedAvg and HyFEM, by formula.

Recipients are those of the server, ``federation/local/sgd.py``. Sealed and
opened are the weights, as in the sealed profile; in the paper these two methods encrypt
nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.federation.local.sgd import TrainRequest
from hyfdca.runtime.driver import Traffic
from hyfdca.training.bulk.counts import OPENED, SEALED
from hyfdca.training.bulk.message_sizes import (
    GRID,
    PART,
    add_exchange,
    compiled,
    envelope_size,
    indices_size,
    integer_size,
    part_size,
    sum_size,
    traffic_of,
)
from hyfdca.training.bulk.stacked import StackedBlocks

_TRAIN = envelope_size(TrainRequest([], None, 0, 0, GRID))


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
            weights=sum_size(n_features),
            holders=indices_size(n_features),
            part=part_size(PART, n_features),
        )
        self._has_weights = False  # as the sum is empty at first

    def round(self, number: int, able: IntArray, counts: IntArray) -> Traffic:
        """Return the traffic of the next round; adds to ``counts``.

        Parameters
        ----------
        able : array (clients,)
            The clients that train.
        counts : array (clients, 3)
        """
        cost = _sgd_round(self._rule, number, able, self._has_weights, counts)
        self._has_weights |= len(able) > 0
        return traffic_of(cost)


@compiled
def _sgd_round(rule, number, able, has_weights, counts):  # type: ignore[no-untyped-def]
    """Weights and numbers of holders down, parts of the next weights up."""
    n_features, request, weights, holders, part = rule
    cost, down, up = np.zeros(3, np.int64), 0, 0
    are_all = able.size == n_features.size  # then they know their number
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
    add_exchange(cost, 2, down, up)
    return cost

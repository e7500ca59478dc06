"""Compares the weights that all holders of a feature release.

Holders of a feature have its weight to the last bit, so a client that releases another
one is noticed if somebody else also holds the feature.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.messages import Released
from hyfdca.holdings.axis import Axis
from hyfdca.protocol.codec import unpack_reals
from hyfdca.protocol.server_session import BadReplyError, reply_of


def unpacked_weights(
    features: Axis, replies: Mapping[int, Released], n_outputs: int
) -> dict[int, FloatArray]:
    """Return the weights that each client releases, (features held, n_outputs)."""
    released = {}
    for client, reply in replies.items():
        shape = (len(features.items[client]), n_outputs)
        with reply_of(client):
            flat = unpack_reals(reply.weights, math.prod(shape))
            released[client] = flat.reshape(shape)
    return released


def agreed_weights(features: Axis, released: Mapping[int, FloatArray]) -> FloatArray:
    """Return the weights of all features, (n_features, n_outputs).

    Parameters
    ----------
    released : mapping of int to array (features held, n_outputs)
        By client, for every client.

    Raises
    ------
    BadReplyError
        If holders of a feature differ; it names those who may be wrong.
    """
    n_outputs = next(iter(released.values())).shape[1]
    weights = np.zeros((features.n_items, n_outputs))
    for client in sorted(released, reverse=True):
        weights[features.items[client]] = released[client]
    differs = np.zeros(features.n_items, dtype=bool)
    for client, own in released.items():
        items = features.items[client]
        differs[items] |= (weights[items] != own).any(axis=1)
    if differs.any():
        suspects = _suspects(features, released, np.flatnonzero(differs))
        raise BadReplyError("", suspects, _reason(suspects), is_final=True)
    return weights


def sole_holders(features: Axis) -> list[int]:
    """Return the clients with a feature that nobody else holds."""
    is_sole = features.counts == 1
    return [c for c, items in enumerate(features.items) if is_sole[items].any()]


def _reason(suspects: list[int]) -> str:
    if len(suspects) == 1:
        return "it released other weights than those who hold the same features"
    return "they released different weights of a feature that they both hold"


def _suspects(
    features: Axis, released: Mapping[int, FloatArray], disputed: IntArray
) -> list[int]:
    """Return who was outvoted, else who is in every dispute, else everybody."""
    outvoted: set[int] = set()
    disputes: list[set[int]] = []
    for feature in disputed.tolist():
        _, clients, positions = features.holders_of(np.array([feature]))
        pairs = zip(clients.tolist(), positions.tolist(), strict=True)
        said = {c: released[c][position].tobytes() for c, position in pairs}
        disputes.append(set(said))
        most, votes = Counter(said.values()).most_common(1)[0]
        if 2 * votes > len(said):
            outvoted |= {client for client, own in said.items() if own != most}
    return sorted(outvoted or set.intersection(*disputes) or set.union(*disputes))

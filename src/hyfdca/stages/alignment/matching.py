"""Matches equal pseudonyms: an axis, and each client's order on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, IntArray, TokenArray
from hyfdca.holdings.axis import Axis
from hyfdca.protocol.codec import RemoteProtocolError, unpack_tokens
from hyfdca.protocol.server_session import BadReplyError

_MOST = 2**32  # what positions on the wire can count


@dataclass(frozen=True)
class Matched:
    """Things that clients hold, numbered.

    Parameters
    ----------
    axis : Axis
        Numbers follow the rank of the first holder, then the place in its table: they
        are the same for every key of the pseudonyms.
    orders : tuple of arrays (things held,)
        Each client's things in the order of the axis.
    """

    axis: Axis
    orders: tuple[IntArray, ...]

    def restricted(self, is_kept: BoolArray) -> Matched:
        """Return the matching without some things, as if nobody had them."""
        if is_kept.all():
            return self
        numbers = np.cumsum(is_kept) - 1
        each = list(zip(self.axis.items, self.orders, strict=True))
        items = tuple(numbers[own[is_kept[own]]] for own, _ in each)
        orders = tuple(order[is_kept[own]] for own, order in each)
        return Matched(Axis(int(is_kept.sum()), items), orders)


def match(pseudonyms: Mapping[int, TokenArray]) -> Matched:
    """Match pseudonyms, one array (things held, 2) per client.

    Raises
    ------
    BadReplyError
        If a client has one twice.
    """
    sizes = {client: len(own) for client, own in pseudonyms.items()}
    n_all = sum(sizes.values())
    if n_all >= _MOST:
        reason = f"the clients have {n_all} rows, too many"
        raise BadReplyError("", pseudonyms, reason)
    numbers = _numbers(
        np.concatenate([*pseudonyms.values(), np.empty((0, 2), np.uint64)]), sizes
    )
    each = np.split(numbers, np.cumsum([*sizes.values()])[:-1])
    orders = tuple(np.argsort(own, kind="stable") for own in each)
    items = tuple(own[order] for own, order in zip(each, orders, strict=True))
    return Matched(Axis(int(numbers.max(initial=-1)) + 1, items), orders)


def unpack_pseudonyms(payload: memoryview) -> TokenArray:
    """Return pseudonyms of two words each, (n, 2)."""
    tokens = unpack_tokens(payload)
    if len(tokens) % 2:
        raise RemoteProtocolError("a pseudonym is cut off")
    return tokens.reshape(-1, 2)


def n_repeated(pseudonyms: TokenArray) -> int:
    """Return how many of a client's own pseudonyms occur more than once."""
    return int(_sorted(pseudonyms)[1].sum())


def n_common(one: TokenArray, other: TokenArray) -> int:
    """Return how many pseudonyms occur in both of two lists."""
    order, is_same = _sorted(np.concatenate([one, other]))
    numbers = np.cumsum(~is_same)
    is_in_one = np.zeros(len(order) + 1, dtype=bool)
    is_in_other = is_in_one.copy()
    is_in_one[numbers[order < len(one)]] = True
    is_in_other[numbers[order >= len(one)]] = True
    return int(np.sum(is_in_one & is_in_other))


def _numbers(every: TokenArray, sizes: Mapping[int, int]) -> IntArray:
    """Return the number of each pseudonym, equal ones together by first occurrence."""
    order, is_same = _sorted(every)
    _check_once(order, is_same, sizes)
    first = order[~is_same]
    is_first = np.zeros(len(every), dtype=bool)
    is_first[first] = True
    rank = np.cumsum(is_first) - 1
    numbers = np.empty(len(every), np.int64)
    numbers[order] = rank[first][np.cumsum(~is_same) - 1]
    return numbers


def _sorted(every: TokenArray) -> tuple[IntArray, BoolArray]:
    """Return an order in which equal ones come together, by occurrence.

    Also return whether each, in that order, equals the one before.
    """
    high, low = every.T
    # One word nearly always distinguishes pseudonyms, in a third of the time.
    order = np.argsort(high, kind="stable")
    is_same = _equals_last(high[order])
    if np.any(is_same & ~_equals_last(low[order])):
        order = np.lexsort((low, high))  # stable too
        is_same = _equals_last(high[order]) & _equals_last(low[order])
    return order, is_same


def _equals_last(values: TokenArray) -> BoolArray:
    """Return whether each value equals the one before it."""
    is_same = np.zeros(len(values), dtype=bool)
    is_same[1:] = values[1:] == values[:-1]
    return is_same


def _check_once(order: IntArray, is_same: BoolArray, sizes: Mapping[int, int]) -> None:
    ranks = np.array([*sizes], np.int32)
    clients = np.repeat(ranks, [*sizes.values()])[order]
    is_repeated = is_same[1:] & (clients[1:] == clients[:-1])
    if is_repeated.any():
        client = int(clients[1:][is_repeated][0])
        count = is_repeated.sum()
        raise BadReplyError("", client, f"it sent {count} pseudonyms twice")

"""Compares labels, weights and offsets that several clients have, by tokens.

Each row has one token over all of them. Only if these differ are clients asked for a
token of each, in single precision: it shows which columns differ, or that only the
precision does. In that case all holders round the rows concerned, so that the problem
is the same for all of them, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, IntArray, TokenArray
from hyfdca.crypto.keys.pseudonyms import NO_LABEL
from hyfdca.holdings.layout import Layout
from hyfdca.protocol.codec import RemoteProtocolError, unpack_tokens
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import Conversation, ServerSession, reply_of
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.comparison import Disagreements, TokenComparison
from hyfdca.stages.alignment.label_rows import LabelRows


@dataclass(frozen=True)
class ComparedTargets:
    """The result of comparing tokens.

    Parameters
    ----------
    counts : dict
        Rows that differ, by pairs of clients.
    columns : tuple of str
        The columns that differ: "label", "weight", "offset".
    is_rounded : array (samples,) of bool
        Rows that do not differ once they are rounded.
    """

    counts: Disagreements
    columns: tuple[str, ...]
    is_rounded: BoolArray


def compare_targets(
    layout: Layout,
    orders: Sequence[IntArray],
    labels: LabelRows,
    columns: Sequence[str],
    session: ServerSession,
) -> Conversation[ComparedTargets]:
    """Compare labels, weights and offsets where clients have them.

    Parameters
    ----------
    orders : sequence of arrays
        Each client's rows in the order of its samples.
    columns : sequence of str
        The columns to compare.
    """
    exact = TokenComparison(layout)
    _add(exact, layout, labels, labels.tokens)
    is_found = np.zeros(layout.samples.n_items, dtype=bool)
    is_found[exact.samples] = True
    if not is_found.any():
        return ComparedTargets({}, (), is_found)
    shown = yield from _ask(layout, orders, len(columns), session)
    every, differing = TokenComparison(layout), []
    for name, tokens in zip(columns, shown, strict=True):
        if _add(every, layout, labels, tokens, is_found):
            differing.append(name)
    is_found[every.samples] = False
    return ComparedTargets(every.counts(), tuple(differing), is_found)


def _ask(
    layout: Layout, orders: Sequence[IntArray], n_columns: int, session: ServerSession
) -> Conversation[list[list[TokenArray | None]]]:
    """Return tokens of each column by client, in the order of its samples."""
    labelled = np.flatnonzero(layout.labelled).tolist()
    requests = dict.fromkeys(labelled, Message())
    replies = yield from session.ask("targets", requests, m.TargetTokens)
    shown: list[list[TokenArray | None]] = [
        [None] * layout.n_clients for _ in range(n_columns)
    ]
    for client, reply in replies.items():
        order = orders[client]
        with reply_of(client):
            if len(reply.tokens) != n_columns:
                raise RemoteProtocolError("labels or weights are left out")
            for column, payload in enumerate(reply.tokens):
                shown[column][client] = unpack_tokens(payload, len(order))[order]
    return shown


def _add(
    comparison: TokenComparison,
    layout: Layout,
    labels: LabelRows,
    tokens: Sequence[TokenArray | None],
    is_meant: BoolArray | None = None,
) -> bool:
    """Compare tokens of some samples with their owners'; return whether any differ."""
    any_differs = False
    for client, own in enumerate(tokens):
        if own is not None:
            samples = layout.samples.items[client]
            is_said = own != NO_LABEL
            if is_meant is not None:
                is_said &= is_meant[samples]
            samples = samples[is_said]
            owners = labels.owners[samples]
            any_differs |= comparison.add(client, samples, owners, own[is_said])
    return any_differs

"""Tokens of what several clients hold, compared by a server that cannot read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from hyfdca.arrays import IntArray, TokenArray
from hyfdca.crypto.keys.pseudonyms import NO_LABEL
from hyfdca.holdings.layout import Layout
from hyfdca.holdings.ownership import CellHolders
from hyfdca.protocol.codec import (
    pack_bits,
    pack_indices,
    unpack_tokens,
)
from hyfdca.protocol.sessions import Conversation, ServerSession, reply_of
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.hint_exchange import ask_hints
from hyfdca.stages.alignment.label_rows import LabelRows

Disagreements = dict[tuple[int, int], int]  # rows, by pairs of clients

_MOST_TOKENS = 1 << 21  # of a client in one answer, unless one column group has more


class TokenComparison:
    """Tokens of samples that several clients hold, against those of one of them."""

    def __init__(self, layout: Layout) -> None:
        self._n_clients = layout.n_clients
        self._reference = np.zeros(layout.samples.n_items, np.uint64)
        self._found = [np.empty(0, np.int64)]  # owner, client and sample as one number

    def add(
        self, client: int, samples: IntArray, owners: IntArray, tokens: TokenArray
    ) -> None:
        """Compare a client's tokens with those of the samples' owners, added before."""
        is_own = owners == client
        self._reference[samples[is_own]] = tokens[is_own]
        differs = (self._reference[samples] != tokens) & ~is_own
        pairs = owners[differs] * self._n_clients + client
        self._found.append(pairs * len(self._reference) + samples[differs])

    def counts(self) -> Disagreements:
        """Return the number of samples on which a client and an owner disagree."""
        found = np.unique(np.concatenate(self._found)) // max(len(self._reference), 1)
        pairs, counts = np.unique(found, return_counts=True)
        each = zip(pairs.tolist(), counts.tolist(), strict=True)
        return {divmod(pair, self._n_clients): count for pair, count in each}


def compare_labels(layout: Layout, rows: LabelRows) -> Disagreements:
    """Compare tokens of (ID, label) where clients have one."""
    comparison = TokenComparison(layout)
    for client, tokens in enumerate(rows.tokens):
        if tokens is not None:
            is_said = tokens != NO_LABEL
            samples = layout.samples.items[client][is_said]
            comparison.add(client, samples, rows.owners[samples], tokens[is_said])
    return comparison.counts()


def compare_cells(
    layout: Layout,
    holders: Sequence[CellHolders],
    session: ServerSession,
    *,
    is_rounded: bool = False,
) -> Conversation[Disagreements]:
    """Ask for tokens of the cells that several clients hold, and compare them.

    Parameters
    ----------
    is_rounded : bool
        Whether clients round their cells first, on grids that the owners choose.
    """
    comparison = TokenComparison(layout)
    for columns in _batches(holders):
        places = {k: _places(own, columns) for k, own in enumerate(holders)}
        hints: dict[int, list[memoryview]] | None = None
        if is_rounded:
            hints = yield from ask_hints(layout, holders, places, session)
        requests = _requests(holders, places, hints)
        replies = yield from session.ask("cells", requests, m.CellTokens)
        tokens = {
            k: _by_column(k, holders[k], places[k], reply)
            for k, reply in replies.items()
        }
        for column in columns:
            for client, own in tokens.items():
                if column in own:
                    rows, owners, values = own[column]
                    samples = layout.samples.items[client][rows]
                    comparison.add(client, samples, owners, values)
    return comparison.counts()


def _requests(
    holders: Sequence[CellHolders],
    places: Mapping[int, IntArray],
    hints: Mapping[int, list[memoryview]] | None,
) -> dict[int, m.CellsRequest]:
    """Return the requests to clients that hold some of the cells."""
    return {
        client: m.CellsRequest(
            pack_indices(columns),
            pack_bits(holders[client].is_shared[:, columns]),
            None if hints is None else hints[client],
        )
        for client, columns in places.items()
        if len(columns)
    }


def _batches(holders: Sequence[CellHolders]) -> Iterator[list[int]]:
    """Return column groups that are asked for together, by number on the axis."""
    sizes: dict[int, int] = {}
    for own in holders:
        for column in own.columns[own.is_shared.any(axis=0)].tolist():
            sizes[column] = max(sizes.get(column, 0), len(own.row_groups))
    columns = sorted(sizes)
    before = np.cumsum([0, *(sizes[column] for column in columns)])[:-1]
    for _, batch in groupby(
        zip(columns, before // _MOST_TOKENS, strict=True), key=itemgetter(1)
    ):
        yield [column for column, _ in batch]


def _places(own: CellHolders, columns: Sequence[int]) -> IntArray:
    """Return those of a client's column groups that it is to be asked for."""
    is_asked = np.isin(own.columns, columns) & own.is_shared.any(axis=0)
    return np.flatnonzero(is_asked)


def _by_column(
    client: int, own: CellHolders, places: IntArray, reply: m.CellTokens
) -> dict[int, tuple[IntArray, IntArray, TokenArray]]:
    """Return rows held by others too, their owners and tokens, by column group."""
    rows = [np.flatnonzero(own.is_shared[own.row_groups, place]) for place in places]
    ends = np.cumsum([len(r) for r in rows])
    with reply_of(client):
        tokens = np.split(unpack_tokens(reply.tokens, int(ends[-1])), ends[:-1])
    return {
        int(own.columns[place]): (r, own.owners[own.row_groups[r], place], values)
        for place, r, values in zip(places, rows, tokens, strict=True)
    }

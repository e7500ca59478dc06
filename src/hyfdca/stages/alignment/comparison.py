"""Compares tokens of what several clients hold, without reading them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from hyfdca.arrays import IntArray, TokenArray
from hyfdca.holdings.layout import Layout
from hyfdca.holdings.ownership import CellHolders
from hyfdca.protocol.codec import (
    pack_bits,
    pack_indices,
    unpack_tokens,
)
from hyfdca.protocol.server_session import Conversation, ServerSession, reply_of
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.hint_exchange import Rectangle, Rectangles, ask_hints

Disagreements = dict[tuple[int, int], int]  # rows, by pairs of clients

_MOST_TOKENS = 1 << 21  # of a client in one answer, unless one column group has more


class TokenComparison:
    """Tokens of samples that several clients hold, against those of their owners."""

    def __init__(self, layout: Layout) -> None:
        self._n_clients = layout.n_clients
        self._reference = np.zeros(layout.samples.n_items, np.uint64)
        self._found = [np.empty(0, np.int64)]  # owner, client and sample as one number

    def add(
        self, client: int, samples: IntArray, owners: IntArray, tokens: TokenArray
    ) -> bool:
        """Compare a client's tokens with those of the samples' owners, added before.

        Returns whether any differs.
        """
        is_own = owners == client
        self._reference[samples[is_own]] = tokens[is_own]
        differs = (self._reference[samples] != tokens) & ~is_own
        pairs = owners[differs] * self._n_clients + client
        self._found.append(pairs * len(self._reference) + samples[differs])
        return bool(differs.any())

    @property
    def samples(self) -> IntArray:
        """The samples on which a client and an owner disagree."""
        found = np.concatenate(self._found)
        return np.unique(found % max(len(self._reference), 1))

    def counts(self) -> Disagreements:
        """Return the number of samples on which a client and an owner disagree."""
        found = np.unique(np.concatenate(self._found)) // max(len(self._reference), 1)
        pairs, counts = np.unique(found, return_counts=True)
        each = zip(pairs.tolist(), counts.tolist(), strict=True)
        return {divmod(pair, self._n_clients): count for pair, count in each}


@dataclass(frozen=True)
class CellComparison:
    """Asks for tokens of the cells that several clients hold, and compares them.

    Parameters
    ----------
    is_rounded : bool
        Whether clients round their cells first, on grids that the owners choose.
    """

    layout: Layout
    holders: Sequence[CellHolders]
    session: ServerSession
    is_rounded: bool = False

    def counts(self) -> Conversation[Disagreements]:
        """Return the number of samples on which a client and an owner disagree."""
        comparison = TokenComparison(self.layout)
        for columns in _batches(self.holders):
            places, replies = yield from self._ask(columns, "row")
            tokens = {
                k: _by_column(k, self.holders[k], places[k], reply)
                for k, reply in replies.items()
            }
            for column in columns:
                for client, own in tokens.items():
                    if column in own:
                        rows, owners, values = own[column]
                        samples = self.layout.samples.items[client][rows]
                        comparison.add(client, samples, owners, values)
        return comparison.counts()

    def columns(self) -> Conversation[IntArray]:
        """Return the features on whose cells a client and an owner disagree."""
        features = self.layout.features
        differs = np.zeros(features.n_items, dtype=bool)
        for columns in _batches(self.holders):
            places, replies = yield from self._ask(columns, "column")
            owned: dict[Rectangle, TokenArray] = {}
            for client, reply in replies.items():
                for name, own, tokens in self._rectangles(client, places, reply):
                    is_other = owned.setdefault(name, tokens) != tokens
                    differs[features.items[client][own[is_other]]] = True
        return np.flatnonzero(differs)

    def _ask(
        self, columns: Sequence[int], by: m.Line
    ) -> Conversation[tuple[dict[int, IntArray], dict[int, m.CellTokens]]]:
        """Return the clients' column groups that are compared, and their tokens."""
        places = {k: _places(own, columns) for k, own in enumerate(self.holders)}
        hints: dict[int, list[memoryview]] | None = None
        if self.is_rounded:
            hints = yield from ask_hints(
                self.layout, self.holders, places, by, self.session
            )
        requests = {
            client: m.CellsRequest(
                pack_indices(own),
                pack_bits(self.holders[client].is_shared[:, own]),
                None if hints is None else hints[client],
                by,
            )
            for client, own in places.items()
            if len(own)
        }
        replies = yield from self.session.ask("cells", requests, m.CellTokens)
        return places, replies

    def _rectangles(
        self, client: int, places: Mapping[int, IntArray], reply: m.CellTokens
    ) -> Iterator[tuple[Rectangle, IntArray, TokenArray]]:
        """Yield a client's rectangles that others hold too: columns and tokens."""
        held, asked = self.holders[client], places[client]
        is_shared = held.is_shared[:, asked]
        names = Rectangles(self.layout, self.holders, places).of(client, is_shared)
        columns = [
            np.flatnonzero(held.column_groups == asked[place])
            for place in np.nonzero(is_shared.T)[0]
        ]
        tokens = _split(client, reply, [len(own) for own in columns])
        yield from zip(names, columns, tokens, strict=True)


def _batches(holders: Sequence[CellHolders]) -> Iterator[list[int]]:
    """Return column groups that are requested together, by number on the axis."""
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
    """Return which of a client's column groups to request."""
    is_asked = np.isin(own.columns, columns) & own.is_shared.any(axis=0)
    return np.flatnonzero(is_asked)


def _by_column(
    client: int, own: CellHolders, places: IntArray, reply: m.CellTokens
) -> dict[int, tuple[IntArray, IntArray, TokenArray]]:
    """Return rows held by others too, their owners and tokens, by column group."""
    rows = [np.flatnonzero(own.is_shared[own.row_groups, place]) for place in places]
    tokens = _split(client, reply, [len(r) for r in rows])
    return {
        int(own.columns[place]): (r, own.owners[own.row_groups[r], place], values)
        for place, r, values in zip(places, rows, tokens, strict=True)
    }


def _split(
    client: int, reply: m.CellTokens, sizes: Sequence[int]
) -> Sequence[TokenArray]:
    """Return the tokens of a reply in parts of these sizes."""
    ends = np.cumsum(sizes)
    with reply_of(client):
        return np.split(unpack_tokens(reply.tokens, int(ends[-1])), ends[:-1])

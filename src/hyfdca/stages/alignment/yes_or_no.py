"""Yes and no at one client, numbers at another: they must be 0 and 1.

Both become numbers, so that 1 for yes and 2 for no at one hospital would be trained
together with 1 and 0 at another. Only the clients whose numbers are in doubt are asked,
and only whether a column has other numbers than 0 and 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import ByteArray, IntArray
from hyfdca.data.tables import KINDS, Table
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_indices,
    unpack_indices,
)
from hyfdca.protocol.server_session import Conversation, ServerSession, reply_of
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.matching import Matched
from hyfdca.stages.alignment.shown import Shown, names_of

_NOT_ASKED = "it names a column that it was not asked about"
_NUMBER, _BOOLEAN = KINDS.index("number"), KINDS.index("boolean")


@dataclass(frozen=True)
class SharedColumns:
    """The columns of all clients, and what kind they are at each.

    Parameters
    ----------
    names, features : sequence of str
        The clients, and the columns in the order of their axis.
    kinds : sequence of arrays (columns held,)
        By client, in the order of the axis.
    """

    names: Sequence[str]
    features: Sequence[str]
    columns: Matched
    kinds: Sequence[ByteArray]

    def first_with_words(self) -> IntArray:
        """Return the first client where a column is yes and no; -1 if none."""
        first = np.full(self.columns.axis.n_items, -1)
        for client, (items, own) in reversed(list(self._by_client())):
            first[items[own == _BOOLEAN]] = client
        return first

    def in_doubt(self, first: IntArray) -> dict[int, IntArray]:
        """Return each client's own numbers of columns to ask about."""
        found = {}
        for client, (items, own) in self._by_client():
            places = np.flatnonzero((own == _NUMBER) & (first[items] >= 0))
            if len(places):
                found[client] = np.sort(self.columns.orders[client][places])
        return found

    def feature(self, client: int, column: int) -> int:
        """Return the place on the axis of a client's own column."""
        place = np.flatnonzero(self.columns.orders[client] == column)[0]
        return int(self.columns.axis.items[client][place])

    def _by_client(self) -> Iterator[tuple[int, tuple[IntArray, ByteArray]]]:
        each = zip(self.columns.axis.items, self.kinds, strict=True)
        return enumerate(each)


def check_yes_or_no(
    names: Sequence[str],
    shown: Sequence[Shown],
    columns: Matched,
    session: ServerSession,
) -> Conversation[None]:
    """Refuse numbers other than 0 and 1 in columns that are yes and no elsewhere."""
    each = zip(shown, columns.orders, strict=True)
    kinds = [own.kinds[order] for own, order in each]
    shared = SharedColumns(names, names_of(shown, columns), columns, kinds)
    first = shared.first_with_words()
    asked = shared.in_doubt(first)
    if not asked:
        return
    requests = {c: m.NumbersRequest(pack_indices(own)) for c, own in asked.items()}
    replies = yield from session.ask("numbers", requests, m.Numbers)
    for client, reply in replies.items():
        with reply_of(client):
            own = unpack_indices(reply.columns, int(asked[client].max()) + 1)
            if not np.isin(own, asked[client]).all():
                raise RemoteProtocolError(_NOT_ASKED)
        if len(own):
            place = shared.feature(client, int(own[0]))
            pair = shared.names[int(first[place])], shared.names[client]
            raise _disagreement(shared.features[place], *pair)


def answer_numbers(table: Table, request: m.NumbersRequest) -> m.Numbers:
    """Return which of these columns have other numbers than 0 and 1."""
    columns = unpack_indices(request.columns, len(table.features))
    if any(table.kind_of(column) != "number" for column in columns.tolist()):
        raise RemoteProtocolError("a column to look at is not one of numbers")
    cells = table.cells[:, columns]
    is_other = ~np.isnan(cells.data) & (cells.data != 0.0) & (cells.data != 1.0)
    return m.Numbers(pack_indices(columns[np.unique(cells.indices[is_other])]))


def _disagreement(column: str, words: str, numbers: str) -> AlignmentError:
    listed = f"[{json.dumps(column, ensure_ascii=False)}]"
    return AlignmentError(
        f"Column {column!r} is yes or no at {words!r}, but has numbers other than 0 "
        f"and 1 at {numbers!r}; write 1 for yes and 0 for no there, set categorical = "
        f"{listed} in the study file if it is a category, or leave it out with ignore "
        f"= {listed}."
    )

"""Passes notes about blank cells between clients that hold the same cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.holdings.axis import Axis, group_holders, owner_groups
from hyfdca.holdings.layout import Layout
from hyfdca.holdings.ownership import CellHolders
from hyfdca.protocol.codec import pack_bits
from hyfdca.protocol.server_session import BadReplyError, Conversation, ServerSession
from hyfdca.stages.alignment import messages as m

_Notes = dict[tuple[int, int], memoryview]  # by sender and recipient


def fill_blanks(
    layout: Layout,
    holders: Sequence[CellHolders],
    blank: Sequence[int],
    session: ServerSession,
) -> Conversation[dict[int, m.Filled]]:
    """Let clients with blank cells learn the values of other holders.

    Parameters
    ----------
    blank : sequence of int
        Clients that have blank cells, ascending.
    """
    common = _Common(layout, holders)
    partners = {client: common.partners(client) for client in blank}
    asking = {client: common.of(client, own) for client, own in partners.items() if own}
    replies = yield from session.ask("blanks", asking, m.BlankNotes)
    notes = _sent("blanks", partners, replies)
    askers: dict[int, list[int]] = {}
    for asker, partner in notes:
        askers.setdefault(partner, []).append(asker)
    requests = {
        client: common.known(client, own, [notes[asker, client] for asker in own])
        for client, own in sorted(askers.items())
    }
    known = yield from session.ask("known cells", requests, m.KnownNotes)
    notes = _sent("known cells", askers, known)
    fills = {
        client: common.fill(client, own, [notes[other, client] for other in own])
        for client, own in partners.items()
    }
    filled = yield from session.ask("fill cells", fills, m.Filled)
    return filled


def _sent(
    phase: str,
    recipients: Mapping[int, Sequence[int]],
    replies: Mapping[int, m.BlankNotes] | Mapping[int, m.KnownNotes],
) -> _Notes:
    """Return the notes of all senders, if each has one for every recipient."""
    notes: _Notes = {}
    for sender, reply in replies.items():
        if len(reply.notes) != len(recipients[sender]):
            raise BadReplyError(phase, sender, "it has no note for each other holder")
        for recipient, note in zip(recipients[sender], reply.notes, strict=True):
            notes[sender, recipient] = note
    return notes


class _Common:
    """The cells that two clients both hold: all common rows by all common columns."""

    def __init__(self, layout: Layout, holders: Sequence[CellHolders]) -> None:
        rows = [own.row_groups for own in holders]
        columns = [own.column_groups for own in holders]
        self._rows = _HeldGroups(layout.samples, rows)
        self._columns = _HeldGroups(layout.features, columns)

    def partners(self, client: int) -> list[int]:
        """Return the other clients that hold some of a client's cells."""
        has_row = self._rows.holders(client).any(axis=1)
        has_column = self._columns.holders(client).any(axis=1)
        others = np.flatnonzero(has_row & has_column).tolist()
        return [other for other in others if other != client]

    def of(self, client: int, partners: Sequence[int]) -> m.CommonCells:
        """Return which of a client's cells some others hold too."""
        return m.CommonCells(*self._parts(client, partners))

    def known(
        self, client: int, askers: Sequence[int], notes: list[memoryview]
    ) -> m.KnownRequest:
        """Return the requests with the notes of those that ask."""
        return m.KnownRequest(*self._parts(client, askers), notes)

    def fill(
        self, client: int, partners: Sequence[int], notes: list[memoryview]
    ) -> m.FillRequest:
        """Return the requests with the notes of those that answer."""
        return m.FillRequest(*self._parts(client, partners), notes)

    def _parts(
        self, client: int, partners: Sequence[int]
    ) -> tuple[list[int], memoryview, memoryview]:
        chosen = list(partners)
        rows = self._rows.holders(client)[chosen]
        columns = self._columns.holders(client)[chosen]
        return chosen, pack_bits(rows), pack_bits(columns)


class _HeldGroups:
    """Who holds the owner groups of an axis, by the clients' own numbers of these.

    Parameters
    ----------
    numbers : sequence of arrays
        By client, its own number of each item's group.
    """

    def __init__(self, axis: Axis, numbers: Sequence[IntArray]) -> None:
        self._axis, self._numbers = axis, numbers
        self._groups = owner_groups(axis)
        self._holders = group_holders(axis, self._groups)

    def holders(self, client: int) -> BoolArray:
        """Return who holds each of a client's groups, (clients, groups)."""
        first = np.unique(self._numbers[client], return_index=True)[1]
        groups = self._groups[self._axis.items[client][first]]
        return np.asarray(self._holders[groups].T)

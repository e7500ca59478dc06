"""Passes hints on how to round cells from owners to the other holders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.holdings.layout import Layout
from hyfdca.holdings.ownership import CellHolders
from hyfdca.protocol.codec import pack_bits, pack_indices
from hyfdca.protocol.server_session import BadReplyError, Conversation, ServerSession
from hyfdca.stages.alignment import messages as m

Rectangle = tuple[int, int]  # its first sample, and its column group on the axis


def ask_hints(
    layout: Layout,
    holders: Sequence[CellHolders],
    places: Mapping[int, IntArray],
    by: m.Line,
    session: ServerSession,
) -> Conversation[dict[int, list[memoryview]]]:
    """Return the hints for each client, in the order in which it lists its groups.

    Parameters
    ----------
    places : mapping of int to array
        The column groups of each client that are compared, by its own numbers.
    """
    names = Rectangles(layout, holders, places)
    owned = {client: names.is_owned(client) for client in places}
    requests = {
        client: m.HintsRequest(pack_indices(places[client]), pack_bits(is_owned), by)
        for client, is_owned in owned.items()
        if is_owned.any()
    }
    replies = yield from session.ask("hints", requests, m.Hints)
    hints: dict[Rectangle, memoryview] = {}
    for client, reply in replies.items():
        asked = list(names.of(client, owned[client]))
        if len(asked) != len(reply.hints):
            raise BadReplyError("hints", client, "it left out hints of its cells")
        hints.update(zip(asked, reply.hints, strict=True))
    return {
        client: [hints[name] for name in names.of(client, names.is_others(client))]
        for client in places
    }


class Rectangles:
    """Gives rectangles of cells names that are the same for all holders."""

    def __init__(
        self,
        layout: Layout,
        holders: Sequence[CellHolders],
        places: Mapping[int, IntArray],
    ) -> None:
        self._samples, self._holders, self._places = layout.samples, holders, places

    def is_owned(self, client: int) -> BoolArray:
        """Return which of its rectangles a client owns and others hold too."""
        own, columns = self._holders[client], self._places[client]
        return own.is_shared[:, columns] & np.equal(own.owners[:, columns], client)

    def is_others(self, client: int) -> BoolArray:
        """Return which of its rectangles another client owns."""
        own, columns = self._holders[client], self._places[client]
        return own.is_shared[:, columns] & np.not_equal(own.owners[:, columns], client)

    def of(self, client: int, is_meant: BoolArray) -> Iterator[Rectangle]:
        """Return a client's rectangles by column group, then by row group."""
        own = self._holders[client]
        # All holders of a row group have the same rows of it, in the same order.
        first = np.unique(own.row_groups, return_index=True)[1]
        samples = self._samples.items[client][first]
        places, row_groups = np.nonzero(is_meant.T)
        columns = own.columns[self._places[client][places]]
        yield from zip(samples[row_groups].tolist(), columns.tolist(), strict=True)

"""A point of the curves, the server's half: the present model on rows set aside.

It is a separate conversation between two rounds, which does not change the training.
Scores come as in the evaluation (``stages/evaluation/scores.py``), then sums over the
rows of all label holders, which one client opens for the server.

| phase             | who           | down                      | up               |
|-------------------|---------------|---------------------------|------------------|
| validation point  | everybody     | the round, which weights, | -                |
|                   |               | levels of its categories  |                  |
| arrange held-out, | as in the evaluation                                         |
| ..., scores       |                                                              |
| validation bounds | label holders | -                         | powers of two    |
| validation sums   | label holders | grids                     | rows, weights,   |
|                   |               |                           | losses, errors   |
| open measures     | one client    | sums of all parts         | the sums, open   |

Every client scores with its own weights; the server sees none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.registry import Adders
from hyfdca.data.labels import n_outputs
from hyfdca.federation.server import Point
from hyfdca.model.file import CategoryEntry
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import Conversation, ServerSession, reply_of
from hyfdca.stages.alignment.server import Alignment
from hyfdca.stages.evaluation.scores import HeldOut, ScoresServer
from hyfdca.stages.evaluation.totals import TotalsServer, largest_bounds
from hyfdca.stages.levels.messages import ColumnLevels
from hyfdca.stages.validation import messages as m
from hyfdca.stages.validation.sums import as_entries, n_sums


class ValidationServer:
    """Lets clients score rows set aside with their present weights.

    Parameters
    ----------
    alignment : Alignment
        The alignment of the rows set aside.
    entries : mapping of str to CategoryEntry
        By column that is a category.
    """

    def __init__(
        self,
        alignment: Alignment,
        entries: Mapping[str, CategoryEntry],
        adders: Adders,
        session: ServerSession,
    ) -> None:
        self._alignment, self._entries = alignment, entries
        self._adders, self._session = adders, session
        self.held_out = HeldOut(alignment.layout.samples, alignment.label_owners)
        self._everyone = range(alignment.layout.n_clients)
        self._totals = TotalsServer(
            adders, session, self.held_out.receivers, self._everyone
        )

    def run(self, round_number: int, point: Point) -> Conversation[dict[str, float]]:
        """Return the loss and the score of a point, for the record of its round."""
        request = msgspec.msgpack.encode(point.request)
        free = point.intercepts
        intercepts = () if free is None else tuple(free.ravel().tolist())
        notices = {
            client: m.PointNotice(round_number, request, intercepts, levels)
            for client, levels in self._levels.items()
        }
        yield from self._session.tell("validation point", notices)
        width, session = n_outputs(self._alignment.classes), self._session
        yield from ScoresServer(self.held_out, width, self._adders, session).run()
        bounds = yield from self._bounds()
        totals = yield from self._totals.gather(
            "validation sums", m.SumsRequest, bounds, [1] * len(bounds)
        )
        assert totals is not None  # noqa: S101  # nobody may withhold its part
        with reply_of(*self._totals.contributors):
            return self._entries_of(totals)

    @cached_property
    def _levels(self) -> dict[int, list[ColumnLevels]]:
        """The levels of each client's own categories, in the order of its columns."""
        features = self._alignment.layout.features
        columns = {name: _levels_of(entry) for name, entry in self._entries.items()}
        names = self._alignment.features
        return {
            client: [
                columns[names[item]]
                for item in features.items[client].tolist()
                if names[item] in columns
            ]
            for client in self._everyone
        }

    def _bounds(self) -> Conversation[list[float]]:
        """Return a bound on each sum of every client."""
        replies = yield from self._totals.ask(
            "validation bounds", Message(), m.SumBounds
        )
        sums = {client: reply.sums for client, reply in replies.items()}
        return largest_bounds(sums, n_sums(len(self._alignment.classes)))

    def _entries_of(self, totals: list[FloatArray]) -> dict[str, float]:
        if totals[0][0] != len(self.held_out.owners):
            raise RemoteProtocolError("other rows were measured than those set aside")
        return as_entries(totals, len(self._alignment.classes))


def _levels_of(entry: CategoryEntry) -> ColumnLevels:
    return ColumnLevels(list(entry.levels or ()), entry.reference, entry.has_other)

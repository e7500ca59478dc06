"""Scores of rows that several organisations hold: one sealed sum over holders.

It follows an alignment of the rows that one client, the asker, holds. All others align
only such rows, so no block has a slot for a row that the asker does not hold.

| phase      | who       | down                   | up                                 |
|------------|-----------|------------------------|------------------------------------|
| arrange    | everybody | schemes, owner groups  | -                                  |
| part bound | everybody | -                      | a power of two above all its parts |
| parts      | everybody | grids                  | parts of margins and numbers of    |
|            |           |                        | cells in them, sealed              |
| scores     | the asker | both sums, sealed      | -                                  |

The bound is that of Cauchy and Schwarz, from the longest row and the model. So it
reveals nothing about a score, and no part is ever too large for its grid. The number of
cells shows the asker whether a row is complete and no cell was counted twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.arrangement import opaque_groups
from hyfdca.crypto.schemes.fixedpoint import Grid, grid_for
from hyfdca.crypto.schemes.registry import Adders, Sealers
from hyfdca.federation.blame import sums_of
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sealing.unopened import UnopenedError
from hyfdca.federation.sums import CachedSum, whole_layout
from hyfdca.holdings.axis import owner_groups
from hyfdca.holdings.layout import Layout
from hyfdca.prediction import messages as p
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices
from hyfdca.protocol.messages import GridSpec, Message
from hyfdca.protocol.server_session import Conversation, ServerSession, reply_of
from hyfdca.stages.score_parts import OwnParts

LARGEST = 2.0**400  # limit of a part; its square is still finite


class ScoringServer:
    """The server's half: it adds, and reads nothing."""

    def __init__(
        self, layout: Layout, n_outputs: int, adders: Adders, session: ServerSession
    ) -> None:
        self._layout, self._width, self._session = layout, n_outputs, session
        self._sum_bits = adders.encryption.sum_bits
        groups = owner_groups(layout.samples)
        self._groups = opaque_groups(groups, adders.group_secret, "predicted rows")
        # Each part is sealed to the asker alone, number by number as totals are.
        self._scheme = adders.encryption.totals
        self._adder = adders.named(self._scheme)

    @property
    def _n_holders(self) -> int:
        return int(self._layout.samples.counts.max(initial=1))

    @property
    def _everyone(self) -> range:
        return range(self._layout.n_clients)

    def run(self, asker: int) -> Conversation[None]:
        """Add all clients' parts, and send the sums to the asker."""
        notices = {client: self._arrangements(client) for client in self._everyone}
        yield from self._session.tell("arrange", notices)
        request = p.PartsRequest(
            _spec((yield from self._grid())),
            _spec(self._grid_for(self._layout.features.n_items)),
        )
        replies = yield from self._session.ask(
            "parts", dict.fromkeys(self._everyone, request), p.ScoreParts
        )
        margins, cells = self._sum(self._width), self._sum(1)
        for client, reply in replies.items():
            with reply_of(client):
                _check_grids(reply, request)
            margins.put(client, reply.margins)
            cells.put(client, reply.cells)
        scores = p.ScoresNotice(margins.take(asker), cells.take(asker))
        with sums_of(self._layout):
            yield from self._session.tell("scores", {asker: scores})

    def _grid(self) -> Conversation[Grid]:
        """Return the finest grid on which no sum of parts can overflow."""
        requests = dict.fromkeys(self._everyone, Message())
        bounds = yield from self._session.ask("part bound", requests, p.PartBound)
        return self._grid_for(max(reply.bound for reply in bounds.values()))

    def _grid_for(self, bound: float) -> Grid:
        return grid_for(bound, self._n_holders, self._sum_bits)

    def _sum(self, width: int) -> CachedSum:
        axis = self._layout.samples
        return CachedSum(whole_layout(axis, self._groups, width, self._adder))

    def _arrangements(self, client: int) -> Arrangements:
        groups = pack_indices(self._groups[self._layout.samples.items[client]])
        return Arrangements(self._scheme, self._scheme, groups)


@dataclass(frozen=True, repr=False)
class ScoreSums:
    """The sums over holders that an asker opens, by row.

    Parameters
    ----------
    margins : array (rows held, n_outputs)
    n_cells : array (rows held,)
    """

    margins: FloatArray
    n_cells: IntArray


class ScoringClient:
    """A client's half; it sends its parts once.

    Parameters
    ----------
    asker : int
        The rank of the client that its parts are sealed to.
    shape : (int, int)
        How many of the requested rows it holds, and outputs of the model.
    parts : callable
        Returns its parts, once its rows are aligned.
    take : callable, optional
        Takes the sums; None for clients that do not ask, which accept no scores.
    """

    def __init__(
        self,
        sealers: Sealers,
        asker: int,
        shape: tuple[int, int],
        parts: Callable[[], OwnParts],
        take: Callable[[ScoreSums], None] | None = None,
    ) -> None:
        n_rows, n_outputs = shape
        self._sealing = Sealing("sealed", sealers, (n_rows, 0), n_outputs, asker)
        self._parts, self._take, self._has_given = parts, take, False

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            "arrange": self._sealing.arrange,
            "part bound": self._bound,
            "parts": self._give,
            "scores": self._take_scores,
        }

    def _bound(self, _: Message) -> p.PartBound:
        bound = self._parts().bound
        if not bound < LARGEST:
            raise RemoteProtocolError(
                "its cells are so large that their margins overflow"
            )
        return p.PartBound(bound)

    def _give(self, request: p.PartsRequest) -> p.ScoreParts:
        if self._has_given:
            raise RemoteProtocolError("it has already sent its parts")
        parts, sealing = self._parts(), self._sealing
        margins = sealing.encoded(parts.margins, request.grid)
        counts = parts.n_cells[:, None].astype(np.float64)
        cells = sealing.encoded(counts, request.cells_grid)
        self._has_given = True
        return p.ScoreParts(
            sealing.sealed_samples("scores", margins, request.grid),
            sealing.sealed_samples("cell counts", cells, request.cells_grid),
        )

    def _take_scores(self, notice: p.ScoresNotice) -> None:
        if self._take is None or not self._has_given:
            raise RemoteProtocolError("it is not waiting for scores")
        margins = self._sealing.opened_samples("scores", notice.margins)
        opened = self._sealing.opened_samples("cell counts", notice.cells, width=1)
        counts = opened[:, 0]
        n_cells = np.rint(counts).astype(np.int64)
        if np.any(n_cells != counts):
            raise UnopenedError
        self._take(ScoreSums(margins, n_cells))


def _spec(grid: Grid) -> GridSpec:
    return GridSpec(grid.fraction_bits, grid.limit_bits)


def _check_grids(reply: p.ScoreParts, request: p.PartsRequest) -> None:
    got = (reply.margins.fraction_bits, reply.cells.fraction_bits)
    if got != (request.grid.fraction_bits, request.cells_grid.fraction_bits):
        raise RemoteProtocolError("it answers on another grid")

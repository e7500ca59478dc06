"""Scores of rows set aside: each is a sealed sum that its label holder alone opens.

| phase            | who           | down                   | up                       |
|------------------|---------------|------------------------|--------------------------|
| arrange held-out | everybody     | owner groups, label    | -                        |
|                  |               | holders of its rows    |                          |
| held-out bound   | everybody     | -                      | a power of two above all |
|                  |               |                        | its parts                |
| held-out parts   | everybody     | a grid                 | parts of scores, sealed  |
|                  |               |                        | to each label holder     |
| held-out scores  | label holders | sums of their own rows | -                        |

The bound is that of Cauchy and Schwarz, as in predictions: it reveals no score.
A part is sealed with a key of its sender and the label holder, so no other holder of
the row could open it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.arrangement import opaque_groups
from hyfdca.crypto.schemes.fixedpoint import grid_for
from hyfdca.crypto.schemes.registry import Adders, Sealers
from hyfdca.federation.messages import Arrangements
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sums import CachedSum, check_grid, whole_layout
from hyfdca.holdings.axis import Axis, owner_groups, renumbered
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices, unpack_places
from hyfdca.protocol.messages import GridSpec, Message
from hyfdca.protocol.server_session import BadReplyError, Conversation, ServerSession
from hyfdca.stages.evaluation import messages as m
from hyfdca.stages.score_parts import OwnParts

LARGEST = 2.0**400  # limit of a part; its square is still finite
_MOST_GROUPS = 2**31


@dataclass(frozen=True)
class HeldOut:
    """Who holds the rows set aside, and who has their labels.

    Parameters
    ----------
    owners : array (samples,)
        The client that has the label of each row, and so receives its score.
    """

    samples: Axis
    owners: IntArray

    @cached_property
    def receivers(self) -> list[int]:
        """The clients that receive scores."""
        found: list[int] = np.unique(self.owners).tolist()
        return found

    @cached_property
    def groups(self) -> IntArray:
        """Rows with the same holders and the same label holder, by number."""
        by_owner = owner_groups(self.samples) * len(self.samples.items) + self.owners
        return renumbered(by_owner)

    def rows_of(self, owner: int) -> Axis:
        """Return the rows of a label holder, numbered on their own."""
        is_own = np.equal(self.owners, owner)
        numbers = np.cumsum(is_own) - 1
        items = tuple(numbers[held[is_own[held]]] for held in self.samples.items)
        return Axis(int(is_own.sum()), items)


class ScoresServer:
    """The server's half: it adds, and reads nothing."""

    def __init__(
        self, held_out: HeldOut, n_outputs: int, adders: Adders, session: ServerSession
    ) -> None:
        self._held_out, self._width, self._session = held_out, n_outputs, session
        self._sum_bits = adders.encryption.sum_bits
        self._scheme = adders.encryption.totals
        self._adder = adders.named(self._scheme)
        secret = adders.group_secret
        self._groups = opaque_groups(held_out.groups, secret, "held-out rows")

    @property
    def _everyone(self) -> range:
        return range(len(self._held_out.samples.items))

    def run(self) -> Conversation[None]:
        """Add all clients' parts, and send each label holder its sums."""
        notices = {client: self._arrangements(client) for client in self._everyone}
        yield from self._session.tell("arrange held-out", notices)
        request = m.HeldOutRequest((yield from self._grid()))
        replies = yield from self._session.ask(
            "held-out parts", dict.fromkeys(self._everyone, request), m.HeldOutParts
        )
        sums = {owner: self._sum(owner) for owner in self._held_out.receivers}
        for client, reply in replies.items():
            n_vectors = len(reply.vectors)
            if reply.owners != self._owners_of(client) or n_vectors != len(
                reply.owners
            ):
                raise BadReplyError("", client, "it has parts for other label holders")
            for owner, vector in zip(reply.owners, reply.vectors, strict=True):
                check_grid(client, vector, request.grid.fraction_bits)
                sums[owner].put(client, vector)
        scores = {o: m.HeldOutScores(own.take(o)) for o, own in sums.items()}
        yield from self._session.tell("held-out scores", scores)

    def _owners_of(self, client: int) -> list[int]:
        held = self._held_out.samples.items[client]
        found: list[int] = np.unique(self._held_out.owners[held]).tolist()
        return found

    def _arrangements(self, client: int) -> m.HeldOutArrangements:
        held = self._held_out.samples.items[client]
        return m.HeldOutArrangements(
            self._scheme,
            self._scheme,
            sample_groups=pack_indices(self._groups[held]),
            owners=pack_indices(self._held_out.owners[held]),
        )

    def _grid(self) -> Conversation[GridSpec]:
        """Return the finest grid on which no sum of parts can overflow."""
        requests = dict.fromkeys(self._everyone, Message())
        bounds = yield from self._session.ask(
            "held-out bound", requests, m.HeldOutBound
        )
        n_holders = int(self._held_out.samples.counts.max(initial=1))
        largest = max(reply.bound for reply in bounds.values())
        grid = grid_for(largest, n_holders, self._sum_bits)
        return GridSpec(grid.fraction_bits, grid.limit_bits)

    def _sum(self, owner: int) -> CachedSum:
        axis = self._held_out.rows_of(owner)
        groups = self._groups[self._held_out.owners == owner]
        return CachedSum(whole_layout(axis, groups, self._width, self._adder))


class ScoresClient:
    """A client's half.

    Parameters
    ----------
    shape : (int, int)
        How many of the rows it holds, and outputs of the model.
    n_clients : int
        The number of clients in the study.
    """

    def __init__(
        self, sealers: Sealers, shape: tuple[int, int], rank: int, n_clients: int
    ) -> None:
        self._sealers, (self._n_rows, self._width) = sealers, shape
        self._n_clients, self._rank = n_clients, rank
        self._sealings: dict[int, Sealing] = {}
        self.owners = np.empty(0, np.int64)

    @property
    def own_rows(self) -> IntArray:
        """The rows whose labels the client holds for all."""
        return np.flatnonzero(self.owners == self._rank)

    def arrange(self, notice: m.HeldOutArrangements, row_groups: IntArray) -> None:
        """Take who has the label of each row.

        Parameters
        ----------
        row_groups : array (rows,)
            The owner group of each row in the alignment. A server that divided these
            could leave out the parts of all rows but one.
        """
        if notice.owners is None or notice.sample_groups is None:
            raise RemoteProtocolError("nobody is named to receive scores")
        self.owners = unpack_places(notice.owners, self._n_rows, self._n_clients)
        groups = unpack_places(notice.sample_groups, self._n_rows, _MOST_GROUPS)
        aligned = row_groups * self._n_clients + self.owners
        _, first, places = np.unique(aligned, return_index=True, return_inverse=True)
        if np.any(groups != groups[first][places]):
            raise RemoteProtocolError("rows have other groups than when aligned")
        for owner in np.unique(self.owners).tolist():
            rows = np.flatnonzero(self.owners == owner)
            shape = (len(rows), 0)
            sealing = Sealing("sealed", self._sealers, shape, self._width, owner)
            own = pack_indices(groups[rows])
            sealing.arrange(Arrangements(notice.samples, notice.features, own))
            self._sealings[owner] = sealing

    def bound(self, parts: OwnParts) -> m.HeldOutBound:
        """Return a bound on the parts of all rows."""
        if not parts.bound < LARGEST:
            raise RemoteProtocolError(
                "its cells are so large that their margins overflow"
            )
        return m.HeldOutBound(parts.bound)

    def give(self, parts: OwnParts, request: m.HeldOutRequest) -> m.HeldOutParts:
        """Return the parts, each sealed to the label holder of the row."""
        vectors = []
        for owner, sealing in self._sealings.items():
            own = parts.margins[self.owners == owner]
            numbers = sealing.encoded(own, request.grid)
            vectors.append(
                sealing.sealed_samples("held-out scores", numbers, request.grid)
            )
        return m.HeldOutParts(list(self._sealings), vectors)

    def take(self, notice: m.HeldOutScores) -> FloatArray:
        """Return the sums of the client's own rows, (own rows, n_outputs)."""
        if self._rank not in self._sealings:
            raise RemoteProtocolError("it is not waiting for scores")
        return self._sealings[self._rank].opened_samples(
            "held-out scores", notice.scores
        )

"""Several totals at once, each on a grid of its own; one client opens their sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError, grid_for
from hyfdca.crypto.schemes.registry import Adders
from hyfdca.federation.messages import Opened, OpenRequest
from hyfdca.federation.sealing import Sealing
from hyfdca.federation.sums import check_grid, sum_of
from hyfdca.protocol.codec import RemoteProtocolError, pack_reals, unpack_reals
from hyfdca.protocol.messages import Message, Parts, TotalsSpec
from hyfdca.protocol.sessions import (
    BadReplyError,
    Conversation,
    ServerSession,
    reply_of,
)

_OPEN = "open measures"
_MOST_TOTALS = 10_000_000  # numbers


class TotalsServer:
    """The server's half.

    Parameters
    ----------
    senders : sequence of int
        The clients that have something to add.
    opener : int
        The client that opens the sums.
    """

    def __init__(
        self,
        adders: Adders,
        session: ServerSession,
        senders: Sequence[int],
        opener: int,
    ) -> None:
        self._adders, self._session = adders, session
        self.senders, self._opener = senders, opener

    @property
    def contributors(self) -> list[int]:
        """Those who add to sums or open them."""
        return sorted({*self.senders, self._opener})

    def specs(self, bounds: Sequence[float]) -> list[TotalsSpec]:
        """Return grids on which no sum of parts within these bounds overflows."""
        bits, n_senders = self._adders.encryption.sum_bits, len(self.senders)
        grids = [grid_for(bound, n_senders, bits) for bound in bounds]
        return [TotalsSpec(g.fraction_bits, g.limit_bits, self._opener) for g in grids]

    def ask(self, phase: str, request: Message) -> Conversation[dict[int, Message]]:
        """Ask all senders."""
        requests = dict.fromkeys(self.senders, request)
        replies = yield from self._session.ask(phase, requests, Message)
        return replies

    def gather(
        self,
        phase: str,
        make: Callable[[list[TotalsSpec]], Message],
        bounds: Sequence[float],
        widths: Sequence[int],
    ) -> Conversation[list[FloatArray] | None]:
        """Return sums over all senders; None if one of them withholds its part."""
        specs = self.specs(bounds)
        replies = yield from self.ask(phase, make(specs))
        parts = {c: reply for c, reply in replies.items() if isinstance(reply, Parts)}
        if len(parts) < len(replies):
            return None
        for client, part in parts.items():
            if len(part.vectors) != len(specs):
                raise BadReplyError(phase, client, "it sent another number of totals")
        sums = []
        for place, (spec, width) in enumerate(zip(specs, widths, strict=True)):
            vectors = {client: part.vectors[place] for client, part in parts.items()}
            for client, vector in vectors.items():
                check_grid(client, vector, spec.fraction_bits)
            sums.append(sum_of(vectors, width, self._adders))
        opened = yield from self._opened(OpenRequest(sums, [(1, w) for w in widths]))
        for values, spec in zip(opened, specs, strict=True):
            self._check_range(values, spec)
        return opened

    def _opened(self, request: OpenRequest) -> Conversation[list[FloatArray]]:
        opener, sizes = self._opener, [width for _, width in request.shapes]
        replies = yield from self._session.ask(_OPEN, {opener: request}, Opened)
        with reply_of(opener):
            numbers = unpack_reals(replies[opener].values, sum(sizes))
        return np.split(numbers, np.cumsum(sizes)[:-1])

    def _check_range(self, values: FloatArray, spec: TotalsSpec) -> None:
        """Refuse totals that no sum on such a grid can be."""
        most = math.ldexp(1.0, self._adders.encryption.sum_bits - spec.fraction_bits)
        if not np.abs(values).max(initial=0.0) <= most:
            raise BadReplyError(_OPEN, self._opener, "a total is beyond its range")


def sealed_parts(
    sealing: Sealing, values: Sequence[FloatArray], specs: Sequence[TotalsSpec]
) -> Parts:
    """Return a client's parts of totals, each on its grid."""
    if len(values) != len(specs):
        raise RemoteProtocolError("another number of totals is asked for")
    try:
        return Parts(
            [
                sealing.sealed_totals("totals", own, spec)
                for own, spec in zip(values, specs, strict=True)
            ]
        )
    except GridOverflowError:
        raise RemoteProtocolError("the grid is too fine for these sums") from None


def open_totals(sealing: Sealing, request: OpenRequest) -> Opened:
    """Open the sums of all clients and report them."""
    if len(request.totals) != len(request.shapes):
        raise RemoteProtocolError("totals and their shapes do not match")
    if sum(rows * width for rows, width in request.shapes) > _MOST_TOTALS:
        raise RemoteProtocolError("too many totals to open at once")
    pairs = zip(request.totals, request.shapes, strict=True)
    opened = [
        sealing.opened_totals("totals", own, shape).ravel() for own, shape in pairs
    ]
    return Opened(pack_reals(np.concatenate([*opened, np.empty(0)])))

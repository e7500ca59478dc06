"""Several totals at once, each on its own grid; one client opens their sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError, grid_for
from hyfdca.crypto.schemes.registry import Adders
from hyfdca.federation.blame import blamed
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sums import check_grid
from hyfdca.federation.totals import (
    opened_totals,
    openers_among,
    requests_to_open,
    senders_of,
    summed,
)
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message, TotalsSpec
from hyfdca.protocol.server_session import (
    BadReplyError,
    ClientsFailedError,
    Conversation,
    ServerSession,
    reply_of,
)
from hyfdca.stages.evaluation.messages import MeasureParts

T = TypeVar("T")

_OPEN = "open measures"


class TotalsServer:
    """The server's half.

    Parameters
    ----------
    senders : sequence of int
        The clients that have something to add.
    everyone : sequence of int
        They include the client that opens the sums, and the one that vouches.
    """

    def __init__(
        self,
        adders: Adders,
        session: ServerSession,
        senders: Sequence[int],
        everyone: Sequence[int],
    ) -> None:
        self._adders, self._session = adders, session
        self.senders, self._everyone = senders, everyone

    @property
    def contributors(self) -> list[int]:
        """Those who add to sums or open them."""
        return sorted({*self.senders, min(self._everyone)})

    def ask(
        self, phase: str, request: Message, kind: type[T]
    ) -> Conversation[dict[int, T]]:
        """Ask all senders."""
        requests = dict.fromkeys(self.senders, request)
        replies = yield from self._session.ask(phase, requests, kind)
        return replies

    def gather(
        self,
        phase: str,
        make: Callable[[list[TotalsSpec]], Message],
        bounds: Sequence[float],
        widths: Sequence[int],
    ) -> Conversation[list[FloatArray] | None]:
        """Return sums over all senders; None if one of them withholds its part.

        The grids are such that no sum of parts within these bounds overflows.
        """
        adders, session = self._adders, self._session
        openers = openers_among(self._everyone, adders, session.number)
        bits, n_senders = adders.encryption.sum_bits, len(self.senders)
        grids = [grid_for(bound, n_senders, bits) for bound in bounds]

        def request(client: int) -> Message:
            seed = b"" if client == openers.opener else openers.seed
            opening = (openers.opener, openers.witness, seed)
            return make(
                [
                    TotalsSpec(grid.fraction_bits, grid.limit_bits, *opening)
                    for grid in grids
                ]
            )

        requests = {client: request(client) for client in self.senders}
        replies = yield from session.ask(phase, requests, Message)
        parts = {c: own for c, own in replies.items() if isinstance(own, MeasureParts)}
        if len(parts) < len(replies):
            return None
        for client, part in parts.items():
            if len(part.vectors) != len(grids):
                raise BadReplyError(phase, client, "it sent another number of totals")
        totals = []
        for place, (grid, width) in enumerate(zip(grids, widths, strict=True)):
            vectors = {client: part.vectors[place] for client, part in parts.items()}
            for client, vector in vectors.items():
                check_grid(client, vector, grid.fraction_bits)
            totals.append(summed(vectors, (1, width), openers, adders))
        opening = requests_to_open(totals, openers, session.present)
        try:
            answers = yield from session.ask(_OPEN, opening, Message)
        except ClientsFailedError as error:
            raise blamed(error, lambda _: senders_of(totals)) from None
        opened = opened_totals(answers, totals, openers, adders.encryption)
        return [own.ravel() for own in opened]


def largest_bounds(
    by_client: Mapping[int, Sequence[float]], n_sums: int
) -> list[float]:
    """Return the largest bound on each sum; refuse another number of them."""
    for client, own in by_client.items():
        with reply_of(client):
            if len(own) != n_sums:
                raise RemoteProtocolError("it has bounds of other sums")
    return [max(each) for each in zip(*by_client.values(), strict=True)]


def sealed_parts(
    sealing: Sealing, values: Sequence[FloatArray], specs: Sequence[TotalsSpec]
) -> MeasureParts:
    """Return a client's parts of totals, each on its grid."""
    if len(values) != len(specs):
        raise RemoteProtocolError("another number of totals is asked for")
    try:
        return MeasureParts(
            [
                sealing.sealed_totals("totals", own, spec)
                for own, spec in zip(values, specs, strict=True)
            ]
        )
    except GridOverflowError:
        raise RemoteProtocolError("the grid is too fine for these sums") from None

"""A client that opens grand totals, or vouches for the one that does."""

from __future__ import annotations

import numpy as np

from hyfdca.federation import messages as m
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sealing.witness import Witness
from hyfdca.protocol.codec import RemoteProtocolError, pack_numbers

_MOST_TOTALS = 100_000_000  # numbers
_NOTHING = np.empty(0, np.int64)


class Opening:
    """Answers requests to open totals.

    Parameters
    ----------
    rank : int
        The client's own.
    """

    def __init__(self, sealing: Sealing, rank: int) -> None:
        self._sealing, self._witness = sealing, Witness(sealing, rank)

    def answer(self, request: m.OpenRequest) -> m.Opened | m.Vouched:
        """Open grand totals and report them, or vouch for the client that does."""
        if sum(rows * width for rows, width in request.shapes) > _MOST_TOTALS:
            raise RemoteProtocolError("too many totals to open at once")
        if request.seed:
            return self._witness.vouch(request)
        if len(request.totals) != len(request.shapes):
            raise RemoteProtocolError("totals and their shapes do not match")
        opened = self._sealing.opened_numbers(
            request.totals, request.shapes, request.witness
        )
        flat = map(np.ravel, opened)
        return m.Opened(pack_numbers(np.concatenate([*flat, _NOTHING])))

"""A client that opens grand totals, or vouches for the one that does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyfdca.federation import messages as m
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sealing.witness import Witness
from hyfdca.protocol.codec import RemoteProtocolError, pack_numbers

_NOTHING = np.empty(0, np.int64)
_FEW = 1 << 17  # pads that cost nothing: of all totals of a training but Gram entries

Shapes = list[tuple[int, int]]  # of several totals


class Opening:
    """Answers requests to open totals.

    Parameters
    ----------
    rank : int
        The client's own.
    """

    def __init__(self, sealing: Sealing, rank: int) -> None:
        self._sealing, self._witness = sealing, Witness(sealing, rank)

    def answer(
        self,
        request: m.OpenRequest,
        shapes: Sequence[Shapes] | None = None,
        n_free: int = _FEW,
    ) -> m.Opened | m.Vouched:
        """Open grand totals and report them, or vouch for the client that does.

        Parameters
        ----------
        shapes : sequence of list of (int, int), optional
            Those that the totals of the phase may have.
        n_free : int
            How many numbers it vouches for without having sealed any itself.
        """
        if shapes is not None and request.shapes not in shapes:
            raise RemoteProtocolError("these totals are not those of the phase")
        if sum(rows * width for rows, width in request.shapes) > m.MOST_TOTALS:
            raise RemoteProtocolError("too many totals to open at once")
        if request.seed:
            return self._witness.vouch(request, n_free)
        if len(request.totals) != len(request.shapes):
            raise RemoteProtocolError("totals and their shapes do not match")
        opened = self._sealing.opened_numbers(
            request.totals, request.shapes, request.witness
        )
        flat = map(np.ravel, opened)
        return m.Opened(pack_numbers(np.concatenate([*flat, _NOTHING])))

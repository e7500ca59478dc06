"""Margins x_i·w as sums over holders, of all samples or of those drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.federation.client import Party
from hyfdca.federation.sealing.client_sealing import Rows
from hyfdca.federation.sealing.kinds import VectorKind
from hyfdca.federation.server import Federation
from hyfdca.federation.sums import CachedSum
from hyfdca.protocol.codec import pack_indices
from hyfdca.protocol.messages import GridSpec, Message, Part, TooLarge
from hyfdca.protocol.server_session import Conversation


def gather_margins(
    federation: Federation,
    phase: str,
    clients: Iterable[int],
    margins: CachedSum,
    positions: Callable[[int], IntArray | None],
    request: Callable[[int, memoryview | None, GridSpec], Message],
) -> Conversation[dict[int, Part]]:
    """Let clients replace their parts of the margins, at some positions or at all.

    ``request`` makes a client's request from its number, the packed positions and the
    grid. Absent clients' parts stay.
    """
    grid = federation.grids.margins

    def wanted(client: int) -> IntArray | None:
        # A part is on one grid: after a change of grid all of it is sent.
        held = margins.fraction_bits(client)
        return positions(client) if held in (None, grid.fraction_bits) else None

    parts = yield from federation.gather(
        phase,
        clients,
        [grid],
        lambda client: request(client, pack_indices(wanted(client)), grid.spec),
        Part,
    )
    for client, part in parts.items():
        margins.put(client, part.vector, wanted(client))
    return parts


class SentMargins:
    """A client's margins as last sent: packed schemes replace whole blocks."""

    def __init__(self, party: Party) -> None:
        self._party = party
        self.numbers: IntArray | None = None

    def part(self, margins: FloatArray, rows: Rows, grid: GridSpec) -> Message:
        """Return margins of some rows, or the request for a coarser grid."""
        sealing = self._party.sealing
        try:
            numbers = sealing.encoded(margins, grid)
        except GridOverflowError:
            return TooLarge()
        rest = None
        if sealing.is_packed(VectorKind("samples", "drawn margins")):
            shape = (self._party.n_held, margins.shape[1])
            sent = self.numbers
            rest = np.zeros(shape, np.int64) if sent is None else sent.copy()
            rest[rows] = numbers
        reply = Part(sealing.sealed_samples("drawn margins", numbers, grid, rows, rest))
        self.numbers = rest
        return reply

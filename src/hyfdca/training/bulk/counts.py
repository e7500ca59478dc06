"""The costs of a simulated round, by client and on the wire."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.runtime.driver import Traffic

# Columns of counts
WORK, SEALED, OPENED, SEALED_DRAWN = range(4)
N_COUNTS = 4


@dataclass(frozen=True)
class RoundCounts:
    """The costs of one round's participants.

    Parameters
    ----------
    participants : array (clients,)
    per_client : array (clients, 4)
        Stored values read, numbers sealed and numbers opened, see ``traffic.py``; and
        numbers sealed if only margins of drawn samples were sent, as the paper counts.
    traffic : Traffic
        Bytes and round trips of all participants together.
    unread_seconds : float
        CPU time of the participant with most rows for margins that nobody needs in this
        round: the simulation skips them.
    """

    participants: IntArray
    per_client: IntArray
    traffic: Traffic
    unread_seconds: float = 0.0

    @property
    def totals(self) -> IntArray:
        """What all participants together read, sealed and opened."""
        return np.asarray(self.per_client.sum(axis=0))

    @property
    def busiest(self) -> IntArray:
        """The most that one participant read, sealed and opened, separately."""
        return np.asarray(self.per_client.max(axis=0, initial=0))

    @property
    def slowest_share(self) -> float:
        """The work of the participant with most of it, as a share of all work."""
        work = self.per_client[:, WORK]
        return float(work.max(initial=0)) / max(int(work.sum()), 1)

"""What a simulated round costs, client by client."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.arrays import IntArray

# Columns of counts
WORK, SEALED, OPENED = range(3)
N_COUNTS = 3


@dataclass(frozen=True)
class RoundCounts:
    """The costs of one round's participants.

    Parameters
    ----------
    participants : array (clients,)
    per_client : array (clients, 3)
        Stored values read, numbers sealed and numbers opened.
    """

    participants: IntArray
    per_client: IntArray

    @property
    def slowest_share(self) -> float:
        """The work of the participant with most of it, as a share of all work."""
        work = self.per_client[:, WORK]
        return float(work.max(initial=0)) / max(int(work.sum()), 1)

"""The certified optimum of the pooled table, in one round: a yardstick for others.

The bundle method is run until the certified gap is next to nothing, with every client,
whatever participation says. Nothing is pooled: the exchanges are those of the bundle.
Bytes and round trips are those of the whole computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hyfdca.algorithms.bundle.asked import asked_by_bundle
from hyfdca.algorithms.bundle.client import BundleClient
from hyfdca.algorithms.bundle.messages import PHASES
from hyfdca.algorithms.bundle.server import BundleServer
from hyfdca.algorithms.bundle.settings import BundleSettings
from hyfdca.arrays import FloatArray
from hyfdca.federation.algorithm import ClientHalf, ServerHalf
from hyfdca.federation.client import Party
from hyfdca.federation.local.work import AtLeastOne, Positive
from hyfdca.federation.server import Federation
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.server_session import Conversation

_PATIENCE = 10  # steps without a smaller gap, after which rounding errors dominate


class PooledServer(BundleServer):
    """The server's half; clients cannot tell it from the bundle method."""

    def __init__(self, federation: Federation, settings: Pooled) -> None:
        super().__init__(federation, settings)
        self._limits = settings

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Take steps with everybody until the gap is small enough."""
        self.round_number += 1
        smallest, patience = np.inf, _PATIENCE
        for _ in range(self._limits.max_steps):
            if self._gap() <= self._limits.gap or not patience:
                return
            yield from self.step()
            patience = _PATIENCE if self._gap() < smallest else patience - 1
            smallest = min(smallest, self._gap())

    def _gap(self) -> float:
        """Return the certified gap relative to the loss."""
        gaps: FloatArray = self.primals - self.bounds
        return float(gaps.sum()) / max(abs(float(self.primals.sum())), 1e-300)


@dataclass(frozen=True)
class Pooled(BundleSettings):
    """The certified optimum; how samples are grouped is as in ``BundleSettings``.

    Parameters
    ----------
    gap : float
        The relative gap at which to stop.
    max_steps : int
        Steps of the bundle method, at most.
    """

    name: ClassVar[str] = "pooled"
    phases: ClassVar[Phases] = PHASES

    gap: Positive = 1e-9
    max_steps: AtLeastOne = 1_000

    def most_asked(self, name: str, n_clients: int) -> int | None:
        """Return the bundle method's limits, times the steps of a round."""
        once = super().most_asked(name, n_clients)
        return None if once is None else once * self.max_steps

    def server(self, federation: Federation) -> ServerHalf:
        """Return the server's half."""
        return PooledServer(federation, self)

    def client(self, party: Party) -> ClientHalf:
        """Return a client's half."""
        return BundleClient(party, asked_by_bundle(self, party.problem))

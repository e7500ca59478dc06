"""FedAvg, hybrid: clients train on their own columns alone; weights are averaged.

H. B. McMahan et al., "Communication-efficient learning of deep networks from
decentralized data", AISTATS 2017, extended as the paper does: the weight of a feature
is the mean over the active clients that hold it. The exchange is that of
``federation/local/sgd.py``.

A client never sees the others' part of a margin, so where a row's columns are at
several clients the limit is not the optimum: each column group is trained alone and the
results are concatenated. The certificate shows that as a gap that does not close.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hyfdca.federation.client import Party
from hyfdca.federation.local.sgd import (
    TRAIN,
    SgdClient,
    SgdServer,
    SgdSettings,
    TrainRequest,
)
from hyfdca.federation.local.work import BIASED
from hyfdca.federation.server import Federation
from hyfdca.maths.descent import step_sizes
from hyfdca.protocol.messages import Message
from hyfdca.protocol.phases import Phases


class FedAvgServer(SgdServer):
    """The server's half: the mean over participants, feature by feature."""

    def __init__(self, federation: Federation, settings: FedAvg) -> None:
        super().__init__(federation, federation.latest_feature_sum())
        self.settings = settings


class FedAvgClient(SgdClient["FedAvg"]):
    """A client's half: stochastic gradient steps from the mean weights."""

    def train(self, request: TrainRequest) -> Message:
        """Return the client's part of the next mean."""
        party, settings = self.party, self.settings
        start = self.weights_of(request.weights)
        rate = settings.rate_at(request.round_number)
        sizes = step_sizes(rate, party.problem.l2_strength)
        weights = settings.descend(party, request, sizes, start, start)
        mean = weights / self.holders(request.holders)
        return party.sealing.feature_part("weights", mean, request.grid)


@dataclass(frozen=True)
class FedAvg(SgdSettings):
    """Federated averaging; its settings are documented at ``SgdSettings``."""

    name: ClassVar[str] = "fedavg"
    late_advice: ClassVar[str] = BIASED
    phases: ClassVar[Phases] = TRAIN

    def server(self, federation: Federation) -> FedAvgServer:
        """Return the server's half."""
        return FedAvgServer(federation, self)

    def client(self, party: Party) -> FedAvgClient:
        """Return a client's half."""
        return FedAvgClient(party, self)

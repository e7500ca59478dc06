"""HyFEM for linear models: local models that are pulled towards a global one.

X. Zhang, W. Yin, M. Hong, T. Chen, "Hybrid federated learning for feature and sample
heterogeneity", TMLR 2023, with the feature extractors the identity and the matching of
coordinates known, so that the server's step is exact. It is block coordinate descent on

    1/n Σ_k [ λ/2 ||w_k||² + 1/N_k Σ_i l_i(x_{k,i}·w_k) + μ/2 ||w_k - w_0||² ]

The exchange is that of ``federation/local/sgd.py``; the model is w_0. The limit
is not the optimum for any μ: for large μ it is that of FedAvg, for small μ the mean of
models trained alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from hyfdca.federation.client import Party
from hyfdca.federation.local.sgd import (
    TRAIN,
    SgdClient,
    SgdServer,
    SgdSettings,
    TrainRequest,
)
from hyfdca.federation.local.work import BIASED, NotNegative
from hyfdca.federation.server import Federation
from hyfdca.maths.descent import step_sizes
from hyfdca.protocol.messages import Message
from hyfdca.protocol.phases import Phases


class HyFemServer(SgdServer):
    """The server's half: w_0 is the mean of the local models."""

    def __init__(self, federation: Federation, settings: HyFem) -> None:
        is_cached = settings.average == "cached"
        sums = federation.feature_sum if is_cached else federation.latest_feature_sum
        super().__init__(federation, sums())
        self.settings, self._is_cached = settings, is_cached

    def averaged(self, able: Sequence[int]) -> Sequence[int]:
        """Return the participants, or all clients that have ever taken part."""
        if not self._is_cached:
            return able
        rows = self.federation.layout.samples.items
        return [c for c in self.federation.labelled if len(rows[c])]


class HyFemClient(SgdClient["HyFem"]):
    """A client's half; ``weights`` is its local model, which stays with it."""

    def train(self, request: TrainRequest) -> Message:
        """Return the client's part of the next mean."""
        party, settings = self.party, self.settings
        common = self.weights_of(request.weights)
        sizes = step_sizes(
            settings.rate_at(request.round_number),
            party.problem.l2_strength,
            settings.mu,
            is_proximal=settings.matching == "proximal",
        )
        own = self.round_start.of(request.round_number, self.weights)
        start = common if settings.restart else own
        self.weights = settings.descend(party, request, sizes, common, start)
        mean = self.weights / self.holders(request.holders)
        return party.sealing.feature_part("weights", mean, request.grid)


@dataclass(frozen=True)
class HyFem(SgdSettings):
    """HyFEM; settings of the local steps are documented at ``SgdSettings``.

    Parameters
    ----------
    mu : float
        How strongly local models are pulled towards the global one.
    restart : bool
        Start each round from the global model, as the authors' code does, instead of
        the client's own.
    average : {"active", "cached"}
        The mean over the clients that took part, or over the last models of all.
    matching : {"explicit", "proximal"}
        How a step takes the term of μ: by its gradient, which diverges for a large μ,
        or by its prox, which is ours.
    """

    name: ClassVar[str] = "hyfem"
    late_advice: ClassVar[str] = BIASED
    phases: ClassVar[Phases] = TRAIN

    mu: NotNegative = 1.0
    restart: bool = False
    average: Literal["active", "cached"] = "active"
    matching: Literal["explicit", "proximal"] = "explicit"

    def server(self, federation: Federation) -> HyFemServer:
        """Return the server's half."""
        return HyFemServer(federation, self)

    def client(self, party: Party) -> HyFemClient:
        """Return a client's half."""
        return HyFemClient(party, self)

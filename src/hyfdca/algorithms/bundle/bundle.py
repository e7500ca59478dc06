"""The bundle method and L-BFGS, as the registry lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hyfdca.algorithms.bundle.async_server import AsyncBundleServer
from hyfdca.algorithms.bundle.client import BundleClient
from hyfdca.algorithms.bundle.lbfgs import LbfgsServer
from hyfdca.algorithms.bundle.messages import PHASES
from hyfdca.algorithms.bundle.server import BundleServer, BundleSettings
from hyfdca.federation.algorithm import Algorithm, ClientHalf, Needs, ServerHalf
from hyfdca.federation.client import Party
from hyfdca.federation.server import Federation
from hyfdca.protocol.phases import Phases


@dataclass(frozen=True)
class Bundle(BundleSettings):
    """The dual bundle method; its settings are documented at ``BundleSettings``."""

    name: ClassVar[str] = "bundle"
    phases: ClassVar[Phases] = PHASES

    def server(self, federation: Federation) -> ServerHalf:
        """Return the server's half, asynchronous where that gains anything.

        Where slopes are sealed every plane needs everybody. On wide data planes need
        candidates, which are steps from duals of all buckets.
        """
        is_sealed = federation.problem.profile == "sealed"
        waits = federation.is_complete or is_sealed or federation.layout.is_wide
        half = BundleServer if waits else AsyncBundleServer
        return half(federation, self)

    def client(self, party: Party) -> ClientHalf:
        """Return a client's half."""
        return BundleClient(party, self.max_buckets)


@dataclass(frozen=True)
class Lbfgs(Algorithm):
    """L-BFGS on the primal, for smooth losses, on the exchanges of the bundle."""

    name: ClassVar[str] = "lbfgs"
    frees_intercept: ClassVar[bool] = True
    takes_offsets: ClassVar[bool] = True
    phases: ClassVar[Phases] = PHASES

    @property
    def needs(self) -> Needs:
        """A gradient; rounds give the certificate."""
        return Needs(measuring="nobody", smooth_loss=True)

    def server(self, federation: Federation) -> ServerHalf:
        """Return the server's half."""
        return LbfgsServer(federation, Bundle())

    def client(self, party: Party) -> ClientHalf:
        """Return a client's half."""
        return BundleClient(party)

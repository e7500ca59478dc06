"""The bundle method and L-BFGS, as the registry lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hyfdca.algorithms.bundle.asked import ASKED_BY_LBFGS, asked_by_bundle
from hyfdca.algorithms.bundle.async_server import AsyncBundleServer
from hyfdca.algorithms.bundle.client import BundleClient
from hyfdca.algorithms.bundle.lbfgs import LbfgsServer
from hyfdca.algorithms.bundle.messages import PATH_PHASES, PHASES
from hyfdca.algorithms.bundle.path_client import PathClient
from hyfdca.algorithms.bundle.path_server import PathServer
from hyfdca.algorithms.bundle.server import BundleServer
from hyfdca.algorithms.bundle.settings import BundleSettings
from hyfdca.federation.algorithm import Algorithm, ClientHalf, Needs, ServerHalf
from hyfdca.federation.client import Party
from hyfdca.federation.server import Federation
from hyfdca.protocol.phases import Phases


@dataclass(frozen=True)
class Bundle(BundleSettings):
    """The dual bundle method; its settings are documented at ``BundleSettings``."""

    name: ClassVar[str] = "bundle"
    chooses_l2: ClassVar[bool] = True
    phases: ClassVar[Phases] = PATH_PHASES

    def server(self, federation: Federation) -> ServerHalf:
        """Return the server's half, asynchronous where that helps.

        Where slopes are sealed every plane needs everybody. On wide data planes need
        candidates, which are steps from duals of all buckets.
        """
        path = federation.problem.path
        if path is not None:
            return PathServer(federation, self, path)
        is_sealed = federation.problem.profile == "sealed"
        waits = federation.is_complete or is_sealed or federation.layout.is_wide
        half = BundleServer if waits else AsyncBundleServer
        return half(federation, self)

    def client(self, party: Party) -> ClientHalf:
        """Return a client's half."""
        asked, path = asked_by_bundle(self, party.problem), party.problem.path
        if path is not None:
            return PathClient(party, asked, path)
        return BundleClient(party, asked)


@dataclass(frozen=True)
class Lbfgs(Algorithm):
    """L-BFGS on the primal, for smooth losses, on the exchanges of the bundle."""

    name: ClassVar[str] = "lbfgs"
    # Its planes may not enclose an intercept without penalty.
    late_advice: ClassVar[str] = (
        ", or, unless the intercept is penalised, use algorithm='bundle' or "
        "penalise_intercept = true"
    )
    frees_intercept: ClassVar[bool] = True
    takes_offsets: ClassVar[bool] = True
    phases: ClassVar[Phases] = PHASES

    @property
    def needs(self) -> Needs:
        """A smooth loss; rounds give the certificate."""
        return Needs(measuring="nobody", smooth_loss=True)

    def server(self, federation: Federation) -> ServerHalf:
        """Return the server's half."""
        return LbfgsServer(federation, Bundle())

    def client(self, party: Party) -> ClientHalf:
        """Return a client's half."""
        return BundleClient(party, ASKED_BY_LBFGS)

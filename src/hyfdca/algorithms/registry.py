"""The algorithms by name: what a run needs to make both halves of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from hyfdca.algorithms.bundle.async_server import AsyncBundleServer
from hyfdca.algorithms.bundle.client import BundleClient
from hyfdca.algorithms.bundle.lbfgs import PAIRS, LbfgsServer
from hyfdca.algorithms.bundle.server import BundleServer, BundleSettings
from hyfdca.algorithms.hyfdca.draws import HyfdcaSettings, drawn_share
from hyfdca.algorithms.hyfdca.dual_server import DualCoordinator
from hyfdca.algorithms.hyfdca.hyfdca import HyfdcaClient, HyfdcaServer
from hyfdca.algorithms.hyfdca.line_search import LineSearchClient, LineSearchServer
from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.registry import Adders
from hyfdca.federation.client import Holder
from hyfdca.federation.problem import Problem
from hyfdca.federation.server import Coordinator
from hyfdca.holdings.layout import Layout
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.checkpoint import Kept
from hyfdca.protocol.server_session import Conversation, ServerSession


class ServerHalf(Kept, Protocol):
    """What a training run needs of an algorithm.

    Its state can be saved after a round if it ``is_between_steps``.
    """

    @property
    def coordinator(self) -> Coordinator:
        """What it keeps, and its exchanges."""
        ...

    @property
    def is_between_steps(self) -> bool:
        """Whether no conversation is suspended, which no state could have in it."""
        ...

    def set_up(self) -> Conversation[None]:
        """Exchange what every round needs."""
        ...

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Run one round."""
        ...

    def certify(self) -> Conversation[Measurement]:
        """Measure P and D, by exchanges where the rounds did not do it."""
        ...

    def release(self) -> Conversation[FloatArray]:
        """Return the weights of the last certificate, (n_features, n_outputs)."""
        ...


@dataclass(frozen=True)
class Parties:
    """What the server half of any algorithm is made of."""

    problem: Problem
    layout: Layout
    adders: Adders
    session: ServerSession
    is_complete: bool  # whether every client takes part in every round


@dataclass(frozen=True)
class Settings:
    """The settings of all algorithms; each reads its own."""

    hyfdca: HyfdcaSettings = field(default_factory=HyfdcaSettings)
    bundle: BundleSettings = field(default_factory=BundleSettings)


class Algorithm(NamedTuple):
    """An entry of the table: how to make the halves of an algorithm."""

    client: Callable[[Settings, bool], type[Holder]]
    server: Callable[[Settings, Parties], ServerHalf]


def _hyfdca_client(settings: Settings, is_complete: bool) -> type[Holder]:
    searches = resolve_step(settings.hyfdca, is_complete) == "line_search"
    return LineSearchClient if searches else HyfdcaClient


def _hyfdca_server(settings: Settings, parties: Parties) -> ServerHalf:
    coordinator = DualCoordinator(
        parties.problem,
        parties.layout,
        parties.adders,
        parties.session,
        drawn_share(settings.hyfdca, parties.layout),
    )
    if resolve_step(settings.hyfdca, parties.is_complete) == "line_search":
        return LineSearchServer(coordinator, settings.hyfdca)
    return HyfdcaServer(coordinator, settings.hyfdca, parties.is_complete)


def _bundle_server(settings: Settings, parties: Parties) -> ServerHalf:
    # Where slopes are sealed every plane needs everybody: nothing is gained by visits.
    # On wide data planes need candidates, which are steps from duals of all buckets.
    is_sealed = parties.problem.profile == "sealed"
    waits = parties.is_complete or is_sealed or parties.layout.is_wide
    half = BundleServer if waits else AsyncBundleServer
    return half(_coordinator(parties), settings.bundle)


def _lbfgs_server(settings: Settings, parties: Parties) -> ServerHalf:
    loss = parties.problem.loss
    if math.isinf(loss.smoothness):
        raise ValueError(
            f"algorithm='lbfgs' needs a smooth loss, which {loss.name!r} is not; use "
            "algorithm='bundle'."
        )
    return LbfgsServer(_coordinator(parties), settings.bundle)


def _coordinator(parties: Parties) -> Coordinator:
    return Coordinator(parties.problem, parties.layout, parties.adders, parties.session)


AlgorithmName = Literal["auto", "bundle", "lbfgs", "hyfdca"]

ALGORITHMS: dict[str, Algorithm] = {
    "bundle": Algorithm(lambda *_: BundleClient, _bundle_server),
    "lbfgs": Algorithm(lambda *_: BundleClient, _lbfgs_server),
    "hyfdca": Algorithm(_hyfdca_client, _hyfdca_server),
}


class Choice(NamedTuple):
    """An algorithm's name, and why it is that one."""

    name: str
    reason: str


_LBFGS_GAPS = (1e-8, 1e-5)  # below, rounding stops it earlier than the bundle


def choose_algorithm(
    wanted: str, settings: Settings, parties: Parties, tolerance: float
) -> Choice:
    """Return the algorithm to run, with the reason where the study leaves it open.

    L-BFGS needs about half the bundle's rounds to a very small gap where its memory
    spans all features, and twice as many elsewhere (docs/acceleration.md).
    """
    name, reason = _choice(wanted, settings, parties, tolerance)
    if name != "bundle" and settings.bundle != BundleSettings():
        raise ValueError(f"bundle_settings are of algorithm='bundle', not of {name!r}.")
    return Choice(name, reason)


def _choice(
    wanted: str, settings: Settings, parties: Parties, tolerance: float
) -> Choice:
    paper = sorted(settings.hyfdca.changed())
    if wanted not in ("auto", "hyfdca") and paper:
        raise ValueError(
            f"{paper[0]} is a setting of algorithm='hyfdca', not of {wanted!r}."
        )
    if wanted != "auto":
        return Choice(wanted, "as set")
    if paper:
        return Choice("hyfdca", f"{paper[0]} is a setting of the paper's method")
    loss = parties.problem.loss
    suits_lbfgs = (
        math.isfinite(loss.smoothness)
        and loss.task == "regression"
        and parties.layout.features.n_items <= PAIRS
        and parties.is_complete
    )
    if suits_lbfgs and _LBFGS_GAPS[0] < tolerance < _LBFGS_GAPS[1]:
        reason = f"few features, a smooth regression loss and a gap of {tolerance:g}"
        return Choice("lbfgs", reason)
    return Choice("bundle", f"fewest rounds to {tolerance:g} for the {loss.name} loss")


def resolve_step(
    settings: HyfdcaSettings, is_complete: bool
) -> Literal["paper", "safe", "line_search"]:
    """Return the step to take where the settings leave it open.

    ``auto`` never diverges: an exact line search where everybody takes part in every
    round, and where that shows no sums over few rows, else the safe factor.
    """
    if settings.variant == "theory":
        if settings.step not in ("auto", "paper"):
            raise ValueError("variant='theory' brings its own step; use step='auto'.")
        return "paper"
    if settings.step == "auto":
        return "line_search" if is_complete and settings.min_rows == 1 else "safe"
    if settings.step == "line_search" and settings.min_rows > 1:
        raise ValueError(
            "step='line_search' shows sums over the drawn rows whatever min_rows says; "
            "use step='safe' or 'paper' with min_rows."
        )
    if settings.step == "line_search" and not is_complete:
        raise ValueError(
            "step='line_search' needs every client in every round; use step='safe' "
            "or 'paper' under partial participation."
        )
    return settings.step

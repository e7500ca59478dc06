"""The algorithms by name: what a run needs to make both halves of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from hyfdca.algorithms.certificate import Certificate
from hyfdca.algorithms.coordinator import Coordinator
from hyfdca.algorithms.draws import HyfdcaSettings
from hyfdca.algorithms.dual_coordinator import DualCoordinator
from hyfdca.algorithms.holder import Holder
from hyfdca.algorithms.hyfdca import HyfdcaClient, HyfdcaServer
from hyfdca.algorithms.line_search import LineSearchClient, LineSearchServer
from hyfdca.algorithms.problem import Problem
from hyfdca.crypto.base import Adder
from hyfdca.layout import Layout
from hyfdca.losses import FloatArray
from hyfdca.protocol.server import Conversation, ServerSession


class ServerHalf(Protocol):
    """What a training run needs of an algorithm."""

    @property
    def coordinator(self) -> Coordinator:
        """What it keeps, and its exchanges."""
        ...

    def set_up(self) -> Conversation[None]:
        """Exchange what every round needs."""
        ...

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Run one round."""
        ...

    def certify(self) -> Conversation[Certificate]:
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
    adder: Adder
    session: ServerSession
    is_complete: bool  # whether every client takes part in every round


@dataclass(frozen=True)
class Algorithm:
    """An entry of the table."""

    client: type[Holder]
    server: Callable[[Parties], ServerHalf]


def paper_algorithm(settings: HyfdcaSettings, is_complete: bool) -> Algorithm:
    """Return the paper's method with the step that the settings ask for."""
    searches = resolve_step(settings, is_complete) == "line_search"

    def server(parties: Parties) -> ServerHalf:
        coordinator = DualCoordinator(
            parties.problem, parties.layout, parties.adder, parties.session
        )
        if searches:
            return LineSearchServer(coordinator, settings)
        return HyfdcaServer(coordinator, settings, is_complete)

    return Algorithm(LineSearchClient if searches else HyfdcaClient, server)


def resolve_step(
    settings: HyfdcaSettings, is_complete: bool
) -> Literal["paper", "safe", "line_search"]:
    """Return the step to take where the settings leave it open.

    ``auto`` never diverges: an exact line search where everybody takes part in every
    round, else the safe factor.
    """
    if settings.variant == "theory":
        if settings.step not in ("auto", "paper"):
            raise ValueError("variant='theory' brings its own step; use step='auto'.")
        return "paper"
    if settings.step == "auto":
        return "line_search" if is_complete else "safe"
    if settings.step == "line_search" and not is_complete:
        raise ValueError(
            "step='line_search' needs every client in every round; use step='safe' "
            "or 'paper' under partial participation."
        )
    return settings.step

"""The number of local steps per round: the paper's H, specified in three ways."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from hyfdca.federation.algorithm import Algorithm
from hyfdca.federation.client import Party
from hyfdca.holdings.layout import Layout
from hyfdca.maths.draws import repeated_rows, round_key
from hyfdca.protocol.codec import RemoteProtocolError

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Fraction = Annotated[float, msgspec.Meta(gt=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e100)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e100)]

# Advice about methods that cannot reach the optimum of every partition
BIASED = (
    "; where a row's columns are at several clients this algorithm is biased, and "
    "algorithm='bundle' is not"
)


class SaysLocalWork(Protocol):
    """Settings that say how many local steps a client takes."""

    @property
    def local_fraction(self) -> float:
        """Steps per sample that the client has."""
        ...

    @property
    def iic(self) -> float | None:
        """The paper's inner iterations constant."""
        ...

    @property
    def local_steps(self) -> int | None:
        """The number itself."""
        ...


def local_steps(settings: SaysLocalWork, layout: Layout, client: int) -> int:
    """Return H of a client."""
    n_held = len(layout.samples.items[client])
    return steps_of(settings, n_held, layout.samples.n_items, layout.n_clients)


def own_steps(settings: SaysLocalWork, party: Party) -> int:
    """Return H, as a client computes it by itself."""
    return steps_of(settings, party.n_held, party.problem.n_samples, party.n_clients)


def steps_of(
    settings: SaysLocalWork, n_held: int, n_samples: int, n_clients: int
) -> int:
    """Return H of a client that holds some of the samples."""
    if settings.local_steps is not None:
        return settings.local_steps
    if settings.iic is not None:
        return math.ceil(settings.iic * n_samples / n_clients)
    return math.ceil(settings.local_fraction * n_held)


def drawn_rows(party: Party, round_number: int, n_steps: int) -> NDArray[np.uint32]:
    """Return rows of a client's own, drawn with replacement."""
    if not party.n_held:
        return np.empty(0, np.uint32)
    key = local_rows_key(party.seed, round_number)
    return repeated_rows(key, party.rank, party.n_held, n_steps)


def local_rows_key(seed: int, round_number: int) -> np.uint64:
    """Return the key of all clients' draws in a round."""
    return round_key(seed, "local rows", round_number)


@dataclass(frozen=True)
class LocalWork(Algorithm):
    """The settings of methods that take one local step per sample drawn.

    Parameters
    ----------
    local_fraction : float
        Local steps per round, as a share of the samples that a client has.
    iic : float, optional
        The paper's inner iterations constant, H = ceil(IIC N / n_clients); overrides
        ``local_fraction``.
    local_steps : int, optional
        H itself; overrides both.
    """

    local_fraction: Positive = 1.0
    iic: Positive | None = None
    local_steps: AtLeastOne | None = None

    def check_steps(self, n_steps: int, party: Party) -> None:
        """Refuse more steps than these settings can give in any consortium."""
        per_client = self.local_fraction * party.n_held
        most = per_client if self.iic is None else self.iic * party.problem.n_samples
        if n_steps > max(self.local_steps or 0, math.ceil(most)):
            raise RemoteProtocolError(f"{n_steps} local steps are too many")


@dataclass(frozen=True)
class DecreasingRate(Algorithm):
    """The settings of methods whose steps get shorter.

    Parameters
    ----------
    rate, rate_offset : float
        The paper's A and B: steps of round t have the rate A / (B + √t).
    """

    advice: ClassVar[str] = "use a smaller rate, scale the features or use a larger l2"

    rate: Positive = 1.0
    rate_offset: NotNegative = 1.0

    def rate_at(self, round_number: int) -> float:
        """Return the rate of a round's steps."""
        return self.rate / (self.rate_offset + math.sqrt(round_number))

"""The public facts of a study that both halves of every algorithm know."""

from __future__ import annotations

from dataclasses import dataclass, field

from hyfdca.federation.path import Path
from hyfdca.maths.losses import Loss
from hyfdca.protocol.messages import Profile

SLACK = 1e-12  # covers the rounding of floating-point sums, as a share of them


@dataclass(frozen=True)
class Problem:
    """The problem to solve, and who may see the weights during training.

    Parameters
    ----------
    l2_strength : float
        The paper's λ.
    n_samples : int
        N, over all clients.
    n_outputs : int
        Columns of duals and weights: 1, or the number of classes of one-vs-rest.
    profile : {"sealed", "open"}
        Whether the server sees the weights and each client's share of them.
    free_intercept : bool
        Whether an intercept that costs no penalty is added to all margins. Otherwise an
        intercept is the weight of a constant feature.
    has_offsets : bool
        Whether label holders add offsets of their own to the margins.
    path : Path, optional
        The fits among which λ is chosen; ``l2_strength`` is then the largest.
    """

    loss: Loss
    l2_strength: float
    n_samples: int
    n_outputs: int = 1
    profile: Profile = "sealed"
    free_intercept: bool = False
    has_offsets: bool = False
    path: Path | None = None
    l2_scale: float = field(init=False)  # λN

    def __post_init__(self) -> None:
        """Set the derived fields."""
        object.__setattr__(self, "l2_scale", self.l2_strength * self.n_samples)

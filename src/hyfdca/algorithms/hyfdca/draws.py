"""How HyFDCA runs: its settings, and which client updates which samples when."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.holdings.layout import Layout
from hyfdca.maths.seeds import stream

Step = Literal["auto", "paper", "safe", "line_search"]


PAPER_SETTINGS = frozenset(
    {
        "local_steps",
        "aggregation",
        "cap",
        "divide_by",
        "refresh",
        "second_inner_product",
    }
)
_CHOICES = {
    "variant": ("practical", "theory"),
    "step": ("auto", "paper", "safe", "line_search"),
    "aggregation": ("constant", "decreasing"),
    "cap": ("printed", "largest", "one"),
    "divide_by": ("active", "all"),
    "refresh": ("auto", "drawn", "all"),
}


@dataclass(frozen=True)
class HyfdcaSettings:
    """How HyFDCA runs.

    Parameters
    ----------
    variant : {"practical", "theory"}
        Algorithm 5 or Algorithm 3 as the local dual method.
    step : {"auto", "paper", "safe", "line_search"}
        Curvature of a coordinate: as printed, or enlarged so that changes of several
        samples at once cannot overshoot (E4); or the printed one with an exact line
        search (``line_search.py``, complete participation only).
    local_fraction : float
        Share of its samples that a client draws a round.
    iic : float, optional
        The paper's inner iterations constant, H = ceil(IIC N / n_clients); overrides
        ``local_fraction``.
    local_steps : int, optional
        H itself; overrides both.
    aggregation : {"constant", "decreasing"}
        γ_t = 1, or 1/t (Theorem 4).
    cap : {"printed", "largest", "one"}
        c_k of the theory variant: N_k/N, N_k/max N_j (E12), or 1 (Theorems 3 and 4).
    divide_by : {"active", "all"}
        Average over the holders present (E9) or over all holders, as printed. The
        safe step always averages over all.
    refresh : {"auto", "drawn", "all"}
        Which margins active clients send each round: those of drawn samples, as in
        the paper's experiments, or all, as in Algorithm 2. With everybody present
        both give the same duals; with few present, "drawn" leaves the cached margins
        of other samples so old that the method can diverge. "auto" is the cheap one
        under complete participation, else "all".
    second_inner_product : bool
        Algorithm 1 prints a SecureInnerProduct at the end of a round; the paper's
        experiments leave it out.
    min_rows : int
        A client shows its old share again until so many of its duals have changed: the
        difference of two shares is then no sum over fewer rows (E22).
    """

    variant: Literal["practical", "theory"] = "practical"
    step: Step = "auto"
    local_fraction: float = 1.0
    iic: float | None = None
    local_steps: int | None = None
    aggregation: Literal["constant", "decreasing"] = "constant"
    cap: Literal["printed", "largest", "one"] = "largest"
    divide_by: Literal["active", "all"] = "active"
    refresh: Literal["auto", "drawn", "all"] = "auto"
    second_inner_product: bool = False
    min_rows: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no round could be run with."""
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} must be one of {', '.join(choices)}, "
                    f"got {getattr(self, name)!r}."
                )
        counts: dict[str, Any] = {"min_rows": self.min_rows}
        if self.local_steps is not None:
            counts["local_steps"] = self.local_steps
        for name, count in counts.items():
            if not isinstance(count, Integral) or count < 1:
                raise ValueError(
                    f"{name} must be a whole number from 1, got {count!r}."
                )
        if not isinstance(self.second_inner_product, bool):
            raise ValueError("second_inner_product must be true or false.")

    def changed(self) -> set[str]:
        """Return the names of settings that are not the usual ones."""
        usual = vars(HyfdcaSettings(seed=self.seed))
        return {name for name, value in vars(self).items() if value != usual[name]}

    def with_more(self, more: Mapping[str, Any]) -> HyfdcaSettings:
        """Return the settings with those that only readers of the paper set."""
        unknown = set(more) - PAPER_SETTINGS
        if unknown:
            raise ValueError(
                f"paper_settings has no {', '.join(sorted(unknown))}; it takes "
                f"{', '.join(sorted(PAPER_SETTINGS))}."
            )
        return replace(self, **more)


def local_steps(settings: HyfdcaSettings, layout: Layout, client: int) -> int:
    """Return H, at most the number of samples the client has."""
    n_held = len(layout.samples.items[client])
    if settings.local_steps is not None:
        wanted = settings.local_steps
    elif settings.iic is not None:
        wanted = math.ceil(settings.iic * layout.samples.n_items / layout.n_clients)
    else:
        wanted = math.ceil(settings.local_fraction * n_held)
    return min(wanted, n_held)


def drawn_share(settings: HyfdcaSettings, layout: Layout) -> float:
    """Return the share of all holdings of samples that is drawn in a round."""
    steps = sum(local_steps(settings, layout, k) for k in range(layout.n_clients))
    return steps / max(sum(map(len, layout.samples.items)), 1)


@dataclass(frozen=True)
class Draw:
    """Who updates which samples in a round.

    ``drawn`` has the positions each client draws, ``touched`` the positions of all
    drawn samples at every holder; None stands for all samples held. Where
    ``is_shared`` is false every sample is drawn by one client alone.
    """

    drawn: dict[int, IntArray | None]
    touched: dict[int, IntArray | None]
    n_distinct: int
    is_shared: bool = True


@dataclass(frozen=True)
class Draws:
    """The draws of all rounds, from the study's seed."""

    settings: HyfdcaSettings
    layout: Layout
    is_complete: bool

    def of_round(self, round_number: int, participants: Sequence[int]) -> Draw:
        """Draw each labelled participant's samples, without replacement."""
        layout = self.layout
        items = layout.samples.items
        drawn: dict[int, IntArray | None] = {}
        for client in participants:
            if layout.labelled[client] and len(items[client]):
                drawn[client] = self._draw_of(client, round_number)
        if self.is_complete and all(rows is None for rows in drawn.values()):
            return self._everything
        parts = [items[c] if r is None else items[c][r] for c, r in drawn.items()]
        distinct = np.unique(np.concatenate([*parts, np.empty(0, np.int64)]))
        return Draw(drawn, dict(layout.samples.positions_of(distinct)), len(distinct))

    @cached_property
    def _everything(self) -> Draw:
        """Have each sample's designated holder change it.

        All holders would compute the same change and the mean of it (E5); one of
        them is enough, and the others need not learn the margin.
        """
        layout = self.layout
        drawn = {}
        for client in range(layout.n_clients):
            counted = layout.counts_samples(client)
            if counted.any():
                drawn[client] = None if counted.all() else np.flatnonzero(counted)
        # Everybody, also those without samples: they must get the weights to measure.
        touched: dict[int, IntArray | None] = dict.fromkeys(range(layout.n_clients))
        return Draw(drawn, touched, layout.samples.n_items, is_shared=False)

    def local_steps(self, client: int) -> int:
        """Return H of a client."""
        return local_steps(self.settings, self.layout, client)

    def _draw_of(self, client: int, round_number: int) -> IntArray | None:
        n_held = len(self.layout.samples.items[client])
        steps = self.local_steps(client)
        if steps == n_held:
            return None
        random = stream(self.settings.seed, "draw", round_number, client)
        return np.sort(random.choice(n_held, steps, replace=False, shuffle=False))

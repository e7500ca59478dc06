"""The figure of a training run as the bytes of a PNG file, and the style of figures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

_PRIMAL, _DUAL, _POOLED = "#b5452c", "#1f6f8b", "#3a3a3a"
INK, FAINT = "#2b2b2b", "#d9d9d9"
_DPI = 150


@dataclass(frozen=True)
class Convergence:
    """The content of a run's figure.

    Parameters
    ----------
    history : sequence of records
        With ``round``, ``primal``, ``dual`` and ``relative_gap``; rounds that were not
        measured have NaN or, from a file, None. With curves, some have
        ``validation_loss`` too.
    pooled_primal : float or None
        The optimum of the pooled data, if known.
    n_fits : int
        How many fits the history adds up: more than one where λ was chosen.
    """

    title: str
    history: Sequence[Mapping[str, Any]]
    tolerance: float
    pooled_primal: float | None = None
    n_fits: int = 1

    def measured(self, name: str) -> Any:
        """Return a column of the history, for the rounds that were measured."""
        gaps = self._column("relative_gap")
        return self._column(name)[np.isfinite(gaps)]

    def validated(self) -> tuple[Any, Any]:
        """Return the rounds of the curves, and the mean loss of rows set aside."""
        losses = self._column("validation_loss")
        is_point = np.isfinite(losses)
        return self._column("round")[is_point], losses[is_point]

    def _column(self, name: str) -> Any:
        values = [record.get(name) for record in self.history]
        return np.array(values, dtype=np.float64)


def draw_convergence(run: Convergence) -> bytes:
    """Return a PNG of P, D and the gap between them, and of the relative gap.

    With curves there is a third part, the loss of rows set aside.
    """
    rounds, losses = run.validated()
    n_parts = 3 if len(rounds) else 2
    figure = Figure(figsize=(5.0 * n_parts, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right, *others = parts = figure.subplots(1, n_parts)
    # A study's name is plain text, even if it contains mathematical symbols.
    figure.suptitle(run.title, fontsize=13, color=INK, parse_math=False)
    _draw_objectives(left, run)
    _draw_gap(right, run)
    for axes in others:
        _draw_validation(axes, rounds, losses)
    for axes in parts:
        tidy(axes)
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return as_png(figure)


def as_png(figure: Figure, dpi: int = _DPI) -> bytes:
    """Return the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def tidy(axes: Axes) -> None:
    """Give axes the style of all figures."""
    axes.grid(color=FAINT, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9)
    axes.margins(x=0.02)


def _draw_objectives(axes: Axes, run: Convergence) -> None:
    rounds, primal, dual = map(run.measured, ("round", "primal", "dual"))
    axes.fill_between(
        rounds, dual, primal, color=FAINT, alpha=0.6, lw=0, label="duality gap"
    )
    axes.plot(rounds, primal, color=_PRIMAL, lw=2, label="primal P(w), current loss")
    axes.plot(rounds, dual, color=_DUAL, lw=2, label="dual D(α), lower bound")
    if run.pooled_primal is not None and run.n_fits == 1:
        axes.axhline(
            run.pooled_primal, color=_POOLED, lw=1.2, ls="--", label="pooled optimum"
        )
    if len(primal):
        axes.set_ylim(*_range(primal, dual))
    title, what = "The optimum lies between P and D", "regularised loss"
    if run.n_fits > 1:  # the model's own P is a different number
        title = f"P and D, summed over all {run.n_fits} fits"
        what = f"sum of {run.n_fits} regularised losses"
    axes.set_title(title, fontsize=11, color=INK)
    axes.set_ylabel(what)
    axes.legend(frameon=False, fontsize=9)


def _range(primal: Any, dual: Any) -> tuple[float, float]:
    """Return limits that show where the curves end, not how high they began."""
    final = primal[-1]
    high = min(primal.max(), max(np.quantile(primal, 0.9), 3.0 * final))
    low = max(dual.min(), min(np.quantile(dual, 0.05), 0.0))
    margin = 0.05 * max(high - low, 1e-12)
    return float(low - margin), float(high + margin)


def _draw_gap(axes: Axes, run: Convergence) -> None:
    rounds, gaps = run.measured("round"), run.measured("relative_gap")
    positive = gaps > 0
    axes.plot(rounds[positive], gaps[positive], color=_PRIMAL, lw=2)
    if run.tolerance > 0:
        axes.axhline(run.tolerance, color=_POOLED, lw=1.2, ls="--")
        axes.annotate(
            f"tolerance {run.tolerance:g}",
            (0.0, run.tolerance),
            xycoords=("axes fraction", "data"),
            xytext=(6, 5),
            textcoords="offset points",
            fontsize=9,
            color=_POOLED,
        )
    axes.set_yscale("log")
    title = "Certified relative gap"
    if run.n_fits > 1:
        title = f"Largest certified relative gap of all {run.n_fits} fits"
    axes.set_title(title, fontsize=11, color=INK)
    axes.set_ylabel("(P - D) / P")


def _draw_validation(axes: Axes, rounds: Any, losses: Any) -> None:
    """Draw the points of the curves; they may be far apart, so each has a mark."""
    axes.plot(rounds, losses, color=_DUAL, lw=2, marker="o", ms=4)
    axes.set_title("Rows set aside", fontsize=11, color=INK)
    axes.set_ylabel("mean loss")

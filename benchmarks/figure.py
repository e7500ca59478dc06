"""The figure of docs/acceleration.md: certified gap by round, bundle and HyFDCA."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks import problems
from benchmarks.problems import Problem
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.training.runner import Runner

NEEDS = ()
TARGET = Path(__file__).resolve().parents[1] / "docs" / "acceleration.png"
N_ROUNDS = 1500
TUNED = {"breast_cancer": 0.1, "digits": 0.03}  # the IIC that diverges on neither

_WAYS = {
    "bundle, sub-groups of 20": ("#1f6f8b", "-"),
    "bundle, open": ("#3f9bb8", "-"),
    "bundle, sealed, single cut": ("#7cc0d4", "-"),
    "HyFDCA, exact line search": ("#b5452c", "-"),
    "HyFDCA, printed step, tuned": ("#d98c7a", "--"),
}


def run(folder: Path | None) -> None:
    """Draw it."""
    figure = Figure(figsize=(10.0, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    both = (problems.BREAST_CANCER, problems.DIGITS)
    for axes, problem in zip(figure.subplots(1, 2, sharey=True), both, strict=True):
        _draw(axes, problem, folder)
    figure.axes[0].set_ylabel("certified relative gap (P - D) / P")
    lines = figure.axes[0].get_lines()[: len(_WAYS)]
    figure.legend(
        handles=lines, loc="outside lower center", ncols=3, frameon=False, fontsize=9
    )
    figure.savefig(TARGET, dpi=130)
    print(f"written: {TARGET.name}")


def _draw(axes: Axes, problem: Problem, folder: Path | None) -> None:
    table = problem.load(folder)
    parts = Bundle(sub_groups=25)
    single = Bundle(min_contributors=1_000_000)
    tuned = Hyfdca(step="paper", iic=TUNED[problem.name])
    runs = (
        problems.training(problem, table, algorithm=parts),
        problems.training(problem, table),
        problems.training(problem, table, profile="sealed", algorithm=single),
        _paper(problem, table, Hyfdca(step="line_search")),
        _paper(problem, table, tuned),
    )
    for training, (label, (color, style)) in zip(runs, _WAYS.items(), strict=True):
        training.finish()
        gaps = [record["relative_gap"] for record in training.history]
        lowest = [min(gaps[: n + 1]) for n in range(len(gaps))]
        rounds = range(1, len(gaps) + 1)
        axes.plot(rounds, lowest, color=color, ls=style, lw=2, label=label)
    axes.axhline(1e-3, color="#3a3a3a", lw=1, ls=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(5e-4, 1.5)
    axes.set_xlabel("round")
    axes.set_title(f"{problem.name}, {problem.shape} clients, λ = {problem.l2:g}")
    axes.grid(color="#d9d9d9", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _paper(problem: Problem, table: problems.Table, settings: Hyfdca) -> Runner:
    return problems.training(problem, table, algorithm=settings, max_rounds=N_ROUNDS)

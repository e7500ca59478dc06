"""Physical rounds under partial participation until the loss is 1 % above the optimum.

The open profile, asynchronous by owner group. In every round a random share of
the clients is present. The model is that of the server's present point; the certificate
needs everybody to have been present for its own exchanges, so it comes later.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks import problems
from benchmarks.problems import Problem, Table
from benchmarks.rounds import rounds_to
from hyfdca.holdings.participation import random_fraction
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective, reference_optimum

NEEDS = ("mnist", "covtype")
CASES = (
    (problems.MNIST_125, ((0.9, 40), (0.5, 110), (0.1, 800))),
    (problems.COVTYPE_12, ((0.9, 70),)),
)
RELATIVE_LOSS = 1e-2


def run(folder: Path | None) -> None:
    """Print one line per case."""
    for problem, shares in CASES:
        table = problem.load(folder)
        objective = Objective(table.X, table.y, make_loss("hinge"), problem.l2)
        optimum = reference_optimum(objective, 1e-5).dual
        for share, limit in shares:
            _line(problem, table, objective, optimum, share, limit)


def _line(
    problem: Problem,
    table: Table,
    objective: Objective,
    optimum: float,
    share: float,
    limit: int,
) -> None:
    training = problems.training(
        problem,
        table,
        participation=partial(random_fraction, fraction=share, seed=0),
        max_rounds=2 * limit,
    )
    reached = None
    for report in training.rounds():
        if reached is None:
            point = training.server.point  # type: ignore[attr-defined]
            loss = objective.primal(point) / optimum - 1.0
            reached = report.round_number if loss <= RELATIVE_LOSS else None
        gap = report.measurement.relative_gap if report.measurement else 1.0
        if reached is not None and gap <= RELATIVE_LOSS:
            break
    seconds = sum(record["seconds"] for record in training.history)
    print(
        f"{problem.name} {problem.shape}, {share:.0%} present: relative loss 1 % at "
        f"round {reached} (at most {limit}), certified at {rounds_to(training, 1e-2)}; "
        f"{seconds / len(training.history):.2f} s a round",
        flush=True,
    )

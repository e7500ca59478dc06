"""Wall time of the bundle method, and how much of the work is the server's own.

For the share, clients work one by one: it measures work, not waiting.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks import problems
from benchmarks.problems import Problem, Table
from benchmarks.reference import fastest_linear_svc
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.holdings.partition import horizontal
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.runtime.inprocess import InProcess
from hyfdca.training.runner import Runner

NEEDS = ("mnist", "covtype")
WAYS = {
    "owner groups": Bundle(),
    "4 sub-groups each": Bundle(sub_groups=4),
}

MANY = Problem(
    "MNIST",
    1e-3,
    problems.mnist,
    lambda table: horizontal(*table.X.shape, 1250, seed=0),
    "1250x1",
    "mnist",
)


def run(folder: Path | None) -> None:
    """Print times and shares."""
    covtype = problems.covtype(folder)
    _against_linear_svc(covtype)
    _server_share(problems.COVTYPE_12, covtype)
    del covtype
    mnist = problems.mnist(folder)
    for problem in (problems.MNIST_5, problems.MNIST_125, MANY):
        _server_share(problem, mnist)


def _against_linear_svc(table: Table) -> None:
    """Compare with scikit-learn on the pooled data, to the same gap of 0.1 %."""
    _trained(problems.COVTYPE_3, table)  # compile before the clock starts
    objective = Objective(table.X, table.y, make_loss("hinge"), problems.COVTYPE_3.l2)
    bound = reference_optimum(objective, 1e-5).dual
    theirs = fastest_linear_svc(objective, bound)
    for name, settings in WAYS.items():
        ours = float("inf")
        for _ in range(3):
            training = problems.training(problems.COVTYPE_3, table, algorithm=settings)
            started = time.perf_counter()
            training.finish()
            ours = min(ours, time.perf_counter() - started)
        print(
            f"covtype 3x3, {name}, to a certified 0.1 %: {ours:.2f} s in "
            f"{len(training.history)} rounds; LinearSVC {theirs:.2f} s; ratio "
            f"{ours / theirs:.2f} (at most 3)",
            flush=True,
        )


def _server_share(problem: Problem, table: Table) -> None:
    training, driver = _trained(problem, table)
    seconds = np.array([record["seconds"] for record in training.history])
    server = seconds.sum() - driver.client_seconds
    n_rounds = len(seconds)
    print(
        f"{problem.name} {problem.shape}: a round takes {seconds.mean():.3f} s, the "
        f"server's own work {server / n_rounds:.3f} s, {server / seconds.sum():.1%}",
        flush=True,
    )


def _trained(problem: Problem, table: Table) -> tuple[Runner, InProcess]:
    """Train; the driver's clock then has the rounds alone."""
    training = problems.training(problem, table)
    driver = problems.one_by_one(training)
    reports = training.rounds()
    next(reports)
    driver.client_seconds = 0.0
    training.history.clear()
    for _ in reports:
        pass
    return training, driver

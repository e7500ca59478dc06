"""Choosing λ in one run against separate fits: nine λ, five folds, 46 fits.

The separate fits are the same algorithm on the rows that are left, then one of all rows
at the λ chosen. A pooled cross-validation by scikit-learn with the same folds says
whether the choice is right.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from benchmarks import problems
from benchmarks.problems import Problem, Table
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.path import HasPath, chosen_place
from hyfdca.federation.path import Path as L2Path
from hyfdca.holdings.block import split_blocks, with_folds
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.maths.losses import make_loss
from hyfdca.maths.seeds import stream
from hyfdca.training.in_process import train_in_process
from hyfdca.training.runner import Runner
from hyfdca.training.settings import TrainingSettings

NEEDS = ("covtype",)
IN_PART = True

N_FOLDS, TOLERANCE = 5, 1e-3
GRIDS = {"breast_cancer": (1e-1, 1e-5), "covtype": (1e-2, 1e-6)}


def run(folder: Path | None) -> None:
    """Print rounds, times and choices."""
    for problem in (problems.BREAST_CANCER, problems.COVTYPE_3):
        if problem.is_there(folder):
            _compare(problem, problem.load(folder))


def _compare(problem: Problem, table: Table) -> None:
    folds = stream(0, "folds").integers(0, N_FOLDS, len(table.y))
    l2s = tuple(np.geomspace(*GRIDS[problem.name], 9).tolist())
    path = L2Path(l2s, N_FOLDS, TOLERANCE)
    _training(problem, table, l2s[0], 2).finish()  # compile before the clock starts
    _training(problem, table, l2s[0], 2, path, folds).finish()
    started = time.perf_counter()
    together = _training(problem, table, l2s[0], 1000, path, folds)
    together.finish()
    seconds = time.perf_counter() - started
    server = together.server
    assert isinstance(server, HasPath)  # noqa: S101  # for the type checker
    found = server.table()
    chosen = [row.is_chosen for row in found].index(True)
    rounds, apart = zip(*_separate(problem, table, folds, l2s, chosen), strict=True)
    pooled = _pooled(table, folds, l2s)
    means, expected = pooled.mean(axis=1), chosen_place(pooled, "best")[0]
    n_rounds = len(together.history)
    print(
        f"{problem.name} {problem.shape}, logistic, {len(l2s)} λ and {N_FOLDS} folds, "
        f"each fit to a certified {TOLERANCE:.1%}: {n_rounds} rounds, the slowest fit "
        f"alone {max(rounds)}, ratio {n_rounds / max(rounds):.2f} (at most 1.5); "
        f"{seconds:.2f} s, {len(rounds)} fits one by one {sum(apart):.2f} s, ratio "
        f"{seconds / sum(apart):.2f} (at most 0.25); λ {l2s[chosen]:.3g}, pooled "
        f"cross-validation {l2s[expected]:.3g}, by whose losses the choice is "
        f"{means[chosen] / means[expected] - 1:.1e} above the best",
        flush=True,
    )


def _separate(
    problem: Problem,
    table: Table,
    folds: IntArray,
    l2s: tuple[float, ...],
    chosen: int,
) -> Iterator[tuple[int, float]]:
    """Yield rounds and seconds of every fit on its own."""
    parts = [_rows(table, folds != fold) for fold in range(N_FOLDS)]
    fits = [(part, l2) for l2 in l2s for part in parts]
    for part, l2 in [*fits, (table, l2s[chosen])]:
        started = time.perf_counter()
        training = _training(problem, part, l2, 1000)
        training.finish()
        yield len(training.history), time.perf_counter() - started


def _rows(table: Table, kept: IntArray) -> Table:
    return Table(sp.csr_array(table.X[np.flatnonzero(kept)]), table.y[kept])


def _training(
    problem: Problem,
    table: Table,
    l2: float,
    max_rounds: int,
    path: L2Path | None = None,
    folds: IntArray | None = None,
) -> Runner:
    partition = problem.split(table)
    layout = layout_of(partition)
    settings = TrainingSettings(
        make_loss("logistic"),
        l2,
        Bundle(),
        profile="open",
        max_rounds=max_rounds,
        tolerance=TOLERANCE,
        free_intercept=True,
        path=path,
    )
    blocks = split_blocks(table.X, table.y, partition, layout)
    if folds is not None:
        blocks = with_folds(blocks, layout, folds)
    return train_in_process(
        settings, layout, blocks, complete(partition.n_clients)
    ).runner


def _pooled(table: Table, folds: IntArray, l2s: tuple[float, ...]) -> FloatArray:
    """Return the validation losses of scikit-learn's fits of the pooled rows."""
    scores = np.empty((len(l2s), N_FOLDS))
    for fold in range(N_FOLDS):
        train, test = _rows(table, folds != fold), _rows(table, folds == fold)
        for place, l2 in enumerate(l2s):
            strength = 1 / (l2 * len(train.y))
            solver = LogisticRegression(C=strength, tol=1e-6, max_iter=2000)
            solver.fit(train.X, train.y[:, 0])
            margins = test.X @ solver.coef_[0] + solver.intercept_
            losses = np.logaddexp(0.0, -test.y[:, 0] * margins)
            scores[place, fold] = losses.mean()
    return scores

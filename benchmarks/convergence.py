"""Rounds that the paper's method takes on two small data sets, 3x3 clients.

Hinge loss, λ = 1e-3, an explicit unit bias column, complete participation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.problems import breast_cancer, digits
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.arrays import FloatArray
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.holdings.partition import grid
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.training.in_process import train_in_process
from hyfdca.training.runner import Runner
from hyfdca.training.settings import TrainingSettings

NEEDS = ()


L2 = 1e-3


def run(folder: Path | None) -> None:
    """Print rounds to certified gaps, and how close the printed step comes."""
    for name, table, iic, n_rounds in (
        ("breast_cancer", breast_cancer(), 0.1, 1500),
        ("digits, 3 v rest", digits(), 0.03, 2000),
    ):
        X, y = table.X, table.y
        searched = _train(X, y, Hyfdca(step="line_search"), 1500, 1e-3)
        gaps = np.array([r["relative_gap"] for r in searched.history])
        rounds = [int(np.argmax(gaps <= gap)) + 1 for gap in (1e-2, 1e-3)]
        print(f"{name}: line_search certified 1 % / 0.1 % at rounds {rounds}")
        loss = make_loss("hinge")
        optimum = reference_optimum(Objective(X, y, loss, L2), 1e-8).primal
        for chosen, most in ((iic, n_rounds), (3.0, 300)):
            settings = Hyfdca(step="paper", iic=chosen)
            primal = _train(X, y, settings, most).history[-1]["primal"]
            print(
                f"{name}: paper, IIC {chosen:g}, round {most}: relative loss "
                f"{primal / optimum - 1:.1%}"
            )


def _train(
    X: sp.csr_array,
    y: FloatArray,
    algorithm: Hyfdca,
    max_rounds: int,
    tolerance: float = 0.0,
) -> Runner:
    partition = grid(*X.shape, (3, 3), seed=0)
    layout = layout_of(partition)
    settings = TrainingSettings(
        make_loss("hinge"),
        L2,
        algorithm,
        max_rounds=max_rounds,
        tolerance=tolerance,
        measure_every=1 if tolerance else max_rounds,
    )
    blocks = split_blocks(X, y, partition, layout)
    training = train_in_process(settings, layout, blocks, complete(9)).runner
    training.finish()
    return training

"""Rounds that the paper's method takes on two small data sets, 3x3 clients.

Hinge loss, λ = 1e-3, an explicit unit bias column, complete participation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.problems import breast_cancer, digits
from hyfdca.algorithms.hyfdca.draws import HyfdcaSettings
from hyfdca.arrays import FloatArray
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.holdings.partition import grid
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.training.in_process import Training
from hyfdca.training.runner import TrainingSettings

L2 = 1e-3


def run(folder: Path) -> None:
    """Print rounds to certified gaps, and how close the printed step comes."""
    for name, table, iic, n_rounds in (
        ("breast_cancer", breast_cancer(), 0.1, 1500),
        ("digits, 3 v rest", digits(), 0.03, 2000),
    ):
        X, y = table.X, table.y
        searched = _train(X, y, HyfdcaSettings(step="line_search"), 1500, 1e-3)
        gaps = np.array([r["relative_gap"] for r in searched.history])
        rounds = [int(np.argmax(gaps <= gap)) + 1 for gap in (1e-2, 1e-3)]
        print(f"{name}: line_search certified 1 % / 0.1 % at rounds {rounds}")
        loss = make_loss("hinge")
        optimum = reference_optimum(Objective(X, y, loss, L2), 1e-8).primal
        for chosen, most in ((iic, n_rounds), (3.0, 300)):
            settings = HyfdcaSettings(step="paper", iic=chosen)
            primal = _train(X, y, settings, most).history[-1]["primal"]
            print(
                f"{name}: paper, IIC {chosen:g}, round {most}: relative loss "
                f"{primal / optimum - 1:.1%}"
            )


def _train(
    X: sp.csr_array,
    y: FloatArray,
    hyfdca: HyfdcaSettings,
    max_rounds: int,
    tolerance: float = 0.0,
) -> Training:
    partition = grid(*X.shape, (3, 3), seed=0)
    layout = layout_of(partition)
    settings = TrainingSettings(
        make_loss("hinge"),
        L2,
        hyfdca,
        max_rounds=max_rounds,
        tolerance=tolerance,
        measure_every=1 if tolerance else max_rounds,
        algorithm="hyfdca",
    )
    blocks = split_blocks(X, y, partition, layout)
    training = Training(settings, layout, blocks, complete(9))
    training.finish()
    return training

"""Rounds to a certified gap of 1e-3 and 1e-6 for every smooth loss: bundle and L-BFGS.

3x3 clients, λ = 1e-3, complete participation. Classification on breast_cancer,
regression on standardised diabetes and, badly conditioned, on breast_cancer's labels.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from benchmarks.problems import Table, biased, breast_cancer
from benchmarks.rounds import rounds_to
from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.holdings.partition import grid
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.protocol.messages import Profile
from hyfdca.training.in_process import train_in_process
from hyfdca.training.settings import TrainingSettings

NEEDS = ()
GAPS = (1e-3, 1e-6)


def run(folder: Path | None) -> None:
    """Print one line per loss and data set."""
    heads = [f"{a}, {p}" for p in ("open", "sealed") for a in ("bundle", "lbfgs")]
    print(f"{'loss':28} {'data':14} " + " ".join(f"{head:>15}" for head in heads))
    for name in LOSSES:
        loss = make_loss(name)
        if math.isinf(loss.smoothness):
            continue
        tables = {"breast_cancer": breast_cancer()}
        if loss.task == "regression":
            tables = {"diabetes": _diabetes(), **tables}
        for data, table in tables.items():
            cells = [
                _rounds(table, name, profile, algorithm)
                for profile in ("open", "sealed")
                for algorithm in ("bundle", "lbfgs")
            ]
            line = " ".join(f"{cell:>15}" for cell in cells)
            print(f"{name:28} {data:14} {line}", flush=True)


def _rounds(table: Table, loss: str, profile: Profile, algorithm: str) -> str:
    partition = grid(*table.X.shape, (3, 3), seed=0)
    layout = layout_of(partition)
    settings = TrainingSettings(
        make_loss(loss),
        1e-3,
        ALGORITHMS[algorithm](),
        profile=profile,
        max_rounds=200,
        tolerance=GAPS[-1],
    )
    blocks = split_blocks(table.X, table.y, partition, layout)
    training = train_in_process(settings, layout, blocks, complete(9)).runner
    training.finish()
    return " / ".join(str(rounds_to(training, gap) or "-") for gap in GAPS)


def _diabetes() -> Table:
    X, y = load_diabetes(return_X_y=True)
    scaled = (y - y.mean()) / y.std()
    return Table(biased(StandardScaler().fit_transform(X)), np.asarray(scaled)[:, None])

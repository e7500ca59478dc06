"""The memory that training on news20 (1.36 million features) takes, in 3x3 clients."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.child import peak, run_apart
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.data.sources import find_data
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.holdings.partition import deal_nonzeros
from hyfdca.maths.losses import make_loss
from hyfdca.training.in_process import train_in_process
from hyfdca.training.settings import TrainingSettings

NEEDS = ("news20",)


L2 = 1e-5
N_ROUNDS = 20


def run(folder: Path | None) -> None:
    """Print the peak memory of a process that loads, splits and trains."""
    run_apart(_train, folder)


def _train(folder: Path | None) -> None:
    data = find_data("news20", folder)
    print(f"loaded {data.X.shape}: {data.X.nnz:,} values, peak {peak():.2f} GB")
    labels = np.asarray(data.y, dtype=np.float64).reshape(-1, 1)
    partition = deal_nonzeros(data.X, (3, 3), seed=0)
    layout = layout_of(partition)
    blocks = split_blocks(data.X, labels, partition, layout)
    del data
    print(f"split over {partition.n_clients} clients: peak {peak():.2f} GB")
    settings = TrainingSettings(make_loss("hinge"), L2, Hyfdca(), max_rounds=N_ROUNDS)
    present = complete(partition.n_clients)
    training = train_in_process(settings, layout, blocks, present).runner
    started = time.perf_counter()
    training.finish()
    seconds = time.perf_counter() - started
    measured = training.measurement
    assert measured is not None  # noqa: S101  # a run that ended has been measured
    print(
        f"{N_ROUNDS} rounds in {seconds:.1f} s: P {measured.primal:.4f}, "
        f"D {measured.dual:.4f}"
    )
    print(f"peak memory: {peak():.2f} GB (under 3)")

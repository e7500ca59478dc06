"""What a HyFDCA round costs beyond its two matrix products, on covtype 3x3.

Complete participation, every sample drawn; everything in one process, in bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.timing import shortest
from hyfdca.algorithms.aggregation import EVERYWHERE
from hyfdca.algorithms.hyfdca import HyfdcaSettings
from hyfdca.datasets import load_covtype
from hyfdca.losses import make_loss
from hyfdca.participation import complete
from hyfdca.partition import deal_nonzeros, layout_of
from hyfdca.runtimes.inprocess import Traffic
from hyfdca.training import Training, TrainingSettings, split_blocks

L2 = 5e-5
REPETITIONS = 20


def run(folder: Path) -> None:
    """Print the time of a round, of its products, and the ratio of the rest."""
    data = load_covtype(folder)
    labels = np.asarray(data.y, dtype=np.float64).reshape(-1, 1)
    partition = deal_nonzeros(data.X, (3, 3), seed=0)
    layout = layout_of(partition)
    blocks = split_blocks(data.X, labels, partition, layout)
    settings = TrainingSettings(
        make_loss("hinge"), L2, HyfdcaSettings(step="paper"), profile="sealed"
    )
    training = Training(settings, layout, blocks, complete(partition.n_clients))
    training.driver.run(training.server.set_up(), Traffic())
    everyone = range(partition.n_clients)

    def one_round() -> None:
        training.driver.run(training.server.round(everyone), Traffic())

    def products() -> None:
        for client in training.clients:
            client.products(EVERYWHERE, client.weights)
            client.combine(EVERYWHERE, client.duals)

    one_round()  # compile before the clock starts
    products()
    whole, _ = shortest(one_round, REPETITIONS)
    both, _ = shortest(products, REPETITIONS)
    print(f"a round: {1e3 * whole:.1f} ms, its two products: {1e3 * both:.1f} ms")
    print(f"ratio overhead / products: {(whole - both) / both:.2f} (at most 1)")

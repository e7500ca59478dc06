"""The cost of a HyFDCA round beyond its two matrix products, on covtype 3x3.

Complete participation, every sample drawn; everything in one process, in bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.problems import one_by_one
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.arrays import FloatArray
from hyfdca.data.sources import find_data
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.holdings.partition import deal_nonzeros
from hyfdca.maths.losses import make_loss
from hyfdca.runtime.driver import Traffic
from hyfdca.training.in_process import train_in_process
from hyfdca.training.settings import TrainingSettings

NEEDS = ("covtype",)


L2 = 5e-5
REPETITIONS = 20


def run(folder: Path | None) -> None:
    """Print the time of a round, of its products, and the ratio of the rest."""
    data = find_data("covtype", folder)
    labels = np.asarray(data.y, dtype=np.float64).reshape(-1, 1)
    partition = deal_nonzeros(data.X, (3, 3), seed=0)
    layout = layout_of(partition)
    blocks = split_blocks(data.X, labels, partition, layout)
    settings = TrainingSettings(
        make_loss("hinge"), L2, Hyfdca(step="paper"), profile="sealed"
    )
    present = complete(partition.n_clients)
    training = train_in_process(settings, layout, blocks, present)
    server = training.runner.server
    driver = one_by_one(training.runner)  # or products of two would overlap
    driver.run(server.set_up(), Traffic())
    everyone = range(partition.n_clients)

    clock = ProductClock()
    for party in training.parties:
        party.products = clock.timed(party.products)  # type: ignore[method-assign]
        party.combine = clock.timed(party.combine)  # type: ignore[method-assign]

    def one_round() -> tuple[float, float]:
        clock.seconds = 0.0
        started = time.perf_counter()
        driver.run(server.round(everyone), Traffic())
        return time.perf_counter() - started, clock.seconds

    one_round()  # compile before the clock starts
    whole, products = min(one_round() for _ in range(REPETITIONS))
    print(f"a round: {1e3 * whole:.1f} ms, its products: {1e3 * products:.1f} ms")
    print(f"ratio overhead / products: {whole / products - 1:.2f} (at most 1)")


class ProductClock:
    """Adds up the time spent in the products of a round, where they happen."""

    seconds = 0.0

    def timed(self, product: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
        """Return the product with its time added to the clock."""

        def wrapped(*arguments: object) -> FloatArray:
            started = time.perf_counter()
            result = product(*arguments)
            self.seconds += time.perf_counter() - started
            return result

        return wrapped

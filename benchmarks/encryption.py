"""What encryption costs on covtype 3x3: a round of HyFDCA, and a whole training.

A round: every sample drawn, BFV. What it takes beyond the same round without
encryption is compared with the time that its numbers take one after the other, each
sealed, opened and added at the cost measured in this run in one thread. Training: the
bundle method to a certified 0.1 %, against scikit-learn on the pooled data.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks import problems
from benchmarks.problems import Table
from benchmarks.reference import fastest_linear_svc
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.bench.crypto import measure
from hyfdca.bench.subjects import SCHEMES
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.sealing.kinds import SampleKind, VectorKind
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.protocol.messages import Profile
from hyfdca.runtime.driver import Traffic
from hyfdca.training.in_process import LocalTraining, train_in_process
from hyfdca.training.settings import TrainingSettings

NEEDS = ("covtype",)
TURNS, REPETITIONS = 3, 5
WAYS: tuple[tuple[str, Profile, Bundle], ...] = (
    ("open, 40 sub-groups", "open", Bundle(sub_groups=40)),
    ("open", "open", Bundle()),
    ("sealed", "sealed", Bundle()),
)
LIMITS = {
    Encryption(): 3,
    Encryption("stream"): 6,
    Encryption("bfv", "compact"): 12,
    Encryption("bfv"): None,
}


def run(folder: Path | None) -> None:
    """Print both comparisons."""
    table = problems.covtype(folder)
    _round(table)
    _training(table)


@dataclass
class Counter:
    """Counts numbers that pass a function, an argument or a result of it."""

    sealed: int = 0
    opened: int = 0
    added: int = 0

    def watch(self, training: LocalTraining) -> None:
        """Count what clients seal and open and the server adds, by sample."""
        kinds = [VectorKind("samples", name) for name in get_args(SampleKind)]
        for party in training.parties:
            made = [party.sealing.sealer(kind) for kind in kinds]
            sealer: Any
            for sealer in {id(own): own for own in made}.values():
                sealer.seal = self._seal(sealer.seal)
                sealer.open = self._open(sealer.open)
        adder: Any = training.runner.federation.vectors.sample_adder
        adder.add = self._add(adder.add, adder.n_slots or 1)

    def _seal(self, seal: Any) -> Any:
        def counted(numbers: Any, *others: Any) -> Any:
            self.sealed += numbers.size
            return seal(numbers, *others)

        return counted

    def _open(self, opened: Any) -> Any:
        def counted(*given: Any) -> Any:
            numbers = opened(*given)
            self.opened += numbers.size
            return numbers

        return counted

    def _add(self, add: Any, n_slots: int) -> Any:
        def counted(total: Any, where: Any, vector: Any) -> None:
            self.added += len(vector.rows) * n_slots
            add(total, where, vector)

        return counted


def _hyfdca(table: Table, encryption: Encryption) -> LocalTraining:
    partition = problems.COVTYPE_3.split(table)
    layout = layout_of(partition)
    settings = TrainingSettings(
        make_loss("hinge"),
        problems.COVTYPE_3.l2,
        Hyfdca(step="paper"),
        encryption=encryption,
    )
    blocks = split_blocks(table.X, table.y, partition, layout)
    present = complete(partition.n_clients)
    return train_in_process(settings, layout, blocks, present)


def _round(table: Table) -> None:
    plain, sealed = (
        _Rounds(_hyfdca(table, encryption))
        for encryption in (Encryption(), Encryption("bfv"))
    )
    counter = Counter()
    counter.watch(sealed.training)
    sealed.one()
    # In turn, so that both see the same machine; several in a row, as in a training.
    turns = [(plain.some(), sealed.some()) for _ in range(TURNS)]
    without, with_it = np.median(np.array(turns), axis=(0, 2))
    cost = measure(SCHEMES["bfv"]())
    n_rounds = TURNS * REPETITIONS + 1
    one_by_one = 1e-9 * (
        counter.sealed / n_rounds * cost.encrypt_ns
        + counter.opened / n_rounds * cost.decrypt_ns
        + counter.added / n_rounds * cost.add_ns
    )
    print(
        f"a number: sealed in {cost.encrypt_ns:.0f} ns, opened in "
        f"{cost.decrypt_ns:.0f} ns, added in {cost.add_ns:.1f} ns\n"
        f"a round: {counter.sealed // n_rounds:,} numbers sealed, "
        f"{counter.opened // n_rounds:,} opened, {counter.added // n_rounds:,} added: "
        f"{1e3 * one_by_one:.0f} ms one by one\n"
        f"it takes {1e3 * with_it:.0f} ms, without encryption {1e3 * without:.0f} ms; "
        f"ratio {(with_it - without) / one_by_one:.2f} (at most 0.75)",
        flush=True,
    )


class _Rounds:
    """A training whose rounds are timed one by one."""

    def __init__(self, training: LocalTraining) -> None:
        self.training, runner = training, training.runner
        runner.driver.run(runner.server.set_up(), Traffic())
        self.one()  # compile before the clock starts

    def some(self) -> list[float]:
        """Return the seconds of some rounds."""
        return [self.one() for _ in range(REPETITIONS)]

    def one(self) -> float:
        """Return the seconds of a round."""
        runner = self.training.runner
        everyone = range(runner.federation.layout.n_clients)
        started = time.perf_counter()
        runner.driver.run(runner.server.round(everyone), Traffic())
        return time.perf_counter() - started


def _training(table: Table) -> None:
    objective = Objective(table.X, table.y, make_loss("hinge"), problems.COVTYPE_3.l2)
    bound = reference_optimum(objective, 1e-5).dual
    theirs = fastest_linear_svc(objective, bound)
    for way, profile, settings in WAYS:
        for encryption, limit in LIMITS.items():
            best, n_rounds = float("inf"), 0
            for _ in range(2):
                training = problems.training(
                    problems.COVTYPE_3,
                    table,
                    profile=profile,
                    algorithm=settings,
                    encryption=encryption,
                )
                started = time.perf_counter()
                training.finish()
                best = min(best, time.perf_counter() - started)
                n_rounds = len(training.history)
            scheme = f"{encryption.scheme} {encryption.precision}"
            print(
                f"{way}; {scheme}: {best:.2f} s in {n_rounds} rounds; LinearSVC "
                f"{theirs:.2f} s; ratio {best / theirs:.1f}"
                + (f" (at most {limit})" if limit else ""),
                flush=True,
            )

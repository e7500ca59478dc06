"""Runs of a study as jobs: side by side in processes, each stored once it is done.

The outcome of a job is a file that is named after the job. A study that was stopped or
killed finds what it has already done; another study may share the folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from hyfdca import __version__
from hyfdca.errors import StudyError
from hyfdca.reproduction.kept import keep, load_kept
from hyfdca.reproduction.paper import (
    Clients,
    DataSetName,
    Hyperparameters,
    Method,
    Setting,
)
from hyfdca.reproduction.problems import Choices, held_problem
from hyfdca.reproduction.processes import Workers
from hyfdca.reproduction.simulation import (
    ORDERS,
    BulkRun,
    SimulatedRun,
    TimeLimit,
    make_run,
    simulate,
)
from hyfdca.training.bulk.stacked import Order, StackedBlocks

_WARM_UP_ROUNDS = 2  # the second finds what the first has left
_warm: set[tuple[DataSetName, Method, Choices]] = set()  # in this process


@dataclass(frozen=True)
class Job:
    """One run: everything that its outcome depends on.

    Parameters
    ----------
    l2 : float
        λ.
    measure_every : int
        Rounds from one measured round to the next.
    seed : int
        The seed of presence and draws; the split has its own, in ``choices``.
    limit : TimeLimit, optional
        A limit that may end the run before its last round.
    """

    setting: Setting
    method: Method
    chosen: Hyperparameters
    l2: float
    n_rounds: int
    measure_every: int
    seed: int = 0
    choices: Choices = field(default_factory=Choices)
    limit: TimeLimit | None = None

    @property
    def file_name(self) -> str:
        """A readable name, and a checksum of what it leaves out."""
        # Another version may compute something else.
        facts = json.dumps([__version__, dataclasses.asdict(self)], sort_keys=True)
        checksum = hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()
        where = self.setting.label.replace(", ", "-")
        return f"{self.setting.data_set}-{where}-{self.method}-{checksum}.json"


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    """The file of a finished job."""

    version: str
    job: dict[str, object]
    rounds: list[int]
    losses: list[float | None]  # None for a loss that is not finite
    bounds: list[float]
    accuracies: list[float]
    seconds: list[float]
    sealed: list[int]
    opened: list[int]
    bytes: list[int]
    busiest_sealed: list[int]
    busiest_opened: list[int]
    sealed_drawn: list[int]


def load_outcome(job: Job, folder: Path) -> SimulatedRun | None:
    """Return what a job found, if it is done.

    Raises
    ------
    StudyError
        If its file is damaged.
    """
    path = folder / job.file_name
    record = load_kept(path, _Record)
    if record is None:
        return None
    _check(path, record)
    return SimulatedRun(
        np.array(record.rounds, np.int64),
        np.array([np.inf if loss is None else loss for loss in record.losses]),
        np.array(record.bounds),
        np.array(record.accuracies),
        np.array(record.seconds),
        np.array(record.sealed, np.int64),
        np.array(record.opened, np.int64),
        np.array(record.bytes, np.int64),
        np.array(record.busiest_sealed, np.int64),
        np.array(record.busiest_opened, np.int64),
        np.array(record.sealed_drawn, np.int64),
    )


def _check(path: Path, record: _Record) -> None:
    """Refuse a file whose columns do not fit together."""
    facts = {"version", "job"}
    columns = [
        getattr(record, name) for name in record.__struct_fields__ if name not in facts
    ]
    rounds = record.rounds
    is_ascending = all(a < b for a, b in itertools.pairwise(rounds))
    if any(len(c) != len(rounds) for c in columns) or not rounds or not is_ascending:
        raise StudyError(
            f"{path} is damaged: its columns do not fit together; delete it, and it "
            "is computed again."
        )


def keep_outcome(job: Job, run: SimulatedRun, folder: Path) -> None:
    """Write what a job found; the file is complete or absent."""
    record = _Record(
        __version__,
        dataclasses.asdict(job),
        run.rounds.tolist(),
        [loss if np.isfinite(loss) else None for loss in run.losses.tolist()],
        run.bounds.tolist(),
        run.accuracies.tolist(),
        run.seconds.tolist(),
        run.sealed.tolist(),
        run.opened.tolist(),
        run.bytes.tolist(),
        run.busiest_sealed.tolist(),
        run.busiest_opened.tolist(),
        run.sealed_drawn.tolist(),
    )
    keep(folder / job.file_name, record)


def run_jobs(
    jobs: Iterable[Job], folder: Path, data: Path | None, workers: Workers
) -> Iterator[tuple[Job, SimulatedRun]]:
    """Return every job with its outcome as soon as there is one; run unfinished jobs.

    Parameters
    ----------
    jobs : iterable of Job
        Taken one by one as processes become free, so it may end after some time.
    folder : path
        The folder of the outcomes.
    data : path, optional
        Where to look for the data sets first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    running: dict[Future[SimulatedRun], Job] = {}
    for job in jobs:
        known = load_outcome(job, folder)
        if known is not None:
            yield job, known
            continue
        running[workers.submit(run_job, job, folder, data)] = job
        yield from _ended(running, workers.n_processes - 1)
    yield from _ended(running, 0)


def _ended(
    running: dict[Future[SimulatedRun], Job], at_most: int
) -> Iterator[tuple[Job, SimulatedRun]]:
    """Return jobs that have ended, until at most ``at_most`` are left."""
    while len(running) > at_most:
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            yield running.pop(done), done.result()


def run_job(job: Job, folder: Path, data: Path | None) -> SimulatedRun:
    """Run a job in this process, and keep its outcome."""
    name, choices = job.setting.data_set, job.choices
    blocks = _blocks(name, choices, data, job.setting.clients, ORDERS[job.method])
    _warm_up(job, blocks)
    problem, run = held_problem(name, choices, data), _run_of(job, blocks)
    found = simulate(problem, run, job.n_rounds, job.measure_every, job.limit)
    keep_outcome(job, found, folder)
    return found


def _run_of(job: Job, blocks: StackedBlocks) -> BulkRun:
    """Return the job's run, ready for its first round."""
    return make_run(
        *(blocks, job.l2, job.method, job.chosen, job.setting.fraction, job.seed),
        choices=job.choices,
    )


def _warm_up(job: Job, blocks: StackedBlocks) -> None:
    """Compile what the rounds of a job need, before any round is timed.

    Time is a criterion of tuning, so the first trial of a process must not pay for
    what others find compiled. The rounds belong to a separate run: the job's own run
    does not change.
    """
    what = (job.setting.data_set, job.method, job.choices)
    if what in _warm:
        return
    run = _run_of(job, blocks)
    for _ in range(_WARM_UP_ROUNDS):
        run.round()
    _warm.add(what)


# A process keeps the last blocks in both orders: jobs come split by split.
@lru_cache(maxsize=2)
def _blocks(
    name: DataSetName,
    choices: Choices,
    data: Path | None,
    clients: Clients,
    order: Order,
) -> StackedBlocks:
    return held_problem(name, choices, data).blocks(clients, order)

"""The steps of the bundle method with everybody present, and their costs."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import scipy.sparse as sp

from hyfdca import __version__
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.arrays import FloatArray
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.holdings.partition import horizontal
from hyfdca.maths.losses import make_loss
from hyfdca.reproduction.kept import keep, kept_path, load_kept
from hyfdca.reproduction.merging import MergedPartition, merged_by_bucket
from hyfdca.reproduction.paper import Clients
from hyfdca.reproduction.problems import PaperProblem
from hyfdca.reproduction.recording import Exchange, Recorder
from hyfdca.runtime.inprocess import InProcess
from hyfdca.training.in_process import train_in_process
from hyfdca.training.runner import Runner
from hyfdca.training.settings import TrainingSettings


@dataclass(frozen=True)
class Limits:
    """When a run ends: at a certified relative gap, or after some steps."""

    tolerance: float = 1e-4
    max_steps: int = 200


_DEFAULT = Limits()


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a step, and its cost.

    Parameters
    ----------
    loss, bound : float
        P and D on the training rows.
    accuracy : float
        The accuracy on the validation rows.
    server_seconds : float
        CPU time of the server, which solves a programme of all planes.
    """

    loss: float
    bound: float
    accuracy: float
    exchanges: list[Exchange]
    server_seconds: float


class BundleHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run of the bundle method; the first step is the start, which costs nothing."""

    n_clients: int
    steps: list[Step]


def bundle_history(
    problem: PaperProblem,
    clients: Clients,
    folder: Path | None = None,
    limits: Limits = _DEFAULT,
) -> BundleHistory:
    """Train with the real exchanges in the open profile, everybody present.

    Thousands of clients are merged first (``merging.py``), which does not change the
    history. Costs are those of all clients, without set-up.

    Parameters
    ----------
    clients : int or (int, int)
        As the paper prints them.
    folder : path, optional
        Where results are stored and looked up.
    """
    algorithm = Bundle()
    if folder is None:
        merged = merged_by_bucket(problem.partition(clients), algorithm)
        return run_steps(problem, merged, algorithm, limits)
    path = kept_path(
        folder,
        history_name(clients),
        problem,
        version=__version__,  # another version may compute something else
        clients=clients,
        algorithm=dataclasses.asdict(algorithm),
        limits=dataclasses.asdict(limits),
    )
    found = load_kept(path, BundleHistory)
    if found is None:
        found = bundle_history(problem, clients, None, limits)
        keep(path, found)
    return found


def history_name(clients: Clients) -> str:
    """Return the name of a stored history."""
    return "bundle-" + "-".join(map(str, np.atleast_1d(clients)))


def run_steps(
    problem: PaperProblem,
    merged: MergedPartition,
    algorithm: Bundle,
    limits: Limits = _DEFAULT,
) -> BundleHistory:
    """Train the clients of a partition; see ``bundle_history``."""
    settings = TrainingSettings(
        make_loss("hinge"),
        problem.l2,
        algorithm,
        profile="open",
        max_rounds=limits.max_steps,
        tolerance=limits.tolerance,
        seed=problem.choices.seed,
    )
    partition, layout = merged.partition, layout_of(merged.partition)
    labels = problem.train.y[:, None]
    blocks = split_blocks(problem.train.X, labels, partition, layout)
    everyone = complete(partition.n_clients)
    runner = train_in_process(settings, layout, blocks, everyone).runner
    _compile()
    return BundleHistory(merged.n_clients, _steps(problem, runner, merged))


@cache
def _compile() -> None:
    """Run a step on a tiny table: the first step would be timed with compiling."""
    X, labels = sp.csr_array(np.eye(4)), np.ones((4, 1))
    partition = horizontal(4, 4, 2)
    layout = layout_of(partition)
    settings = TrainingSettings(make_loss("hinge"), 1.0, Bundle(), "open", 1, 0.0)
    blocks = split_blocks(X, labels, partition, layout)
    train_in_process(settings, layout, blocks, complete(2)).runner.finish()


def _steps(
    problem: PaperProblem, runner: Runner, merged: MergedPartition
) -> list[Step]:
    assert isinstance(runner.driver, InProcess)  # noqa: S101  # of train_in_process
    recorder = Recorder(runner.driver, merged)
    runner.driver = recorder
    runner.start()
    recorder.take()
    steps = [_reached(problem, runner, np.zeros(problem.train.X.shape[1]), [], 0.0)]
    started = time.thread_time()
    for _ in runner.rounds():
        exchanges, client_seconds = recorder.take()
        server_seconds = time.thread_time() - started - client_seconds
        weights = runner.release()[:, 0]
        recorder.take()
        steps.append(_reached(problem, runner, weights, exchanges, server_seconds))
        started = time.thread_time()
    return steps


def _reached(
    problem: PaperProblem,
    runner: Runner,
    weights: FloatArray,
    exchanges: list[Exchange],
    server_seconds: float,
) -> Step:
    measured = runner.measurement
    assert measured is not None  # noqa: S101  # every step measures
    return Step(
        measured.primal,
        measured.dual or 0.0,
        problem.validation.accuracy(weights),
        exchanges,
        server_seconds,
    )

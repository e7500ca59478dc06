"""The certified optimum of a problem of the study, which relative losses refer to."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.holdings.partition import horizontal
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import reference_optimum, relative_gap
from hyfdca.reproduction.kept import keep, kept_path, load_kept
from hyfdca.reproduction.problems import PaperProblem
from hyfdca.training.in_process import train_in_process
from hyfdca.training.settings import TrainingSettings

GAP = 1e-6
_EPOCHS, _ROUNDS = 2000, 300
_BUCKETS = 125


class CertifiedOptimum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds on the optimum of the pooled training rows.

    Parameters
    ----------
    primal, dual : float
        The optimum is between them.
    regulariser : float
        The part of ``primal`` that is λ/2 ||w||²; the rest is the mean loss.
    accuracy : float
        Of the model, on the validation rows.
    method : str
        What found them, in ``seconds``.
    """

    primal: float
    dual: float
    regulariser: float
    accuracy: float
    method: str
    seconds: float

    @property
    def relative_gap(self) -> float:
        """(P - D) / P."""
        return relative_gap(self.primal, self.dual)


def certified_optimum(
    problem: PaperProblem, folder: Path | None = None, gap: float = GAP
) -> CertifiedOptimum:
    """Solve the problem of all training rows in one place.

    Where there are more rows than features the bundle method with many buckets is the
    fastest, elsewhere dual coordinate ascent. The other one is tried if that fails;
    then ``relative_gap`` may be above ``gap``, but P and D are bounds all the same.

    Parameters
    ----------
    folder : path, optional
        Where the result is kept, and looked for.
    """
    if folder is None:
        return _solve(problem, gap)
    path = kept_path(folder, "optimum", problem, gap=gap)
    found = load_kept(path, CertifiedOptimum)
    if found is None:
        found = _solve(problem, gap)
        keep(path, found)
    return found


def _solve(problem: PaperProblem, gap: float) -> CertifiedOptimum:
    n_samples, n_features = problem.train.X.shape
    methods: list[Callable[[PaperProblem, float], CertifiedOptimum]]
    methods = [_by_bundle, _by_ascent]
    if n_features > n_samples:
        methods.reverse()
    tried = []
    for solve in methods:
        tried.append(solve(problem, gap))
        if tried[-1].relative_gap <= gap:
            break
    return min(tried, key=lambda optimum: optimum.relative_gap)


def _by_ascent(problem: PaperProblem, gap: float) -> CertifiedOptimum:
    started = time.perf_counter()
    found = reference_optimum(problem.objective, gap, _EPOCHS)
    seconds = time.perf_counter() - started
    weights = found.weights[:, 0]
    return CertifiedOptimum(
        found.primal,
        found.dual,
        0.5 * problem.l2 * float(weights @ weights),
        problem.validation.accuracy(weights),
        "dual coordinate ascent",
        seconds,
    )


def _by_bundle(problem: PaperProblem, gap: float) -> CertifiedOptimum:
    """Solve with one client that has everything, its rows in many buckets."""
    started = time.perf_counter()
    X, labels = problem.train.X, problem.train.y[:, None]
    partition = horizontal(*X.shape, 1)
    layout = layout_of(partition)
    settings = TrainingSettings(
        make_loss("hinge"),
        problem.l2,
        Bundle(sub_groups=_BUCKETS, max_buckets=_BUCKETS),
        profile="open",
        max_rounds=_ROUNDS,
        tolerance=gap,
    )
    blocks = split_blocks(X, labels, partition, layout)
    runner = train_in_process(settings, layout, blocks, complete(1)).runner
    weights = runner.finish()[:, 0]
    measured = runner.measurement
    assert measured is not None  # noqa: S101  # a run that ended has been measured
    assert measured.dual is not None  # noqa: S101  # a bundle bounds the optimum
    return CertifiedOptimum(
        measured.primal,
        measured.dual,
        0.5 * problem.l2 * float(weights @ weights),
        problem.validation.accuracy(weights),
        "bundle method",
        time.perf_counter() - started,
    )

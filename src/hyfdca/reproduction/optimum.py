"""The certified optimum of a problem of the study, which relative losses refer to."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from hyfdca.maths.objective import relative_gap
from hyfdca.reproduction.kept import keep, kept_path, load_kept
from hyfdca.reproduction.problems import PaperProblem
from hyfdca.training.central import by_ascent, by_bundle, central_optimum

GAP = 1e-6


class CertifiedOptimum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds on the optimum of the pooled training rows.

    Parameters
    ----------
    primal, dual : float
        Bounds between which the optimum lies.
    regulariser : float
        The part of ``primal`` that is λ/2 ||w||²; the rest is the mean loss.
    accuracy : float
        The model's accuracy on the validation rows.
    method : str
        The method that found them, in ``seconds``.
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
        Where results are stored and looked up.
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
    order = (by_bundle, by_ascent) if n_samples > n_features else (by_ascent, by_bundle)
    started = time.perf_counter()
    found = central_optimum(problem.objective, gap, order)
    weights = found.weights[:, 0]
    return CertifiedOptimum(
        found.primal,
        found.dual,
        0.5 * problem.l2 * float(weights @ weights),
        problem.validation.accuracy(weights),
        found.method,
        time.perf_counter() - started,
    )

"""The central model: λ by its validation accuracy, and the certified optimum.

Over a decade or two of λ, accuracies differ by less than they would with other
validation rows. Among these λ the paper's is as good as any, and has published numbers
to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec

from hyfdca.maths.objective import reference_optimum
from hyfdca.reproduction.kept import keep, kept_path, load_kept
from hyfdca.reproduction.optimum import CertifiedOptimum, certified_optimum
from hyfdca.reproduction.paper import DATA_SETS, DataSetName
from hyfdca.reproduction.problems import Choices, PaperProblem, held_problem

L2Choice = Literal["validation", "paper"]

# These include the paper's three. It does not say which it tried.
L2_TRIED = tuple(
    digit * 10.0**exponent for exponent in range(-2, -7, -1) for digit in (1.0, 0.5)
)
_GAP, _EPOCHS = 1e-2, 40  # accuracy hardly changes beyond
_ENOUGH = 3  # consecutive λ without improvement, after which smaller ones are not tried


class CentralFit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model of the pooled training rows; the optimum is between P and D."""

    l2: float
    primal: float
    dual: float
    accuracy: float


class DataFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the table of data sets shows; without the constant feature."""

    n_samples: int
    n_features: int
    sparsity: float
    n_training: int
    n_validation: int


class Central(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known about a data set before it is spread over clients."""

    facts: DataFacts
    fits: tuple[CentralFit, ...]
    l2: float
    optimum: CertifiedOptimum
    published_optimum: CertifiedOptimum


class _Fits(msgspec.Struct, forbid_unknown_fields=True):
    """The file of the models among which λ is chosen."""

    fits: tuple[CentralFit, ...]


def central_models(
    name: DataSetName,
    choices: Choices,
    l2: L2Choice,
    folder: Path,
    data: Path | None = None,
) -> Central:
    """Choose λ, and solve for the optimum with it and with the paper's."""
    problem = held_problem(name, choices, data)
    fits: tuple[CentralFit, ...] = ()
    chosen = published = DATA_SETS[name].l2
    if l2 == "validation":
        fits = _kept_fits(problem, folder)
        chosen = chosen_l2(fits, len(problem.validation.y), published)
    return Central(
        _facts(problem),
        fits,
        chosen,
        certified_optimum(replace(problem, l2=chosen), folder),
        certified_optimum(problem, folder),
    )


def central_fits(problem: PaperProblem) -> Iterator[CentralFit]:
    """Train with one λ after another, from the largest, until past the peak."""
    best, n_worse = 0.0, 0
    for l2 in L2_TRIED:
        found = reference_optimum(replace(problem, l2=l2).objective, _GAP, _EPOCHS)
        accuracy = problem.validation.accuracy(found.weights[:, 0])
        yield CentralFit(l2, found.primal, found.dual, accuracy)
        n_worse = 0 if accuracy > best else n_worse + 1
        best = max(best, accuracy)
        if n_worse == _ENOUGH:
            return


def chosen_l2(fits: Sequence[CentralFit], n_validated: int, published: float) -> float:
    """Return λ of the best accuracy.

    Of those within a standard error of it, the published one if it is among them, else
    the largest.
    """
    best = max(fit.accuracy for fit in fits)
    error = math.sqrt(best * (1.0 - best) / n_validated)
    as_good = [fit.l2 for fit in fits if fit.accuracy >= best - error]
    if any(math.isclose(l2, published) for l2 in as_good):
        return published
    return max(as_good)


def _kept_fits(problem: PaperProblem, folder: Path) -> tuple[CentralFit, ...]:
    path = kept_path(folder, "central", problem, tried=L2_TRIED)
    found = load_kept(path, _Fits)
    if found is None:
        found = _Fits(tuple(central_fits(problem)))
        keep(path, found)
    return found.fits


def _facts(problem: PaperProblem) -> DataFacts:
    parts, has_bias = (problem.train, problem.validation), problem.name == "mnist"
    n_samples = sum(len(rows.y) for rows in parts)
    n_features = problem.train.X.shape[1] - has_bias
    n_nonzero = sum(rows.X.count_nonzero() for rows in parts) - has_bias * n_samples
    return DataFacts(
        n_samples,
        n_features,
        100.0 * (1.0 - n_nonzero / (n_samples * n_features)),
        *(len(rows.y) for rows in parts),
    )

"""Scikit-learn estimators that choose the strength of the penalty, in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.model_selection import check_cv

from hyfdca.algorithms.bundle.path_server import PathServer
from hyfdca.algorithms.hyfdca.settings import Step, Variant
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.registry import Precision, SchemeName
from hyfdca.estimators.base import FederatedLinearModel
from hyfdca.estimators.estimator import HyFDCAClassifier, HyFDCARegressor
from hyfdca.estimators.parameters import CV_PARAMETERS, check_choice, check_positive
from hyfdca.federation.path import CHOICES, Path, PathChoice, auto_path
from hyfdca.holdings.participation import Participation
from hyfdca.holdings.partition import Partition
from hyfdca.holdings.rules import PartitionRule
from hyfdca.protocol.messages import Profile
from hyfdca.training.runner import Runner


class ChoosesL2(FederatedLinearModel):
    """The common part of the two estimators; its methods come first."""

    l2s: Sequence[float] | Literal["auto"]
    cv: Any
    choice: PathChoice

    # Parameters that a path does not have
    l2: float = np.nan
    algorithm: Any = "bundle"
    variant: Variant = "practical"
    step: Step = "auto"
    participation: float | Participation = 1.0
    local_fraction: float = 1.0
    iic: float | None = None
    paper_settings: Mapping[str, Any] | None = None
    measure_every: int = 1
    stall_rounds: int | None = None
    warm_start: bool = False

    _is_classifier: ClassVar[bool]

    @classmethod
    def from_model(cls, path: str | PathLike[str]) -> Self:
        """Refuse: a model file has one l2, and no path.

        Raises
        ------
        ValueError
        """
        plain = cls.__name__.removesuffix("CV")
        raise ValueError(f"A model file has one l2; read {path} with {plain}.")

    def _l2_strength(self) -> float:
        return self.l2_

    def _path(self) -> Path:
        check_choice("choice", self.choice, CHOICES)
        tolerance = float(self.tol)
        given: Any = self.l2s
        if isinstance(given, str):
            check_choice("l2s", given, ("auto",))
            return auto_path(self._n_folds, tolerance, self.choice)
        try:
            l2s = list(given)
        except TypeError:
            raise ValueError(f"l2s must be a list or 'auto', got {given!r}.") from None
        for l2 in l2s:
            check_positive("each of l2s", l2)
        if not l2s or len(set(l2s)) < len(l2s):
            raise ValueError(f"l2s must be different numbers, got {given!r}.")
        descending = sorted(map(float, l2s), reverse=True)
        return Path(tuple(descending), self._n_folds, tolerance, self.choice)

    def _folds(self, X: Any, y: Any) -> IntArray:
        """Return the fold of each sample, by scikit-learn's conventions for cv."""
        splits = list(check_cv(self.cv, y, classifier=self._is_classifier).split(X, y))
        folds = np.full(len(y), -1)
        for fold, (_, left_out) in enumerate(splits):
            if np.any(folds[left_out] >= 0) or not len(left_out):
                break
            folds[left_out] = fold
        else:
            if len(splits) > 1 and np.all(folds >= 0):
                self._n_folds = len(splits)
                return folds
        raise ValueError(
            "cv must put every sample in exactly one of several folds, got "
            f"{self.cv!r}."
        )

    def _keep(self, runner: Runner, weights: FloatArray, n_features: int) -> None:
        """Set the fitted attributes, including those of the path."""
        super()._keep(runner, weights, n_features)
        server = runner.server
        assert isinstance(server, PathServer)  # noqa: S101  # the bundle has a path
        table, chosen = server.table(), server.chosen()
        self.certificate_ = server.chosen_measurement()
        self.l2_ = table[server.path.place(chosen)].l2
        self.l2s_ = np.array([row.l2 for row in table])
        self.loss_path_ = np.array([row.folds for row in table])
        self.path_ = [asdict(row) for row in table]


class HyFDCAClassifierCV(ChoosesL2, HyFDCAClassifier):  # noqa: D101
    __doc__ = f"""A linear classifier whose ``l2`` is chosen by cross-validation.

    All folds and strengths are fitted in one federated run, each to a certified gap.
    {CV_PARAMETERS}
    """

    _is_classifier = True

    def __init__(
        self,
        loss: str = "hinge",
        *,
        loss_parameter: float | None = None,
        l2s: Sequence[float] | Literal["auto"] = "auto",
        cv: Any = 5,
        choice: PathChoice = "best",
        grid: tuple[int, int] | Partition | PartitionRule = (3, 3),
        bundle_settings: Mapping[str, Any] | None = None,
        profile: Profile = "open",
        encryption: SchemeName = "none",
        precision: Precision = "full",
        fit_intercept: bool = True,
        penalise_intercept: bool | None = None,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        max_rounds: int = 1000,
        max_iter: int | None = None,
        tol: float = 1e-3,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self._store(locals())


class HyFDCARegressorCV(ChoosesL2, HyFDCARegressor):  # noqa: D101
    __doc__ = f"""A linear regression whose ``l2`` is chosen by cross-validation.

    All folds and strengths are fitted in one federated run, each to a certified gap.
    Targets are scaled once, by all samples, as in ``HyFDCARegressor``; ``loss_path_``
    is in these units.
    {CV_PARAMETERS}
    """

    _is_classifier = False

    def __init__(
        self,
        loss: str = "half_squared",
        *,
        loss_parameter: float | None = None,
        l2s: Sequence[float] | Literal["auto"] = "auto",
        cv: Any = 5,
        choice: PathChoice = "best",
        grid: tuple[int, int] | Partition | PartitionRule = (3, 3),
        bundle_settings: Mapping[str, Any] | None = None,
        profile: Profile = "open",
        encryption: SchemeName = "none",
        precision: Precision = "full",
        fit_intercept: bool = True,
        penalise_intercept: bool | None = None,
        intercept_scaling: float = 1.0,
        scale_target: bool = True,
        max_rounds: int = 1000,
        max_iter: int | None = None,
        tol: float = 1e-3,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

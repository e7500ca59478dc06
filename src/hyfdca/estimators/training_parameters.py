"""The parameters of the estimators: checked, and made the settings of a training."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Mapping
from typing import Any, Literal, get_args

from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfdca.settings import Step, Variant
from hyfdca.algorithms.registry import AUTO, frees_intercept, make_algorithm
from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.registry import Encryption, Precision, SchemeName
from hyfdca.estimators.parameters import check_choice, check_count, check_positive
from hyfdca.federation.algorithm import Algorithm
from hyfdca.federation.path import Path
from hyfdca.holdings.participation import Participation, random_fraction
from hyfdca.holdings.partition import Partition, grid
from hyfdca.holdings.rules import PartitionRule
from hyfdca.maths.losses import Loss, make_loss
from hyfdca.protocol.messages import Profile
from hyfdca.training.settings import TrainingSettings


class TrainingParameters(BaseEstimator):
    """The parameters that the classifier and the regressor have and document."""

    _task: Literal["classification", "regression"]

    loss: str
    loss_parameter: float | None
    l2: float
    algorithm: str | Algorithm
    variant: Variant
    step: Step
    grid: tuple[int, int] | Partition | PartitionRule
    participation: float | Participation
    local_fraction: float
    iic: float | None
    paper_settings: Mapping[str, Any] | None
    bundle_settings: Mapping[str, Any] | None
    profile: Profile
    encryption: SchemeName
    precision: Precision
    fit_intercept: bool
    penalise_intercept: bool | None
    intercept_scaling: float
    max_rounds: int
    max_iter: int | None
    tol: float
    measure_every: int
    max_seconds: float | None
    stall_rounds: int | None
    random_state: Any
    warm_start: bool
    verbose: int

    def _store(self, arguments: Mapping[str, Any]) -> None:
        """Set the constructor's arguments as attributes, as scikit-learn requires."""
        # The calling class's parameters; a subclass may have more, or fewer.
        for name, value in arguments.items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _settings(self) -> TrainingSettings:
        check_choice("encryption", self.encryption, get_args(SchemeName))
        check_choice("precision", self.precision, get_args(Precision))
        check_choice("profile", self.profile, ("open", "sealed"))
        for name in ("local_fraction", "intercept_scaling"):
            check_positive(name, getattr(self, name))
        for name in ("iic", "max_seconds"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.local_fraction > 1:
            raise ValueError(
                f"local_fraction must be at most 1, got {self.local_fraction}."
            )
        given: Any = self.tol
        if not isinstance(given, numbers.Real):
            raise ValueError(f"tol must be a number, got {given!r}.")
        if self.tol < 0 or math.isnan(self.tol):
            raise ValueError(f"tol must not be negative, got {self.tol}.")
        max_rounds = self.max_rounds if self.max_iter is None else self.max_iter
        check_count("max_rounds", max_rounds)
        check_count("measure_every", self.measure_every)
        if self.stall_rounds is not None:
            check_count("stall_rounds", self.stall_rounds)
        check_count("verbose", self.verbose, lowest=0)
        algorithm, path = self._algorithm(), self._path()
        return TrainingSettings(
            loss=self._loss(),
            l2_strength=self._l2_strength() if path is None else path.l2s[0],
            algorithm=algorithm,
            profile=self.profile,
            max_rounds=max_rounds,
            tolerance=float(self.tol),
            measure_every=self.measure_every,
            max_seconds=self.max_seconds,
            stall_rounds=self.stall_rounds,
            encryption=Encryption(self.encryption, self.precision),
            seed=int(check_random_state(self.random_state).randint(2**31)),
            free_intercept=self._frees_intercept(algorithm),
            path=path,
        )

    def _l2_strength(self) -> float:
        """Return the strength of the penalty; after a fit, the one it used."""
        check_positive("l2", self.l2)
        return float(self.l2)

    def _path(self) -> Path | None:
        """Return the strengths to choose among; None where there is one."""
        return None

    def _folds(self, X: Any, y: Any) -> IntArray | None:
        """Return the fold of each sample, where a strength is chosen."""
        return None

    def _frees_intercept(self, algorithm: Algorithm | None) -> bool:
        return bool(self.fit_intercept) and frees_intercept(
            algorithm, self.penalise_intercept, self.intercept_scaling
        )

    def _algorithm(self) -> Algorithm | None:
        """Return the algorithm with its settings, collected from all keywords.

        The paper's own keywords (``step``, ``variant``, ...) are settings of HyFDCA,
        ``bundle_settings`` those of the bundle. If any is given, "auto" chooses that
        algorithm.
        """
        paper = {
            "variant": self.variant,
            "step": self.step,
            "local_fraction": float(self.local_fraction),
            "iic": self.iic,
        }
        given = {
            **{k: v for k, v in paper.items() if v != getattr(Hyfdca, k)},
            **_mapping("paper_settings", self.paper_settings),
        }
        bundle = _mapping("bundle_settings", self.bundle_settings)
        if isinstance(self.algorithm, Algorithm):
            if given or bundle:
                first = next(iter({**given, **bundle}))
                name = type(self.algorithm).__name__
                raise ValueError(
                    f"{first} is a setting of the algorithm; pass it to {name}()."
                )
            return self.algorithm
        name = self.algorithm
        if name == AUTO and (given or bundle):
            name = "hyfdca" if given else "bundle"
        return make_algorithm(name, {**given, **bundle})

    def _loss(self) -> Loss:
        loss = make_loss(self.loss, self.loss_parameter)
        if loss.task != self._task:
            raise ValueError(
                f"The loss {self.loss!r} is for {loss.task}, not for {self._task}; "
                "choose another."
            )
        return loss

    def _partition(self, shape: tuple[int, int], seed: int) -> Partition:
        given: Any = self.grid
        if isinstance(given, Partition):
            return given
        try:
            n_rows, n_columns = (operator.index(n) for n in given)
        except (TypeError, ValueError):
            raise ValueError(
                "grid must be two whole numbers (sample groups, feature groups), a "
                f"Partition or a PartitionRule, got {self.grid!r}."
            ) from None
        clipped = (min(n_rows, shape[0]), min(n_columns, shape[1]))
        return grid(*shape, clipped, seed)

    def _participation(self, n_clients: int, seed: int) -> Participation:
        if isinstance(self.participation, Participation):
            return self.participation
        return random_fraction(n_clients, float(self.participation), seed)


def _mapping(name: str, given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a mapping, got {given!r}.")
    return dict(given or {})

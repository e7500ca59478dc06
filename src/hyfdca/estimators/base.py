"""What the estimators share: checked settings, training and fitted attributes."""

from __future__ import annotations

import math
import numbers
import operator
import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path as FilePath
from typing import Any, Literal, Self, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfdca.settings import Step, Variant
from hyfdca.algorithms.registry import (
    ALGORITHMS,
    AUTO,
    frees_intercept,
    make_algorithm,
)
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.registry import Encryption, Precision, SchemeName
from hyfdca.estimators.exported import margins_of, model_of
from hyfdca.estimators.loaded import loaded_margins, raw_coefficients, settings_of
from hyfdca.estimators.parameters import (
    check_choice,
    check_count,
    check_positive,
    check_sizes,
)
from hyfdca.estimators.units import Units
from hyfdca.federation.algorithm import Algorithm, StartsAnywhere
from hyfdca.federation.path import Path
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.block import split_blocks, with_folds
from hyfdca.holdings.coverage import coverage_of
from hyfdca.holdings.layout import Layout, layout_of
from hyfdca.holdings.participation import Participation, random_fraction
from hyfdca.holdings.partition import Partition, grid
from hyfdca.holdings.rules import PartitionRule
from hyfdca.maths.losses import Loss, make_loss
from hyfdca.maths.objective import Measurement
from hyfdca.model.file import StopReason
from hyfdca.model.model import Model, read_model
from hyfdca.model.scaling import TargetScaling
from hyfdca.protocol.messages import Profile
from hyfdca.training.in_process import train_in_process
from hyfdca.training.progress_line import finish_watched
from hyfdca.training.runner import Runner
from hyfdca.training.settings import TrainingSettings
from hyfdca.training.stopping import advice_for


class FederatedLinearModel(BaseEstimator):
    """Base of the classifier and the regressor, which document the parameters."""

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

    intercept_: Any
    certificate_: Measurement | None
    history_: list[dict[str, Any]]
    uncovered_share_: float | None
    stop_reason_: StopReason | None
    model_: Model | None
    _target: TargetScaling  # of the last fit

    def _store(self, arguments: Mapping[str, Any]) -> None:
        """Set the constructor's arguments as attributes, as scikit-learn requires."""
        # Those of the class that calls; a subclass may have more, or fewer.
        for name, value in arguments.items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    @classmethod
    def from_model(cls, path: str | PathLike[str]) -> Self:
        """Return a fitted estimator from a model.json.

        ``hyfdca train`` writes such files, and so does ``to_model().save(path)``.

        It takes unscaled rows: arrays in the order of ``feature_names_in_``, or data
        frames, whose columns are matched by name. The model scales them and fills
        missing cells. A model with categories or dates needs data frames; it has one
        coefficient per level of a category. Predictions equal those of ``hyfdca
        predict`` bit for bit; classes are text. ``coef_`` and ``intercept_`` have the
        scaling folded in, which rounds: X @ coef_.T + intercept_ equals the margin up
        to 1e-12 times the summed sizes of its terms and the offsets' terms. Predictions
        do not use them. ``history_`` is empty, because a model file has none.

        Offsets are not added, since ``predict`` of scikit-learn has no place for them:
        predictions are those of rows whose offset is 0. If the model has an
        ``offset_column``, a warning says so; ``hyfdca predict`` adds them.

        Raises
        ------
        ValueError
            If the file has no model for this kind of estimator.
        """
        model = read_model(FilePath(path))
        if model.task != cls._task:
            raise ValueError(
                f"The model file {path} is for {model.task}, not for {cls._task}; use "
                "from_model of the other estimator."
            )
        if model.file.offset_column is not None:
            warnings.warn(
                f"The model in {path} was trained with offsets, which are not added "
                "here: add them to the margins of decision_function or predict, or use "
                f"hyfdca predict, which reads {model.file.offset_column!r}.",
                stacklevel=2,
            )
        estimator = cls(**settings_of(model))
        estimator._take(model)
        return estimator

    def to_model(self) -> Model:
        """Return the fitted model, to be written with ``to_model().save(path)``.

        Its features are named as in ``feature_names_in_``, or f0, f1, ... ; classes
        become text. ``from_model`` and ``hyfdca predict`` read the file. Margins and
        predictions from it equal those of this estimator bit for bit.
        """
        check_is_fitted(self)
        return self.model_ if self.model_ is not None else model_of(self)

    def _linear(self) -> tuple[FloatArray, FloatArray]:
        """Return the weights (n_features, n_outputs) and the intercepts."""
        return np.atleast_2d(self.coef_).T, np.atleast_1d(self.intercept_)

    def _take(self, model: Model) -> None:
        """Set the fitted attributes from a model."""
        self.model_ = model
        self.coef_, self.intercept_ = raw_coefficients(model)
        self.feature_names_in_ = np.array(model.inputs.columns, dtype=object)
        self.n_features_in_ = len(model.inputs.columns)
        self.certificate_ = model.certificate
        training = model.file.training
        self._target = TargetScaling(training.target_centre, training.target_scale)
        self.algorithm_ = training.algorithm
        self.algorithm_reason_ = training.algorithm_reason
        self.history_, self.uncovered_share_ = [], None
        self.stop_reason_ = training.stop_reason
        self.n_iter_ = training.rounds

    def _assigned(self, X: Any) -> tuple[Any, Partition | None]:
        """Return the features of a table, and who holds what if a rule says so."""
        rule = self.grid
        if not isinstance(rule, PartitionRule):
            return X, None
        return rule.features(X), rule.partition(X)

    def _train(
        self,
        X: Any,
        labels: FloatArray,
        sample_weights: FloatArray | None = None,
        target: TargetScaling | None = None,
        partition: Partition | None = None,
        folds: IntArray | None = None,
    ) -> None:
        """Split the data over clients, train, and set the fitted attributes.

        Labels are scaled already where a target's scaling is given.
        """
        settings = self._settings()
        table = sp.csr_array(X)
        check_sizes(table.data, labels)
        if partition is None:
            partition = self._partition(table.shape, settings.seed)
        has_bias = self.fit_intercept and not settings.free_intercept
        layout = layout_of(partition, bias=has_bias)
        bias = float(self.intercept_scaling) if has_bias else None
        blocks = split_blocks(table, labels, partition, layout, bias, sample_weights)
        if folds is not None:
            blocks = with_folds(blocks, layout, folds)
        participation = self._participation(partition.n_clients, settings.seed)
        runner = train_in_process(settings, layout, blocks, participation).runner
        units = Units(bias, target or TargetScaling(), self.fit_intercept)
        self._start_warm(runner, units, (table.shape[1], labels.shape[1]))
        self._target = units.target
        weights = units.outside(finish_watched(runner, bool(self.verbose)))
        self._keep(runner, weights, table.shape[1])
        self._warn_unless_converged()

    def _start_warm(self, runner: Runner, units: Units, shape: tuple[int, int]) -> None:
        """Begin at the last coefficients, if that is wanted and can be done."""
        last: Any = getattr(self, "coef_", None)
        if not self.warm_start or last is None:
            return
        coefficients = np.atleast_2d(last).T
        if coefficients.shape != shape or not isinstance(runner.server, StartsAnywhere):
            return
        rows = [coefficients]
        if self.fit_intercept:
            rows.append(np.atleast_1d(self.intercept_)[None, :])
        runner.server.start_at(units.inside(np.vstack(rows)))

    def _keep(self, runner: Runner, weights: FloatArray, n_features: int) -> None:
        """Set the fitted attributes."""
        self.model_ = None
        self.coef_ = np.ascontiguousarray(weights[:n_features].T)
        self.intercept_ = (
            weights[-1] if self.fit_intercept else np.zeros(len(weights.T))
        )
        self.certificate_ = runner.measurement
        self.algorithm_ = runner.algorithm.algorithm.name
        self.algorithm_reason_ = runner.algorithm.reason
        self.history_ = runner.history
        self.uncovered_share_ = _uncovered_share(runner.federation.layout, n_features)
        self.stop_reason_ = runner.stop_reason
        self.n_iter_ = len(runner.history)

    def _own_weights(self, X: Any, given: Any) -> FloatArray | None:
        """Return the weights of samples, with mean 1; None if all count the same."""
        if given is None:
            return None
        weights = _check_sample_weight(
            given, X, dtype=np.float64, ensure_non_negative=True
        )
        check_sizes(weights)
        return np.asarray(weights / weights.mean()).reshape(-1, 1)

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

    def _warn_unless_converged(self) -> None:
        if self.stop_reason_ == "tolerance":
            return
        gap = self.certificate_.relative_gap if self.certificate_ else math.nan
        warnings.warn(
            f"Stopped ({self.stop_reason_}) after {self.n_iter_} rounds at a certified "
            f"relative gap of {gap:.2g}, above tol={self.tol:g}: "
            f"{advice_for(self.stop_reason_, ALGORITHMS[self.algorithm_])}.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _margins(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        if self.model_ is not None:
            return loaded_margins(self.model_, X)
        if isinstance(self.grid, PartitionRule):
            X = self.grid.features(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return margins_of(X, *self._linear())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        model: Model | None = getattr(self, "model_", None)
        if model is not None:
            tags.input_tags.allow_nan = model.file.scaling.missing == "mean"
        return tags


def _uncovered_share(layout: Layout, n_features: int) -> float:
    """Return the share of cells that no client holds; the bias has none."""
    items = tuple(own[own < n_features] for own in layout.features.items)
    return coverage_of(layout.samples, Axis(n_features, items)).uncovered_share


def _mapping(name: str, given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a mapping, got {given!r}.")
    return dict(given or {})

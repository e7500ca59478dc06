"""What the estimators share: training, fitted attributes and model files."""

from __future__ import annotations

import math
import warnings
from os import PathLike
from pathlib import Path as FilePath
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.estimators.exported import margins_of, model_of
from hyfdca.estimators.loaded import loaded_margins, raw_coefficients, settings_of
from hyfdca.estimators.parameters import check_sizes
from hyfdca.estimators.training_parameters import TrainingParameters
from hyfdca.estimators.units import Units
from hyfdca.federation.algorithm import StartsAnywhere
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.block import split_blocks, with_folds
from hyfdca.holdings.coverage import coverage_of
from hyfdca.holdings.layout import Layout, layout_of
from hyfdca.holdings.partition import Partition
from hyfdca.holdings.rules import PartitionRule
from hyfdca.maths.losses import Loss
from hyfdca.maths.objective import Measurement
from hyfdca.model.file import StopReason
from hyfdca.model.model import Model, read_model
from hyfdca.model.scaling import TargetScaling
from hyfdca.training.in_process import train_in_process
from hyfdca.training.loss_units import size_warning
from hyfdca.training.progress_line import finish_watched
from hyfdca.training.runner import Runner
from hyfdca.training.stopping import advice_for


class FederatedLinearModel(TrainingParameters):
    """Base of the classifier and the regressor, which document the parameters."""

    intercept_: Any
    certificate_: Measurement | None
    history_: list[dict[str, Any]]
    uncovered_share_: float | None
    stop_reason_: StopReason | None
    model_: Model | None
    _target: TargetScaling  # of the last fit

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
        self._warn_about_loss(settings.loss, target, runner.progress.start)
        self._warn_unless_converged()

    def _start_warm(self, runner: Runner, units: Units, shape: tuple[int, int]) -> None:
        """Begin at the last coefficients, if that is requested and possible."""
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

    def _warn_about_loss(
        self, loss: Loss, target: TargetScaling | None, start: float
    ) -> None:
        if warning := size_warning(loss, target, start):
            warnings.warn(warning, stacklevel=4)

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

"""Scikit-learn estimators that train a simulated consortium."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from hyfdca.algorithms.hyfdca.settings import Step, Variant
from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.registry import Precision, SchemeName
from hyfdca.data.labels import chosen_classes, class_probabilities
from hyfdca.estimators.base import FederatedLinearModel
from hyfdca.estimators.parameters import LARGEST, PARAMETERS, check_sizes
from hyfdca.federation.algorithm import Algorithm
from hyfdca.holdings.participation import Participation
from hyfdca.holdings.partition import Partition
from hyfdca.holdings.rules import PartitionRule
from hyfdca.model.model import Model
from hyfdca.model.scaling import TargetScaling, target_scaling
from hyfdca.protocol.messages import Profile


def _has_probabilities(estimator: HyFDCAClassifier) -> bool:
    if estimator._loss().name != "logistic":
        raise AttributeError("predict_proba is available only for loss='logistic'.")
    return True


class HyFDCAClassifier(ClassifierMixin, FederatedLinearModel):  # noqa: D101
    __doc__ = f"""A linear classifier trained on data split by rows and columns.

    More than two classes are trained one-vs-rest in one federated run.
    {PARAMETERS}
    """

    _task = "classification"
    class_weight: Mapping[Any, float] | Literal["balanced"] | None

    def __init__(
        self,
        loss: str = "hinge",
        *,
        loss_parameter: float | None = None,
        l2: float = 1e-3,
        algorithm: str | Algorithm = "auto",
        variant: Variant = "practical",
        step: Step = "auto",
        grid: tuple[int, int] | Partition | PartitionRule = (3, 3),
        participation: float | Participation = 1.0,
        local_fraction: float = 1.0,
        iic: float | None = None,
        paper_settings: Mapping[str, Any] | None = None,
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
        measure_every: int = 1,
        max_seconds: float | None = None,
        stall_rounds: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on (samples, features), their classes and, if given, weights.

        A sample counts as often as its weight says; one of weight 0 is left out.
        """
        X, partition = self._assigned(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                "A classifier needs two classes, but y has one class: "
                f"{self.classes_.tolist()[0]!r}."
            )
        positive = range(n_classes) if n_classes > 2 else [1]
        labels = np.column_stack([np.where(codes == c, 1.0, -1.0) for c in positive])
        own = self._own_weights(X, sample_weight)
        weights = self._sample_weights(y, codes, labels, own)
        self._check_weighted_classes(codes, weights)
        folds = self._folds(X, y)
        self._train(X, labels, weights, partition=partition, folds=folds)
        return self

    def _take(self, model: Model) -> None:
        super()._take(model)
        self.classes_ = np.array(model.classes, dtype=object)

    def _sample_weights(
        self,
        y: NDArray[Any],
        codes: NDArray[np.int64],
        labels: FloatArray,
        own: FloatArray | None,
    ) -> FloatArray | None:
        """Return each sample's weight in each output; None if all are 1.

        A sample counts as often as its class weight says, on either side of
        one-vs-rest, as if it were repeated in the data.
        """
        if self.class_weight is None:
            return None if own is None else np.tile(own, labels.shape[1])
        weight = compute_class_weight(
            self.class_weight,
            classes=self.classes_,
            y=y,
            sample_weight=None if own is None else own[:, 0],
        )
        if not np.all((weight >= 0) & (weight <= LARGEST)):
            raise ValueError(
                f"class_weight must be from 0 to {LARGEST:g}, got {self.class_weight}."
            )
        of_sample = weight[codes][:, None]
        if own is not None:
            of_sample = of_sample * own
        return np.tile(of_sample, labels.shape[1])

    def _check_weighted_classes(
        self, codes: NDArray[np.int64], weights: FloatArray | None
    ) -> None:
        """Refuse weights that leave rows of one class alone, or none."""
        if weights is None:
            return
        counted = np.unique(codes[weights[:, 0] > 0]).tolist()
        if len(counted) >= 2:
            return
        names = self.classes_.tolist()
        found = f"only the class {names[counted[0]]!r}" if counted else "none"
        raise ValueError(
            "A classifier needs two classes with a weight above 0, but y has "
            f"{found}; correct sample_weight or class_weight."
        )

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the margins of each sample: one, or one per class if over two."""
        margins = self._margins(X)
        return margins.ravel() if margins.shape[1] == 1 else margins

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each sample."""
        chosen = chosen_classes(self._margins(X))
        return np.asarray(self.classes_[chosen])

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probability of each class; for the logistic loss only."""
        return class_probabilities(self._margins(X))


class HyFDCARegressor(RegressorMixin, FederatedLinearModel):  # noqa: D101
    __doc__ = f"""A linear regression trained on data split by rows and columns.

    Targets are scaled to mean 0 and deviation 1 for training, unless ``scale_target``
    is False; to a mean square of 1 if ``penalise_intercept`` is True.
    ``loss_parameter`` and the certificate are in these units: divide a parameter in
    dollars by the deviation of the targets. ``coef_``, ``intercept_`` and predictions
    are in the units of the targets.
    {PARAMETERS}
    """

    _task = "regression"
    scale_target: bool

    def __init__(
        self,
        loss: str = "half_squared",
        *,
        loss_parameter: float | None = None,
        l2: float = 1e-3,
        algorithm: str | Algorithm = "auto",
        variant: Variant = "practical",
        step: Step = "auto",
        grid: tuple[int, int] | Partition | PartitionRule = (3, 3),
        participation: float | Participation = 1.0,
        local_fraction: float = 1.0,
        iic: float | None = None,
        paper_settings: Mapping[str, Any] | None = None,
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
        measure_every: int = 1,
        max_seconds: float | None = None,
        stall_rounds: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on (samples, features), their targets and, if given, weights.

        A sample counts as often as its weight says; one of weight 0 is left out.
        """
        X, partition = self._assigned(X)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True
        )
        targets = np.asarray(y, dtype=np.float64).reshape(-1, 1)
        weights = self._own_weights(X, sample_weight)
        target = self._target_scaling(targets, weights) if self.scale_target else None
        scaled = targets if target is None else target.apply(targets)
        folds = self._folds(X, y)
        self._train(X, scaled, weights, target, partition, folds)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    def _target_scaling(
        self, targets: FloatArray, weights: FloatArray | None
    ) -> TargetScaling:
        """Return the scaling of targets to deviation 1, and mean 0 if that is free."""
        check_sizes(targets)
        # A penalised intercept is penalised for the mean too.
        is_centred = self._frees_intercept(None)
        mean = float(np.average(targets, weights=weights))
        distances = targets - mean if is_centred else targets
        mean_square = float(np.average(distances**2, weights=weights))
        return target_scaling(mean, mean_square, is_centred)

    def _take(self, model: Model) -> None:
        super()._take(model)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the predicted target of each sample."""
        return self._margins(X).ravel()

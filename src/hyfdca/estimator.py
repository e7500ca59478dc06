"""The scikit-learn face: estimators that train a simulated consortium."""

from __future__ import annotations

import math
import numbers
import operator
import warnings
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from hyfdca.algorithms.draws import HyfdcaSettings, Step
from hyfdca.algorithms.problem import Profile
from hyfdca.layout import layout_of
from hyfdca.losses import FloatArray, Loss, make_loss
from hyfdca.participation import Participation, random_fraction
from hyfdca.partition import Partition, grid
from hyfdca.training import ADVICE, Training, TrainingSettings, split_blocks

PAPER_SETTINGS = {
    "local_steps",
    "aggregation",
    "cap",
    "divide_by",
    "refresh",
    "second_inner_product",
}
_LARGEST = 1e100  # of settings and data: squares and inverses must stay numbers


class _FederatedLinearModel(BaseEstimator):
    """What the classifier and the regressor share; parameters are documented there."""

    _task: Literal["classification", "regression"]

    loss: str
    loss_parameter: float | None
    l2: float
    algorithm: Literal["hyfdca"]
    variant: Literal["practical", "theory"]
    step: Step
    grid: tuple[int, int] | Partition
    participation: float | Participation
    local_fraction: float
    iic: float | None
    paper_settings: Mapping[str, Any] | None
    profile: Profile
    encryption: Literal["none"]
    fit_intercept: bool
    intercept_scaling: float
    max_rounds: int
    max_iter: int | None
    tol: float
    measure_every: int
    random_state: Any

    def _store(self, arguments: Mapping[str, Any]) -> None:
        """Set the constructor's arguments as attributes, as scikit-learn wants them."""
        for name in self._get_param_names():
            setattr(self, name, arguments[name])

    def _train(
        self, X: Any, labels: FloatArray, sample_weights: FloatArray | None = None
    ) -> None:
        """Split the data over clients, train, and set the fitted attributes."""
        settings = self._settings()
        table = sp.csr_array(X)
        largest = max(
            np.abs(table.data).max(initial=0.0), np.abs(labels).max(initial=0.0)
        )
        if largest > _LARGEST:
            raise ValueError(f"A number of {largest:.1g} is too large; scale the data.")
        partition = self._partition(table.shape, settings.hyfdca.seed)
        layout = layout_of(partition, bias=self.fit_intercept)
        bias = float(self.intercept_scaling) if self.fit_intercept else None
        training = Training(
            settings,
            layout,
            split_blocks(table, labels, partition, layout, bias, sample_weights),
            self._participation(partition.n_clients, settings.hyfdca.seed),
        )
        weights = training.finish()
        self.coef_ = np.ascontiguousarray(weights[: table.shape[1]].T)
        self.intercept_: Any = np.zeros(labels.shape[1])
        if self.fit_intercept:
            self.intercept_ = weights[-1] * self.intercept_scaling
        self.certificate_ = training.certificate
        self.history_ = training.history
        self.stop_reason_ = training.stop_reason
        self.n_iter_ = len(training.history)
        self._warn_unless_converged()

    def _settings(self) -> TrainingSettings:
        _check_choice("algorithm", self.algorithm, ("hyfdca",))
        _check_choice("encryption", self.encryption, ("none",))
        _check_choice("profile", self.profile, ("open", "sealed"))
        for name in ("l2", "local_fraction", "intercept_scaling"):
            _check_positive(name, getattr(self, name))
        if self.iic is not None:
            _check_positive("iic", self.iic)
        if self.local_fraction > 1:
            raise ValueError(f"local_fraction is at most 1, got {self.local_fraction}.")
        if self.tol < 0 or math.isnan(self.tol):
            raise ValueError(f"tol must not be negative, got {self.tol}.")
        max_rounds = self.max_rounds if self.max_iter is None else self.max_iter
        _check_count("max_rounds", max_rounds)
        _check_count("measure_every", self.measure_every)
        seed = int(check_random_state(self.random_state).randint(2**31))
        more = dict(self.paper_settings or {})
        unknown = set(more) - PAPER_SETTINGS
        if unknown:
            raise ValueError(
                f"paper_settings has no {', '.join(sorted(unknown))}; it takes "
                f"{', '.join(sorted(PAPER_SETTINGS))}."
            )
        hyfdca = HyfdcaSettings(
            variant=self.variant,
            step=self.step,
            local_fraction=float(self.local_fraction),
            iic=self.iic,
            seed=seed,
            **more,
        )
        return TrainingSettings(
            loss=self._loss(),
            l2_strength=float(self.l2),
            hyfdca=hyfdca,
            profile=self.profile,
            max_rounds=max_rounds,
            tolerance=float(self.tol),
            measure_every=self.measure_every,
        )

    def _loss(self) -> Loss:
        loss = make_loss(self.loss, self.loss_parameter)
        if loss.task != self._task:
            raise ValueError(f"The loss {self.loss!r} is for {loss.task}.")
        return loss

    def _partition(self, shape: tuple[int, int], seed: int) -> Partition:
        if isinstance(self.grid, Partition):
            return self.grid
        try:
            n_rows, n_columns = (operator.index(n) for n in self.grid)
        except (TypeError, ValueError):
            raise ValueError(
                "grid must be two whole numbers (sample groups, feature groups) or a "
                f"Partition, got {self.grid!r}."
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
            f"{ADVICE[self.stop_reason_]}.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _margins(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


_PARAMETERS = """
    Parameters
    ----------
    loss : str
        One of ``hyfdca.losses.LOSSES`` for this task.
    loss_parameter : float, optional
        The smoothing, epsilon, kappa or tau of a loss that has one.
    l2 : float
        The strength λ of the penalty λ/2 ||w||² beside the mean loss.
    algorithm : {"hyfdca"}
    variant : {"practical", "theory"}
        The paper's Algorithm 5 or its Algorithm 3.
    step : {"auto", "paper", "safe", "line_search"}
        "auto" never diverges: a line search under complete participation, else "safe".
    grid : (int, int) or Partition
        Sample groups by feature groups, clipped to the size of the data; or who holds
        what.
    participation : float or Participation
        Share of the clients that take part in a round.
    local_fraction : float
        Share of its samples that a client updates in a round.
    iic : float, optional
        The paper's inner iterations constant, instead of ``local_fraction``.
    paper_settings : mapping, optional
        Further settings of the paper's algorithm by name: ``local_steps``,
        ``aggregation``, ``cap``, ``divide_by``, ``refresh``, ``second_inner_product``,
        documented at ``hyfdca.algorithms.draws.HyfdcaSettings``.
    profile : {"sealed", "open"}
        Whether the server may see the weights during training.
    encryption : {"none"}
    fit_intercept : bool
        Add a constant feature; its weight is penalised like the others.
    intercept_scaling : float
        The value of that feature: the larger, the less the intercept is penalised.
    max_rounds : int
        Most rounds to run.
    max_iter : int, optional
        scikit-learn's name for ``max_rounds``; overrides it if given.
    tol : float
        Stop when the certified relative gap (P - D) / P is at most this.
    measure_every : int
        Rounds between two measurements of the gap.
    random_state : int, RandomState or None
        Seed of the partition, the participants and the drawn samples.

    Attributes
    ----------
    coef_, intercept_ : arrays
    certificate_ : Certificate
        ``primal``, ``dual``, ``gap`` and ``relative_gap`` of the model.
    history_ : list of dict
        One record a round: primal, dual, gap, seconds, bytes, round trips and
        participants.
    n_iter_ : int
        Rounds run.
    stop_reason_ : {"tolerance", "round limit", "diverged"}
"""


def _has_probabilities(estimator: HyFDCAClassifier) -> bool:
    if estimator._loss().name != "logistic":
        raise AttributeError("predict_proba is available for loss='logistic' only.")
    return True


class HyFDCAClassifier(ClassifierMixin, _FederatedLinearModel):  # noqa: D101
    __doc__ = f"""A linear classifier trained by clients that share rows and columns.

    More than two classes are learnt one against the rest in one federated run.
    {_PARAMETERS}
    """

    _task = "classification"
    class_weight: Mapping[Any, float] | Literal["balanced"] | None

    def __init__(
        self,
        loss: str = "hinge",
        *,
        loss_parameter: float | None = None,
        l2: float = 1e-3,
        algorithm: Literal["hyfdca"] = "hyfdca",
        variant: Literal["practical", "theory"] = "practical",
        step: Step = "auto",
        grid: tuple[int, int] | Partition = (3, 3),
        participation: float | Participation = 1.0,
        local_fraction: float = 1.0,
        iic: float | None = None,
        paper_settings: Mapping[str, Any] | None = None,
        profile: Profile = "sealed",
        encryption: Literal["none"] = "none",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        max_rounds: int = 1000,
        max_iter: int | None = None,
        tol: float = 1e-3,
        measure_every: int = 1,
        random_state: Any = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any) -> Self:
        """Train on (samples, features) and their classes."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                "A classifier needs two classes, but y has one class: "
                f"{self.classes_[0]!r}."
            )
        positive = range(n_classes) if n_classes > 2 else [1]
        labels = np.column_stack([np.where(codes == c, 1.0, -1.0) for c in positive])
        self._train(X, labels, self._sample_weights(y, codes, labels))
        return self

    def _sample_weights(
        self, y: NDArray[Any], codes: NDArray[np.int64], labels: FloatArray
    ) -> FloatArray | None:
        """Return each sample's weight in each output, None for all 1.

        A sample counts as often as its class says, on whichever side of one-vs-rest
        it stands, as if it were repeated in the data.
        """
        if self.class_weight is None:
            return None
        weight = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if not np.all((weight >= 0) & (weight <= _LARGEST)):
            raise ValueError(f"class_weight must not be negative: {self.class_weight}.")
        return np.repeat(weight[codes][:, None], labels.shape[1], axis=1)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the margin of each sample, one a class if there are more than two."""
        margins = self._margins(X)
        return margins.ravel() if margins.shape[1] == 1 else margins

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each sample."""
        margins = self._margins(X)
        is_binary = margins.shape[1] == 1
        chosen = (
            (margins[:, 0] > 0).astype(int) if is_binary else margins.argmax(axis=1)
        )
        return np.asarray(self.classes_[chosen])

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probability of each class; for the logistic loss."""
        positive = 1.0 / (1.0 + np.exp(-np.clip(self._margins(X), -700, 700)))
        if positive.shape[1] == 1:
            return np.hstack([1.0 - positive, positive])
        return np.asarray(positive / positive.sum(axis=1, keepdims=True))


class HyFDCARegressor(RegressorMixin, _FederatedLinearModel):  # noqa: D101
    __doc__ = f"""A linear regression trained by clients that share rows and columns.
    {_PARAMETERS}
    """

    _task = "regression"

    def __init__(
        self,
        loss: str = "half_squared",
        *,
        loss_parameter: float | None = None,
        l2: float = 1e-3,
        algorithm: Literal["hyfdca"] = "hyfdca",
        variant: Literal["practical", "theory"] = "practical",
        step: Step = "auto",
        grid: tuple[int, int] | Partition = (3, 3),
        participation: float | Participation = 1.0,
        local_fraction: float = 1.0,
        iic: float | None = None,
        paper_settings: Mapping[str, Any] | None = None,
        profile: Profile = "sealed",
        encryption: Literal["none"] = "none",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        max_rounds: int = 1000,
        max_iter: int | None = None,
        tol: float = 1e-3,
        measure_every: int = 1,
        random_state: Any = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any) -> Self:
        """Train on (samples, features) and their targets."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True
        )
        self._train(X, np.asarray(y, dtype=np.float64).reshape(-1, 1))
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the predicted target of each sample."""
        return self._margins(X).ravel()


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1, got {value!r}.")


def _check_positive(name: str, value: Any) -> None:
    if (
        not isinstance(value, numbers.Real)
        or not 1 / _LARGEST <= float(value) <= _LARGEST
    ):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")

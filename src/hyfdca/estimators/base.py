"""What the estimators share: checked settings, training and fitted attributes."""

from __future__ import annotations

import math
import numbers
import operator
import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
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
    can_free_intercept,
    make_algorithm,
)
from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.registry import Encryption, Precision, SchemeName
from hyfdca.estimators.exported import margins_of, model_of
from hyfdca.estimators.loaded import loaded_margins, raw_coefficients, settings_of
from hyfdca.estimators.units import Units
from hyfdca.federation.algorithm import Algorithm, StartsAnywhere
from hyfdca.federation.problem import Profile
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import Participation, random_fraction
from hyfdca.holdings.partition import Partition, grid
from hyfdca.holdings.rules import PartitionRule
from hyfdca.maths.losses import Loss, make_loss
from hyfdca.maths.objective import Measurement
from hyfdca.model.file import StopReason
from hyfdca.model.model import Model, read_model
from hyfdca.model.scaling import TargetScaling
from hyfdca.training.in_process import train_in_process
from hyfdca.training.progress_line import finish_watched
from hyfdca.training.runner import Runner
from hyfdca.training.settings import TrainingSettings
from hyfdca.training.stopping import advice_for

LARGEST = 1e100  # for settings and data: squares and inverses must stay finite


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
    stop_reason_: StopReason | None
    model_: Model | None

    def _store(self, arguments: Mapping[str, Any]) -> None:
        """Set the constructor's arguments as attributes, as scikit-learn requires."""
        for name in self._get_param_names():
            setattr(self, name, arguments[name])

    @classmethod
    def from_model(cls, path: str | PathLike[str]) -> Self:
        """Return a fitted estimator from a model.json.

        ``hyfdca train`` writes such files, and so does ``to_model().save(path)``.

        It takes unscaled rows: arrays in the order of ``feature_names_in_``, or data
        frames, whose columns are matched by name. The model scales them and fills
        missing cells. Predictions equal those of ``hyfdca predict`` bit for bit;
        classes are text. ``coef_`` and ``intercept_`` have the scaling folded in, which
        rounds: X @ coef_.T + intercept_ equals the margin up to 1e-12 times the summed
        sizes of its terms and the offsets' terms. Predictions do not use them.
        ``history_`` is empty, because a model file has none.

        Raises
        ------
        ValueError
            If the file has no model for this kind of estimator.
        """
        model = read_model(Path(path))
        if model.task != cls._task:
            raise ValueError(
                f"The model file {path} is for {model.task}, not for {cls._task}; use "
                "from_model of the other estimator."
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
        self.feature_names_in_ = np.array(model.features, dtype=object)
        self.n_features_in_ = len(model.features)
        self.certificate_ = model.certificate
        training = model.file.training
        self.algorithm_ = training.algorithm
        self.algorithm_reason_ = training.algorithm_reason
        self.history_ = []
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
        participation = self._participation(partition.n_clients, settings.seed)
        runner = train_in_process(settings, layout, blocks, participation).runner
        units = Units(bias, target or TargetScaling(), self.fit_intercept)
        self._start_warm(runner, units, (table.shape[1], labels.shape[1]))
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
        _check_choice("encryption", self.encryption, get_args(SchemeName))
        _check_choice("precision", self.precision, get_args(Precision))
        _check_choice("profile", self.profile, ("open", "sealed"))
        for name in ("l2", "local_fraction", "intercept_scaling"):
            _check_positive(name, getattr(self, name))
        for name in ("iic", "max_seconds"):
            if getattr(self, name) is not None:
                _check_positive(name, getattr(self, name))
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
        _check_count("max_rounds", max_rounds)
        _check_count("measure_every", self.measure_every)
        if self.stall_rounds is not None:
            _check_count("stall_rounds", self.stall_rounds)
        _check_count("verbose", self.verbose, lowest=0)
        algorithm = self._algorithm()
        return TrainingSettings(
            loss=self._loss(),
            l2_strength=float(self.l2),
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
        )

    def _frees_intercept(self, algorithm: Algorithm | None) -> bool:
        """Return whether the intercept has no penalty.

        Where it is not said, an intercept_scaling makes sense only with a penalty.
        """
        if not self.fit_intercept:
            return False
        if self.penalise_intercept is not None:
            return not self.penalise_intercept
        return self.intercept_scaling == 1.0 and can_free_intercept(algorithm)

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
            **_mapping("paper_settings", self.paper_settings),
        }
        given = {k: v for k, v in paper.items() if v != getattr(Hyfdca, k, _UNKNOWN)}
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


PARAMETERS = """
    Parameters
    ----------
    loss : str
        One of ``hyfdca.maths.losses.LOSSES`` for this task.
    loss_parameter : float, optional
        The smoothing, epsilon, kappa or tau of a loss that has one.
    l2 : float
        The strength λ of the penalty λ/2 ||w||² added to the mean loss.
    algorithm : str or Algorithm
        A name of ``hyfdca.algorithms.registry.ALGORITHMS`` (docs/algorithms.md), or
        an algorithm with settings, as in ``Hyfdca(step="safe")``. "auto": the bundle
        method, L-BFGS if that needs fewer rounds, or the paper's method if one of its
        settings is given (``variant``, ``step``, ``local_fraction``, ``iic``,
        ``paper_settings``).
    variant : {"practical", "theory"}
        The paper's Algorithm 5 or its Algorithm 3.
    step : {"auto", "paper", "safe", "line_search"}
        "auto" never diverges: a line search under complete participation, else "safe".
    grid : (int, int), Partition or PartitionRule
        Sample groups by feature groups, clipped to the size of the data; or a partition
        that says who holds what (``hyfdca.holdings.partition`` and ``frames``); or a
        rule that says so for any table (``by_column`` and ``by_function`` of
        ``hyfdca.holdings.rules``), which ``cross_val_score`` and ``GridSearchCV`` need.
    participation : float or Participation
        Share of clients that take part in each round.
    local_fraction : float
        Share of its samples that a client updates per round.
    iic : float, optional
        The paper's inner iterations constant, instead of ``local_fraction``.
    paper_settings : mapping, optional
        Further settings of the paper's algorithm by name: ``local_steps``,
        ``aggregation``, ``cap``, ``divide_by``, ``refresh``, ``second_inner_product``,
        documented at ``hyfdca.algorithms.hyfdca.settings.HyfdcaSettings``.
    bundle_settings : mapping, optional
        Settings of the bundle method by name: ``min_contributors``, ``sub_groups``,
        ``min_group_size``, ``max_buckets``, documented at
        ``hyfdca.algorithms.bundle.server.BundleSettings``.
    profile : {"open", "sealed"}
        Whether the server may see the weights during training. An estimator runs all
        parties in one process and has nothing to hide, so its default is "open", which
        needs the fewest rounds. The default of a study is "sealed".
    encryption : {"none", "bfv", "stream", "paillier", "paillier-single"}
        What seals the messages; the result is the same bit for bit. The default of a
        study is "bfv".
    precision : {"full", "compact"}
        Bits of sums on the fixed-point grid, 58 or 42; BFV is faster with fewer.
    fit_intercept : bool
        Whether the model has an intercept.
    penalise_intercept : bool, optional
        Whether the intercept is penalised, as the weight of a constant feature. By
        default it is not, as in LogisticRegression and Ridge, but for algorithms that
        need the penalty, the paper's among them.
    intercept_scaling : float
        The value of that constant feature: the larger it is, the less a penalised
        intercept is penalised.
    max_rounds : int
        The maximum number of rounds.
    max_iter : int, optional
        scikit-learn's name for ``max_rounds``; overrides it if given.
    tol : float
        Stop when the certified relative gap (P - D) / P is at most this.
    measure_every : int
        Rounds between two measurements of the gap.
    max_seconds : float, optional
        The maximum time to spend on rounds and measuring.
    stall_rounds : int, optional
        Stop when the loss has not fallen for this many rounds: a biased algorithm
        never reaches ``tol``.
    random_state : int, RandomState or None
        Seed of the partition, the participants and the drawn samples.
    warm_start : bool
        Whether ``fit`` begins at the coefficients of the last one, which saves rounds
        where the problem has changed little. Only the bundle method in the open
        profile does; others begin at zero.
    verbose : int
        0 prints nothing. 1 shows a line on standard error once training has taken two
        seconds: round, P, certified gap and bytes exchanged.

    Attributes
    ----------
    coef_, intercept_ : arrays
    certificate_ : Measurement
        ``primal``, ``dual``, ``gap`` and ``relative_gap`` of the model.
    history_ : list of dict
        One record per round: primal, dual, gap, seconds, bytes, round trips and
        participants.
    algorithm_, algorithm_reason_ : str
        The algorithm that was run, and why.
    n_iter_ : int
        The number of rounds run.
    stop_reason_ : str
        "tolerance", "round limit", "time limit", "stalled", "diverged" or
        "interrupted": Ctrl-C ends ``fit`` after the current round with the model so
        far, a second Ctrl-C aborts it.
    model_ : Model or None
        The model that ``from_model`` read; None after ``fit``.
"""


_UNKNOWN = object()


def _mapping(name: str, given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a mapping, got {given!r}.")
    return dict(given or {})


def check_sizes(*arrays: FloatArray) -> None:
    """Refuse numbers whose squares would not be finite."""
    largest = max(np.abs(own).max(initial=0.0) for own in arrays)
    if largest > LARGEST:
        raise ValueError(f"A value of {largest:.1g} is too large; scale the data.")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def _check_count(name: str, value: Any, lowest: int = 1) -> None:
    if not isinstance(value, numbers.Integral) or value < lowest:
        raise ValueError(f"{name} must be a whole number from {lowest}, got {value!r}.")


def _check_positive(name: str, value: Any) -> None:
    if (
        not isinstance(value, numbers.Real)
        or not 1 / LARGEST <= float(value) <= LARGEST
    ):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")

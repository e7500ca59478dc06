"""The parameters that both estimators have: their documentation and checks."""

from __future__ import annotations

import numbers
import re
from typing import Any

import numpy as np

from hyfdca.arrays import FloatArray

LARGEST = 1e100  # for settings and data: squares and inverses must stay finite

PARAMETERS = """
    Parameters
    ----------
    loss : str
        One of ``hyfdca.maths.losses.LOSSES`` for this task.
    loss_parameter : float, optional
        The smoothing, epsilon, kappa or tau of a loss that has one. The regressor's
        epsilon and kappa are in standard deviations of the target, unless
        ``scale_target`` is False.
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
        default it is not, as in LogisticRegression and Ridge, except by algorithms that
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
    uncovered_share_ : float or None
        The share of cells that no client holds, which count as 0; None after
        ``from_model``.
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

# The PARAMETERS that a path lacks or changes
_NOT_ON_A_PATH = (
    *("l2", "algorithm", "variant", "step", "participation", "local_fraction", "iic"),
    *("paper_settings", "measure_every", "stall_rounds", "warm_start"),
)
_ON_A_PATH = """l2s : list of float or "auto"
        The strengths λ to choose among. "auto": nine, from the smallest power of two at
        which a model cannot lower the loss by more than a quarter, down to 1e-4 of it.
    cv : int, splitter or iterable
        The folds, as in ``LogisticRegressionCV``; they must not overlap, and every
        sample must be in one of them.
    choice : {"best", "one_standard_error"}
        "best": the λ with the lowest mean validation loss. "one_standard_error": the
        largest whose mean is at most one standard error above it.
    """
_FITTED_ON_A_PATH = """
    l2_ : float
        The λ chosen; ``coef_`` and the certificate are those of all samples at it.
    l2s_ : array (n_l2s,)
        All λ, the largest first.
    loss_path_ : array (n_l2s, n_folds)
        The mean loss of each fold's samples by the model of the others.
    path_ : list of dict
        One record per λ: mean and standard error over the folds, the certified
        relative gap and the rounds of each of its fits, ``is_best``, ``is_chosen``.
"""


def _on_a_path(text: str) -> str:
    """Return the documentation of the parameters of estimators with a path."""
    entries = re.split(r"\n    (?=\S)", text)
    kept = [own for own in entries if own.split(" : ")[0] not in _NOT_ON_A_PATH]
    documented = "\n    ".join(kept).rstrip()
    documented = documented.replace("grid : (int", f"{_ON_A_PATH}grid : (int", 1)
    return documented + _FITTED_ON_A_PATH


CV_PARAMETERS = _on_a_path(PARAMETERS)


def check_sizes(*arrays: FloatArray) -> None:
    """Refuse numbers whose squares would not be finite."""
    largest = max(np.abs(own).max(initial=0.0) for own in arrays)
    if largest > LARGEST:
        raise ValueError(f"A value of {largest:.1g} is too large; scale the data.")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def check_count(name: str, value: Any, lowest: int = 1) -> None:
    """Refuse what is not a whole number from the lowest."""
    if not isinstance(value, numbers.Integral) or value < lowest:
        raise ValueError(f"{name} must be a whole number from {lowest}, got {value!r}.")


def check_positive(name: str, value: Any) -> None:
    """Refuse what is not a positive number of a usual size."""
    if (
        not isinstance(value, numbers.Real)
        or not 1 / LARGEST <= float(value) <= LARGEST
    ):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")

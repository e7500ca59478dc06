"""Offsets of samples: margins are x·w + o, for every algorithm that takes them."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from hyfdca.algorithms import Bundle, FedAvg, Hyfdca, Lbfgs
from hyfdca.algorithms.bundle.pooled import Pooled
from hyfdca.holdings.block import split_blocks, with_offsets
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import random_fraction
from hyfdca.holdings.partition import grid
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective
from hyfdca.training.central import central_optimum
from hyfdca.training.in_process import train_in_process
from hyfdca.training.settings import TrainingSettings

L2 = 0.05


def problem(loss, free_intercept=False, seed=0):
    """Return rows whose offsets matter: of the size of the margins, and not centred."""
    random = np.random.Generator(np.random.PCG64(seed))
    X = random.standard_normal((60, 6))
    offsets = 1.0 + 2.0 * random.standard_normal((60, 1))
    truth = X @ random.standard_normal((6, 1)) + offsets
    noise = random.standard_normal((60, 1))
    is_classes = make_loss(loss).task == "classification"
    labels = np.sign(truth + noise) if is_classes else truth + noise
    return Objective(
        sp.csr_array(X),
        labels,
        make_loss(loss),
        L2,
        random.uniform(0.5, 1.5, (60, 1)),
        offsets,
        free_intercept,
    )


def pooled_primal(objective):
    """Minimise P of a smooth loss in one place, by scipy."""
    n_weights = objective.X.shape[1] + objective.free_intercept
    found = minimize(
        lambda w: objective.primal(w.reshape(-1, 1)),
        np.zeros(n_weights),
        options={"gtol": 1e-9},
    )
    return found.fun


def trained(objective, algorithm, profile="open", participation=1.0, tol=1e-4):
    """Return the runner of a training over 2 x 2 clients, one without labels."""
    partition = grid(*objective.X.shape, (2, 2), 0)
    labelled = (True, True, False, True)
    layout = layout_of(partition, labelled)
    blocks = split_blocks(
        objective.X,
        objective.labels,
        partition,
        layout,
        sample_weights=objective.sample_weights,
    )
    settings = TrainingSettings(
        objective.loss,
        objective.l2_strength,
        algorithm,
        profile,
        max_rounds=4000,
        tolerance=tol,
        free_intercept=objective.free_intercept,
        has_offsets=True,
    )
    runner = train_in_process(
        settings,
        layout,
        with_offsets(blocks, layout, objective.offsets),
        random_fraction(4, participation, 0),
    ).runner
    return runner, runner.finish()


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize(
    ("algorithm", "free"),
    [
        (Bundle(), False),
        (Bundle(), True),
        (Lbfgs(), False),
        (Lbfgs(), True),
        (Pooled(), True),
        (Hyfdca(), False),
        (Hyfdca(step="safe"), False),
    ],
    ids=["bundle", "bundle-free", "lbfgs", "lbfgs-free", "pooled", "search", "safe"],
)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_optimum_with_offsets(loss, algorithm, free, profile):
    """The model is optimal for x·w + o, and its certificate encloses the optimum."""
    objective = problem(loss, free)
    runner, weights = trained(objective, algorithm, profile)
    best, found = pooled_primal(objective), runner.measurement
    assert runner.stop_reason == "tolerance"
    assert found.dual <= best * (1 + 1e-9)
    assert objective.primal(weights) <= found.primal * (1 + 1e-12)
    assert objective.primal(weights) == pytest.approx(best, rel=2e-4)


@pytest.mark.parametrize("free", [False, True])
def test_offsets_under_partial_participation(free):
    """Planes of single buckets, at points of their own, have the offsets too."""
    objective = problem("logistic", free)
    runner, weights = trained(objective, Bundle(), participation=0.6, tol=1e-3)
    assert runner.stop_reason == "tolerance"
    best = pooled_primal(objective)
    assert runner.measurement.dual <= best * (1 + 1e-9)
    assert objective.primal(weights) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_offsets_of_losses_with_a_kink(loss):
    """The optimum is that of the rows in one place, within both certificates."""
    objective = problem(loss, free_intercept=True)
    runner, weights = trained(objective, Bundle(), "sealed", tol=1e-5)
    central = central_optimum(objective, 1e-7)
    assert runner.measurement.dual <= central.primal * (1 + 1e-9)
    assert central.dual <= objective.primal(weights) * (1 + 1e-9)


def test_offsets_that_a_method_does_not_take():
    """A method without a place for offsets says so before it starts."""
    with pytest.raises(ValueError, match="takes no offsets; use algorithm='bundle'"):
        trained(problem("logistic"), FedAvg())

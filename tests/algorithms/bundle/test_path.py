"""The path: every fit against a solver of its own, the choice, and what is refused."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from msgspec.structs import replace
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.path import Path, auto_path, chosen_place, largest_l2
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.protocol.codec import RemoteProtocolError
from tests.protocol.wires import listen
from tests.support.saved_runs import Saved, begun_again
from tests.support.small_runs import (
    PROFILES,
    bundle_run,
    coarse_grids,
    make_training,
    partition_of,
    table_for,
)

L2S = (0.3, 0.03, 0.003)
PATH = Path(L2S, n_folds=3, tolerance=1e-3)


def folds_of(n_samples=60, n_folds=3, seed=5):
    """Return folds of unequal sizes."""
    random = np.random.Generator(np.random.PCG64(seed))
    return random.choice(n_folds, n_samples, p=np.arange(1, n_folds + 1) / 6)


def path_run(loss="logistic", partition="2x2", path=PATH, seed=0, **given):
    """Return the run of a path on a small table."""
    X, y = table_for(loss, seed=seed)
    return bundle_run(
        X,
        y,
        partition_of(partition),
        loss=loss,
        l2=path.l2s[0],
        tolerance=path.tolerance,
        path=path,
        folds=folds_of(),
        **given,
    )


def optimum_of(number, loss, path=PATH, seed=0):
    """Return a reference solver's fit of the same rows, and their problem."""
    X, y = table_for(loss, seed=seed)
    rows = np.flatnonzero(folds_of() != path.fold(number))
    problem = Objective(X[rows], y[rows], make_loss(loss), path.l2s[path.place(number)])
    return reference_optimum(problem, 1e-9), problem


def check_fits(run, loss, path=PATH, tolerance=1e-3):
    """Compare every fit's bounds and validation loss with the reference solver's."""
    X, y = table_for(loss)
    records = run.server.records()
    assert sorted(records) == list(range(path.n_fits))
    for number, record in records.items():
        optimum, problem = optimum_of(number, loss, path)
        slack = 1e-9 * optimum.primal
        assert record.dual <= optimum.primal + slack
        assert record.primal >= optimum.dual - slack
        assert record.relative_gap <= tolerance
        if path.is_whole(number):
            continue
        left_out = np.flatnonzero(folds_of() == path.fold(number))
        margins = X[left_out] @ optimum.weights
        expected = problem.loss.value(margins, y[left_out]).mean()
        # λ/2 |w - w*|² is at most the gap; rows have length 1. Slopes of a squared loss
        # grow with the residual.
        distance = np.sqrt(2 * (record.primal - optimum.dual) / problem.l2_strength)
        slopes = np.abs(problem.loss.derivative(margins, y[left_out])).max() + distance
        assert abs(record.validation - expected) <= slopes * distance + slack


@pytest.mark.sampled(4)
@pytest.mark.parametrize("partition", ["2x2", "overlapping"])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", ["logistic", "hinge", "half_squared"])
def test_every_fit_is_that_of_a_training_of_its_own(loss, profile, partition):
    """All bounds hold of a solver's optimum; losses differ by what the gap allows."""
    run = path_run(loss, partition, profile=profile)
    run.finish()
    assert run.stop_reason == "tolerance"
    check_fits(run, loss)


def test_the_model_is_the_chosen_fit_of_all_rows():
    """Its P is the certified one, and a solver's at the chosen λ is not lower."""
    run = path_run("logistic")
    weights = run.finish()
    number = run.server.chosen()
    optimum, problem = optimum_of(number, "logistic")
    record = run.server.records()[number]
    assert PATH.is_whole(number)
    assert problem.primal(weights) <= record.primal + 1e-12
    assert problem.primal(weights) >= optimum.dual
    assert [row.is_chosen for row in run.server.table()].index(True) == PATH.place(
        number
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_bounds_hold_on_coarse_grids(profile):
    """Rounding never makes a certificate optimistic, nor a point that did not fit."""
    with coarse_grids(30):
        run = path_run("logistic", profile=profile, max_rounds=12)
        for _ in run.rounds():
            for number, record in run.server.records().items():
                optimum, _ = optimum_of(number, "logistic")
                assert record.dual <= optimum.primal + 1e-12
                assert record.primal >= optimum.dual - 1e-12


def cancer():
    """Return standardised features and labels."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), np.where(y, 1.0, -1.0)


def pooled_scores(X, y, folds, l2s):
    """Return the validation losses of a pooled cross-validation by scikit-learn."""
    scores = np.empty((len(l2s), folds.max() + 1))
    for place, l2 in enumerate(l2s):
        for fold in range(scores.shape[1]):
            train, test = folds != fold, folds == fold
            solver = LogisticRegression(
                C=1 / (l2 * train.sum()), tol=1e-8, max_iter=10**4
            )
            solver.fit(X[train], y[train])
            margins = X[test] @ solver.coef_[0] + solver.intercept_
            scores[place, fold] = np.logaddexp(0.0, -y[test] * margins).mean()
    return scores


@pytest.mark.slow
def test_the_choice_is_that_of_a_pooled_cross_validation():
    """Nine λ, five folds, breast cancer on 3x3: the same choice by either rule.

    The path takes at most 1.5 times the rounds of its slowest fit alone.
    """
    X, y = cancer()
    folds = np.random.Generator(np.random.PCG64(1)).integers(0, 5, len(y))
    l2s = tuple(np.geomspace(1e-1, 1e-5, 9).tolist())
    scores = pooled_scores(X, y, folds, l2s)
    rows, partition = sp.csr_array(X), partition_of("3x3", *X.shape)
    settings = {"loss": "logistic", "free_intercept": True, "profile": "open"}
    path = Path(l2s, 5, 1e-4)
    run = bundle_run(
        rows,
        y[:, None],
        partition,
        l2=l2s[0],
        tolerance=1e-4,
        path=path,
        folds=folds,
        **settings,
    )
    run.finish()
    found = np.array([row.folds for row in run.server.table()])
    np.testing.assert_allclose(found.mean(axis=1), scores.mean(axis=1), rtol=0.02)
    for choice in ("best", "one_standard_error"):
        assert chosen_place(found, choice) == chosen_place(scores, choice)
    alone = bundle_run(
        rows, y[:, None], partition, l2=l2s[-1], tolerance=1e-4, **settings
    )
    alone.finish()
    assert len(run.history) <= 1.5 * len(alone.history)


@pytest.mark.parametrize("profile", PROFILES)
def test_resumed_equals_undisturbed(profile):
    """From any round's state a path ends with the same choice and weights."""
    run = path_run("logistic", profile=profile, partition="2x2")
    saved = [Saved.of(run) for _ in run.rounds()]
    weights, table = run.release(), run.server.table()
    assert len(saved) > 4
    for state in saved[1:-1:2]:
        again = state.put_back(begun_again(run))
        assert again.finish().tobytes() == weights.tobytes()
        assert again.server.table() == table


@pytest.mark.parametrize("profile", PROFILES)
def test_encrypted_equals_unencrypted(profile):
    """Sealed runs with labels at one organisation have the same bits."""
    given = {
        "profile": profile,
        "partition": "2x2",
        "labelled": [True, False, True, False],
        "free_intercept": True,
    }
    plain = path_run("hinge", **given)
    sealed = path_run("hinge", encryption=Encryption("stream"), **given)
    assert sealed.finish().tobytes() == plain.finish().tobytes()
    assert sealed.server.table() == plain.server.table()


def test_weights_count_as_repetitions():
    """Rows of weight 2 and 0, in every fold, are rows repeated and left out."""
    X, y = table_for("logistic")
    folds = folds_of()
    times = np.arange(60) % 3
    l2s = (0.1, 0.01)
    path = Path(l2s, 3, 1e-6)
    given = {"loss": "logistic", "l2": 0.1, "tolerance": 1e-6, "path": path}
    weights = (times / times.mean())[:, None]
    partition = partition_of("1x2")
    plain = bundle_run(X, y, partition, folds=folds, **given)
    blocks = [
        dataclasses.replace(block, sample_weights=weights[items], folds=folds[items])
        for block, items in zip(plain.blocks, plain.layout.samples.items, strict=True)
    ]
    weighted = bundle_run(X, y, partition, blocks=blocks, **given)
    rows = np.repeat(np.arange(60), times)
    repeated = bundle_run(
        X[rows],
        y[rows],
        partition_of("1x2", len(rows)),
        folds=folds[rows],
        **given,
    )
    np.testing.assert_allclose(weighted.finish(), repeated.finish(), atol=2e-2)
    one, other = weighted.server.records(), repeated.server.records()
    for number, record in one.items():
        assert record.primal == pytest.approx(other[number].primal, rel=2e-6)
        expected = other[number].validation
        assert record.validation == pytest.approx(expected, rel=1e-2, nan_ok=True)


@pytest.mark.slow
def test_the_largest_l2_is_where_a_model_gains_little():
    """An automatic path begins at a λ that lowers P(0) by at most a quarter."""
    path = auto_path(3, 1e-3)
    run = path_run("logistic", path=path)
    run.finish()
    whole = run.server.records()[path.whole(0)]
    assert np.log(2) * 0.75 <= whole.dual
    l2s = np.array(run.server.path.l2s)
    assert len(l2s) == 9
    assert np.log2(l2s[0]) % 1 == 0
    assert l2s[-1] == pytest.approx(1e-4 * l2s[0])
    X, y = table_for("logistic")
    gradient = X.T @ y / (2 * len(y))
    assert l2s[0] == largest_l2(float((gradient**2).sum()), np.log(2))
    check_fits(run, "logistic", run.server.path)


def test_the_choice_follows_the_means():
    """Of equals the larger λ is chosen; one that never began is not."""
    scores = np.array([[np.nan] * 2, [3.0, 3.0], [1.0, 2.0], [1.4, 1.0], [1.2, 1.2]])
    assert chosen_place(scores, "best") == (3, 3)
    assert chosen_place(scores, "one_standard_error") == (3, 3)
    scores[2] = [1.0, 1.7]
    assert chosen_place(scores, "one_standard_error") == (3, 2)


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"bundle"}))
def test_other_algorithms_train_at_one_l2(name):
    """They refuse a path at construction, and say what to use."""
    X, y = table_for("logistic")
    with pytest.raises(ValueError, match=r"algorithm='bundle'"):
        make_training(
            X,
            y,
            partition_of("2x1"),
            loss="logistic",
            algorithm=name,
            path=PATH,
            folds=folds_of(),
        )


def test_fits_that_no_server_asks_for_are_refused():
    """Unknown fits, points from nowhere, other shares: nothing changes."""
    run = path_run("logistic", profile="sealed")
    heard, _ = listen(run)
    run.finish()
    said = [said for said in heard if said.phase == "fits"][-1]
    half, request = run.clients[said.client], said.request
    before = half.state()
    present = before.fits[0]
    ok = replace(request, fits=[present], sources=[present])
    for changed in (
        {"fits": [], "sources": []},
        {"fits": [PATH.n_fits]},
        {"fits": [present, present], "sources": [present, present]},
        {"sources": [PATH.whole(0)]},
        {"sources": []},
        {"shares": request.shares[:-1]},
        {"shares": tuple(np.roll(request.shares, 1))},
        {"shares": (0.5, 0.5, 0.5)},
        {"largest_l2": 1.0},
        {"fits": [PATH.whole(0)]},
    ):
        with pytest.raises(RemoteProtocolError):
            half.handlers["fits"](replace(ok, **changed))
    assert half.state().fits == before.fits
    assert half.state().shares == before.shares


def test_only_a_fit_of_all_rows_is_released():
    """The models of the folds stay with their holders."""
    run = path_run("logistic")
    heard, _ = listen(run)
    run.finish()
    said = [said for said in heard if said.phase == "release"][-1]
    half = run.clients[said.client]
    for fit in (None, 0, PATH.n_fits - 2):
        with pytest.raises(RemoteProtocolError, match="all rows"):
            half.handlers["release"](replace(said.request, fit=fit))

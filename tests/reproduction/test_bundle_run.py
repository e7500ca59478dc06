"""The bundle method's steps: those of the real driver, also where clients merge."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.errors import StudyError
from hyfdca.holdings.partition import deal_nonzeros, grid, image_quadrants
from hyfdca.reproduction import bundle_run
from hyfdca.reproduction.bundle_run import Limits, bundle_history, run_steps
from hyfdca.reproduction.merging import merged_by_bucket, unmerged
from hyfdca.reproduction.problems import Choices, PaperProblem, Rows
from tests.reproduction.small_problem import problem
from tests.support.small_runs import classification, make_training

BUCKETS = Bundle(max_buckets=4)
LIMITS = Limits(1e-6, 40)


def images(n_samples=600, side=4):
    """Return a problem of small images with a bias."""
    X, y = classification(n_samples + 50, side * side)
    X = sp.csr_array(sp.hstack([X, sp.csr_array(np.ones((len(y), 1)))]))
    train, rest = slice(n_samples), slice(n_samples, None)
    return PaperProblem(
        "mnist", 0.01, Choices(), Rows(X[train], y[train, 0]), Rows(X[rest], y[rest, 0])
    )


def merged_and_not(n_groups, n_samples=600):
    """Return the histories with all clients, and with those of a bucket merged."""
    data = images(n_samples)
    partition = image_quadrants(n_samples, n_groups, 0, side=4)
    merged = merged_by_bucket(partition, BUCKETS)
    whole = run_steps(data, unmerged(partition), BUCKETS, LIMITS)
    return merged, whole, run_steps(data, merged, BUCKETS, LIMITS)


def n_bytes(step):
    """Return the bytes of a step."""
    return sum(exchange.n_bytes for exchange in step.exchanges)


@pytest.mark.parametrize("n_groups", [4, 9, 50])
def test_merged_clients_have_the_same_history(n_groups):
    """P, D and accuracy of every step, and the bytes of the whole number of clients."""
    merged, whole, few = merged_and_not(n_groups)
    assert merged.partition.n_clients == 16
    assert merged.n_clients == few.n_clients == whole.n_clients == 4 * n_groups
    assert len(few.steps) == len(whole.steps) > 5
    for one, other in zip(few.steps, whole.steps, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-9)
        assert one.bound == pytest.approx(other.bound, abs=1e-9)
        assert one.accuracy == other.accuracy
        assert n_bytes(one) == pytest.approx(n_bytes(other), rel=0.01)
        for mine, yours in zip(one.exchanges, other.exchanges, strict=True):
            assert (mine.phase, mine.waits) == (yours.phase, yours.waits)
            assert (mine.sealed, mine.opened) == (yours.sealed, yours.opened)


@pytest.mark.parametrize(
    "partition",
    [
        grid(600, 17, (4, 2), 0),
        deal_nonzeros(images().train.X, (9, 2), 0),
    ],
    ids=["few groups", "dealt cells"],
)
def test_others_are_not_merged(partition):
    """Where a group has its own bucket, or cells form no rectangles."""
    found = merged_by_bucket(partition, BUCKETS)
    assert found.partition is partition
    assert found.n_clients == partition.n_clients


def test_a_history_is_that_of_the_driver():
    """P, D, bytes and round trips of every round; accuracy of the weights released."""
    data = problem()
    found = bundle_history(data, (3, 3), limits=LIMITS)
    run = make_training(
        data.train.X,
        data.train.y[:, None],
        data.partition((3, 3)),
        algorithm=Bundle(),
        l2=data.l2,
        profile="open",
        max_rounds=LIMITS.max_steps,
        tolerance=LIMITS.tolerance,
    )
    start, *steps = found.steps
    assert (start.loss, start.bound, start.exchanges) == (pytest.approx(1.0), 0.0, [])
    for report, step in zip(run.rounds(), steps, strict=True):
        assert report.measurement.primal == step.loss
        assert report.measurement.dual == step.bound
        assert data.validation.accuracy(run.release()[:, 0]) == step.accuracy
        traffic = report.traffic
        assert traffic.bytes_up + traffic.bytes_down == n_bytes(step)
        assert traffic.round_trips == len(step.exchanges)
        assert step.server_seconds > 0
        assert all(exchange.slowest_seconds > 0 for exchange in step.exchanges)
    assert run.stop_reason == "tolerance"


def test_what_is_sealed_and_opened_is_counted():
    """Numbers that the clients' sealers see, those that the server reads left out."""
    data = problem()
    [_, step] = bundle_history(data, (3, 3), limits=Limits(0.0, 1)).steps
    run = make_training(
        data.train.X,
        data.train.y[:, None],
        data.partition((3, 3)),
        algorithm=Bundle(),
        l2=data.l2,
        profile="open",
        max_rounds=1,
    )
    run.runner.start()
    seen = Counter()

    def note(what, kind, numbers):
        seen[what] += numbers.size * (kind in ("samples", "totals"))

    for party in run.parties:
        party.sealing.listener = note
    next(run.rounds())
    assert seen["sealed"] == sum(exchange.sealed for exchange in step.exchanges)
    assert seen["opened"] == sum(exchange.opened for exchange in step.exchanges)


def test_a_history_is_found_once(tmp_path, monkeypatch):
    """It is found for the same clients and limits; a damaged file is named."""
    first = bundle_history(problem(), (3, 3), tmp_path, LIMITS)
    monkeypatch.setattr(bundle_run, "run_steps", None)
    assert bundle_history(problem(), (3, 3), tmp_path, LIMITS) == first
    for clients, limits in (((3, 2), LIMITS), ((3, 3), Limits(1e-6, 41))):
        with pytest.raises(TypeError):
            bundle_history(problem(), clients, tmp_path, limits)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(StudyError, match=r"cannot be read .* delete it"):
        bundle_history(problem(), (3, 3), tmp_path, LIMITS)

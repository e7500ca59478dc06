"""min_rows: no two shares of a client differ by a sum over fewer rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.errors import StudyError
from hyfdca.holdings.participation import random_fraction
from hyfdca.holdings.partition import from_holdings
from hyfdca.maths.seeds import stream
from hyfdca.protocol.client_session import decode, unframe
from hyfdca.protocol.messages import Part
from hyfdca.runtime.driver import listening
from hyfdca.study.file import load
from tests.audit.audits import HORIZONTAL, PAPER, audited, write_study
from tests.support.small_runs import (
    classification,
    make_training,
    measure,
    partition_of,
    pooled,
    run_round,
    server_duals,
    set_up,
)

MIN_ROWS = 5


class Shares:
    """Hears every share that clients show, which the open profile lets anybody read."""

    def __init__(self, n_clients):
        """Start with the share that everybody knows."""
        self.of_client = [[] for _ in range(n_clients)]

    def __call__(self, ask, replies):
        """Note shares, of training and of measuring."""
        if ask.phase in ("shares", "measure shares"):
            for client, reply in replies.items():
                part = decode(unframe(reply, bytes(reply[:8]))[1], Part)
                numbers = np.frombuffer(part.vector.payload, "<i8").astype(float)
                self.of_client[client].append(
                    np.ldexp(numbers, -part.vector.fraction_bits)
                )


def wide_run(min_rows, **given):
    """Return a run of clients with more columns than rows: shares tell the duals."""
    X, y = classification(40, 60, noise=0.5)
    partition = partition_of("2x2", 40, 60)
    return make_training(
        X,
        y,
        partition,
        profile="open",
        min_rows=min_rows,
        step="safe",
        local_steps=1,
        max_rounds=60,
        **given,
    )


def fewest_rows(run):
    """Return over how few rows shares of a client differ, of all pairs, in all."""
    shares = Shares(run.layout.n_clients)
    with listening(shares):
        run.finish()
    fewest = []
    for block, own in zip(run.blocks, shares.of_client, strict=True):
        table = block.X.toarray()
        distinct = np.unique([np.zeros(table.shape[1]), *own], axis=0)
        for one, other in combinations(distinct, 2):
            # The shortest solution: rows without cells get zero.
            change = np.linalg.lstsq(table.T, one - other, rcond=None)[0]
            fewest.append(int(np.sum(np.abs(change) > 1e-9)))
    return min(fewest), len(fewest)


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_differences_of_shares_are_over_enough_rows(loss, fraction):
    """No pair of shares, of training or measured, differs in fewer rows."""
    present = None if fraction == 1.0 else random_fraction(4, fraction, 3)
    held = wide_run(MIN_ROWS, loss=loss, participation=present)
    n_rows, n_pairs = fewest_rows(held)
    assert n_rows >= MIN_ROWS
    assert n_pairs > 10
    assert fewest_rows(wide_run(1, loss=loss, participation=present))[0] < MIN_ROWS


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_certificates_are_never_optimistic(loss, fraction):
    """P is no lower than of the model, D no higher than of the duals, shares or not."""
    X, y = classification(40, 8, noise=0.5)
    given = {"loss": loss, "min_rows": MIN_ROWS, "step": "safe", "local_steps": 2}
    present = None if fraction == 1.0 else random_fraction(4, fraction, 3)
    run = set_up(
        make_training(X, y, partition_of("2x2", 40, 8), participation=present, **given)
    )
    objective = pooled(X, y, loss)
    lags = []
    for number in range(1, 41):
        run_round(run, list(range(4)) if present is None else present.of_round(number))
        certificate = measure(run)
        duals = server_duals(run)
        weights = run.release()
        assert certificate.dual <= objective.dual(duals) + 1e-15
        assert certificate.primal >= objective.primal(weights) - 1e-15
        own = objective.weights_from(duals)
        lags.append(float(np.abs(own - weights).max()))
    assert max(lags) > 1e-3  # shares were held back when this was measured
    assert 0.0 in np.round(lags, 9)  # and shown when enough had changed


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_training_still_converges(loss):
    """With shares held back the certified gap still becomes small."""
    X, y = classification(60, 8, noise=0.5)
    run = make_training(
        X,
        y,
        partition_of("2x2", 60, 8),
        loss=loss,
        min_rows=MIN_ROWS,
        step="safe",
        local_fraction=0.5,
        max_rounds=3000,
        tolerance=1e-2,
        measure_every=20,
    )
    run.finish()
    assert run.stop_reason == "tolerance"


def test_one_is_off():
    """Shares are shown at once where min_rows is not set: the same run, bit for bit."""
    X, y = classification(40, 8)
    runs = [
        make_training(X, y, partition_of("2x2", 40, 8), max_rounds=5, **given)
        for given in ({}, {"min_rows": 1})
    ]
    one, other = (run.finish() for run in runs)
    assert one.tobytes() == other.tobytes()


def test_rows_without_cells_do_not_count():
    """A changed dual of a row that a client has no cell of is in no difference."""
    X = stream(2, "cells").normal(size=(12, 30))
    X[:6, :15] = 0.0
    y = np.where(X[:, 20:21] > 0, 1.0, -1.0)
    everybody = range(12)
    partition = from_holdings(
        12, 30, [(everybody, range(15)), (everybody, range(15, 30))]
    )
    run = make_training(
        sp.csr_array(X),
        y,
        partition,
        profile="open",
        min_rows=4,
        step="safe",
        local_steps=1,
        max_rounds=40,
    )
    assert fewest_rows(run)[0] >= 4


def test_clients_with_too_few_rows_are_refused():
    """A client that could never show a share is refused before anything starts."""
    X, y = classification(12, 4)
    with pytest.raises(ValueError, match=r"cells in 6 rows .* min_rows = 7"):
        make_training(X, y, partition_of("2x1", 12, 4), min_rows=7)


def test_line_search_is_refused():
    """A line search shows sums over the drawn rows, so both cannot be had."""
    X, y = classification(20, 4)
    partition = partition_of("2x1", 20, 4)
    with pytest.raises(ValueError, match="shows sums over the drawn rows"):
        make_training(X, y, partition, step="line_search", min_rows=2)
    auto = make_training(X, y, partition, step="auto", min_rows=2)
    assert "step" in auto.clients[0].handlers  # the safe step, not the search


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2"])
def test_bad_numbers_are_refused(bad):
    """min_rows is a whole number from 1."""
    X, y = classification(20, 4)
    with pytest.raises(ValueError, match="min_rows must be a whole number"):
        make_training(X, y, partition_of("2x1", 20, 4), min_rows=bad)


@pytest.mark.thorough
@pytest.mark.slow
def test_the_audit_finds_no_rows_where_shares_are_held_back(tmp_path):
    """The study setting ends the attack that succeeds without it."""
    given = {**PAPER, "local_steps": "1", "max_rounds": "80"}
    given |= {"profile": '"open"', "encryption": '"stream"'}
    audit = audited(tmp_path, HORIZONTAL, min_rows="5", **given)
    assert audit.attacks["share differences"].n_equations == 0
    assert audit.is_clean
    (tmp_path / "without").mkdir()
    without = audited(tmp_path / "without", HORIZONTAL, **given)
    assert without.attacks["share differences"].recovered > 0.9


def test_studies_of_other_algorithms_are_refused(tmp_path):
    """The bundle method has no shares to hold back: one sentence."""
    path = write_study(tmp_path, HORIZONTAL, algorithm='"bundle"', min_rows="3")
    message = "min_rows is a setting of algorithm 'hyfdca', not of 'bundle'"
    with pytest.raises(StudyError, match=message):
        load(path)


def test_shares_of_wide_clients_tell_the_duals():
    """What the tests above read out of differences is unique: full rank by rows."""
    for block in wide_run(1).blocks:
        assert np.linalg.matrix_rank(block.X.toarray()) == block.X.shape[0]

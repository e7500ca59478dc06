"""Certificates of HyFDCA on coarse grids: never optimistic, and not by luck.

On the usual grids rounding is too small to be seen. Here margins, shares and duals
stand on grids so coarse that P and D are off in the third or fourth digit, and only
the totals, whose rounding up would hide that, stay on their fine grid.
"""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.algorithms.hyfdca.line_search import LineSearchServer
from hyfdca.crypto.schemes.fixedpoint import Grid
from hyfdca.holdings.participation import cyclic
from hyfdca.maths.losses import LOSSES
from tests.support.small_runs import (
    coarse_grids,
    duals_of,
    make_training,
    measure,
    partition_of,
    pooled,
    run_round,
    server_duals,
    set_up,
    table_for,
)

LOST_BITS = 42
N_ROUNDS = 12
L2 = 0.02
SEEN = 1e-6  # of P, that rounding must be off by at least once

METHODS = {
    "paper": {"step": "paper", "local_steps": 5},
    "safe": {"step": "safe"},
    "search": {"step": "line_search"},
    "theory": {"variant": "theory"},
    "rows": {"step": "safe", "local_fraction": 0.5, "min_rows": 6},
}
TURNS = [[0, 1, 2], [1, 3], [0, 2, 3], [1, 2, 3]]
CASES = [
    (method, is_complete)
    for method in METHODS
    for is_complete in (True, False)
    if method != "search" or is_complete  # a line search needs everybody
]


def coarse_run(X, y, partition, loss, **given):
    """Return a run that is set up with coarse grids, except that of totals."""
    run = make_training(X, y, partition, loss=loss, l2=L2, **given)
    with coarse_grids(LOST_BITS):
        set_up(run)
    totals = run.federation.grids.totals
    totals.use(Grid(totals.grid.fraction_bits + LOST_BITS, totals.grid.limit_bits))
    return run


def excess(run, objective):
    """Return how far P is above, and D below, what the true numbers give."""
    certificate, weights = measure(run), run.release()
    # With a line search holders keep duals that the server never gets.
    is_search = isinstance(run.server, LineSearchServer)
    duals = duals_of(run) if is_search else server_duals(run)
    primal, dual = objective.primal(weights), objective.dual(duals)
    return (certificate.primal - primal) / primal, (dual - certificate.dual) / primal


def assert_never_optimistic(found):
    """Check the excess of P and of D, measurement by measurement."""
    # 1e-12: the objective on plain arrays is rounded too.
    assert np.min(found) >= -1e-12
    # Rounding can be seen, so that a certificate without its margins would be wrong.
    assert np.all(np.max(found, axis=0) > SEEN)


def excess_by_round(loss, method, *, is_complete=True, labelled=None, seed=0):
    """Return the excess of P and D after each round of four clients that overlap."""
    X, y = table_for(loss, seed=seed)
    turns = [range(4)] if is_complete else TURNS
    run = coarse_run(
        X,
        y,
        partition_of("overlapping"),
        loss,
        labelled=labelled,
        participation=None if is_complete else cyclic(TURNS),
        **METHODS[method],
    )
    objective = pooled(X, y, loss, L2)
    found = []
    for number in range(N_ROUNDS):
        run_round(run, turns[number % len(turns)])
        found.append(excess(run, objective))
    return found


@pytest.mark.parametrize("loss", LOSSES)
def test_no_loss_has_an_optimistic_certificate(loss, seed):
    """P covers the rounding of margins, D that of shares, for every loss."""
    assert_never_optimistic(excess_by_round(loss, "safe", seed=seed))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("labelled", [None, [True, True, False, False]])
@pytest.mark.parametrize(("method", "is_complete"), CASES)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_no_step_has_an_optimistic_certificate(
    loss, method, is_complete, labelled, seed
):
    """It holds with anybody absent, and with or without shares held back."""
    found = excess_by_round(
        loss, method, is_complete=is_complete, labelled=labelled, seed=seed
    )
    assert_never_optimistic(found)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", ["logistic", "half_squared", "absolute"])
@pytest.mark.parametrize(
    ("partition", "shape"), [("1x1", (1, 3)), ("1x4", (1, 8)), ("4x1", (8, 1))]
)
def test_every_holder_that_rounds_is_counted(partition, shape, loss, seed):
    """With one sample or one feature no error is made up for by another one."""
    found = []
    for table in range(40):
        X, y = table_for(loss, *shape, seed=100 * seed + table)
        run = coarse_run(X, y, partition_of(partition, *shape), loss, step="safe")
        run_round(run)
        found.append(excess(run, pooled(X, y, loss, L2)))
    assert_never_optimistic(found)

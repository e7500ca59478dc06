"""The evaluation of any method, on a gradient method: rounding is inside P and D."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.crypto.schemes.fixedpoint import Grid
from hyfdca.federation.evaluation import measuring
from hyfdca.federation.grids import GridMaker
from tests.contract.cases import Case, objective
from tests.support.small_runs import coarse_grids
from tests.test_contributing import example

LOST_BITS = 42  # of which the errors are far above those of floating point


@pytest.fixture
def gradient():
    """Keep the algorithm of docs/contributing.md in the registry for a while."""
    before = dict(ALGORITHMS)
    example("algorithm")
    yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)


@pytest.fixture
def touching(monkeypatch):
    """Return the duals that clients form when they are measured, by party."""
    formed = {}
    totals = measuring.loss_totals

    def noting(party, margins, step, duals):
        formed[party.rank] = duals
        return totals(party, margins, step, duals)

    monkeypatch.setattr(measuring, "loss_totals", noting)
    return formed


@pytest.fixture
def fine_totals(monkeypatch):
    """Put totals on a fine grid, so that they hide no errors of the other grids."""
    make = GridMaker.grids

    def with_fine_totals(maker, problem, bounds):
        grids = make(maker, problem, bounds)
        grids.totals.use(Grid(40, 50))
        return grids

    monkeypatch.setattr(GridMaker, "grids", with_fine_totals)


@pytest.mark.parametrize("shape", ["horizontal", "vertical", "grid"])
@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.usefixtures("gradient", "fine_totals")
def test_coarse_grids_make_no_certificate_optimistic(shape, profile, touching):
    """P is above the loss of the weights, D below the dual of the very duals."""
    problem = objective()
    with coarse_grids(LOST_BITS):
        run = Case("gradient", shape, profile=profile).run(labelled=None, max_rounds=6)
        slack = []
        run.runner.start()
        for report in run.rounds():
            weights, measured = run.release(), report.measurement
            duals = np.zeros((problem.X.shape[0], 1))
            for rank, own in touching.items():
                duals[run.layout.samples.items[rank]] = own
            above = measured.primal - problem.primal(weights)
            below = problem.dual(duals) - measured.dual
            assert above >= 0
            assert below >= 0
            slack += [above, below]
    assert max(slack) > 1e-9  # rounding can be seen


def test_a_bound_is_never_below_that_of_zero_duals():
    """No loss is negative: far from the optimum that is the better bound."""
    run = Case("fedavg").run(algorithm=FedAvg(rate=50.0), max_rounds=3, l2=1e-4)
    run.finish()
    assert min(record["dual"] for record in run.history) == 0.0
    assert max(record["relative_gap"] for record in run.history) <= 1.0

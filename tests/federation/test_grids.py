"""Grids that turn out too fine are made coarser in mid-run, without a trace."""

from dataclasses import replace

import numpy as np
import pytest

from hyfdca.holdings import partition as parts
from hyfdca.holdings.participation import random_fraction
from hyfdca.maths.losses import make_loss
from tests.support.small_runs import (
    PlainAlgorithm,
    classification,
    make_training,
    measure,
    pooled,
    run_round,
    server_duals,
    set_up,
)

N, M = 60, 12


def too_fine(training, name, bits):
    """Make a grid so fine that values soon do not fit."""
    grids = training.federation.grids
    grids[name] = replace(grids[name], fraction_bits=grids[name].fraction_bits + bits)


# Not "drawn" with margins: a client's margins stand on one grid, so all of them are
# sent when it changes, and then fewer of them are old than in the plain algorithm.
@pytest.mark.parametrize(
    ("name", "refresh"),
    [
        ("margins", "all"),
        ("shares", "all"),
        ("shares", "drawn"),
        ("duals", "all"),
        ("duals", "drawn"),
    ],
)
def test_a_run_with_too_fine_grids_is_the_same_run(name, refresh):
    """Absent clients' parts stand on the old grid and still count."""
    X, y = classification(N, M, noise=0.5)
    partition = parts.grid(N, M, (2, 3), seed=0)
    participation = random_fraction(6, 0.5, seed=1)
    training = set_up(
        make_training(
            X,
            y,
            partition,
            l2=0.01,
            participation=participation,
            local_steps=4,
            refresh=refresh,
        )
    )
    too_fine(training, name, bits=12)
    before = training.federation.grids[name].fraction_bits
    plain = PlainAlgorithm(
        X.toarray(), y[:, 0], partition, make_loss("hinge"), 0.01, refresh
    )
    for round_number in range(1, 50):
        active = participation.of_round(round_number)
        plain.round(active, training.server.draws.of_round(round_number, active).drawn)
        run_round(training, active)
    assert training.federation.grids[name].fraction_bits < before
    assert np.abs(server_duals(training)[:, 0] - plain.duals).max() <= 1e-10
    objective = pooled(X, y, l2=0.01)
    certificate, duals = measure(training), server_duals(training)
    exact = objective.primal(objective.weights_from(duals))
    assert certificate.primal == pytest.approx(exact, rel=1e-9)
    assert certificate.primal >= exact
    assert certificate.dual <= objective.dual(duals)


@pytest.mark.parametrize("name", ["margins", "shares", "totals", "duals"])
def test_the_line_search_survives_too_fine_grids(name):
    """D still never falls when an exchange has to be asked again."""
    X, y = classification(N, M, noise=0.5)
    training = set_up(
        make_training(X, y, parts.grid(N, M, (2, 3), seed=0), step="line_search")
    )
    too_fine(training, name, bits=14)
    before = training.federation.grids[name].fraction_bits
    duals = []
    for _ in range(15):
        run_round(training)
        duals.append(measure(training).dual)
    assert training.federation.grids[name].fraction_bits < before
    assert np.all(np.diff(duals) > -1e-11)

"""Grids, and that those too fine are made coarser in mid-run, without a trace."""

from dataclasses import fields, replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.schemes.fixedpoint import COARSER_BITS, Grid, GridOverflowError
from hyfdca.federation.grids import (
    DivergenceError,
    GridMaker,
    Grids,
    PublicBounds,
    VectorGrid,
)
from hyfdca.federation.messages import Bounds
from hyfdca.holdings import partition as parts
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import random_fraction
from hyfdca.maths.losses import make_loss
from hyfdca.protocol.checkpoint import load, save
from hyfdca.protocol.messages import GridSpec
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


# The grid of one kind of vector

MOST_LOST = 128  # bits by which numbers may outgrow the first grid of a run


def check_is_on(vector_grid, grid):
    """Check that all that a grid says of itself is of one and the same."""
    assert vector_grid.grid == grid
    assert vector_grid.fraction_bits == grid.fraction_bits
    assert vector_grid.step == 2.0**-grid.fraction_bits
    assert vector_grid.spec == GridSpec(grid.fraction_bits, grid.limit_bits)


def coarsened(vector_grid):
    """Make a grid coarser until it refuses; return how often it did not."""
    for times in count():
        try:
            vector_grid.coarsen()
        except DivergenceError:
            return times
    raise AssertionError


@pytest.mark.parametrize("bits", [-30, 0, 40, 800])
def test_a_coarser_grid_has_fewer_bits_for_fractions(bits):
    """Numbers may be as many steps as before, each of which is longer."""
    grid = VectorGrid("margins", Grid(bits, 50))
    check_is_on(grid, Grid(bits, 50))
    for times in range(1, 4):
        grid.coarsen()
        check_is_on(grid, Grid(bits - times * COARSER_BITS, 50))


def test_a_coarser_grid_takes_what_did_not_fit():
    """A value just beyond the limit fits after one step, and no sooner."""
    grid = VectorGrid("margins", Grid(40, 50))
    values = np.array([[2.0**10 + 1.0]])
    with pytest.raises(GridOverflowError):
        grid.grid.encode(values)
    grid.coarsen()
    assert grid.grid.encode(values)[0, 0] * grid.step == values[0, 0]


@pytest.mark.parametrize("bits", [-30, 40, 800])
def test_numbers_that_outgrow_every_grid_have_diverged(bits):
    """After 128 bits there is no coarser grid, and the last one stays."""
    grid = VectorGrid("shares", Grid(bits, 50))
    assert coarsened(grid) == MOST_LOST // COARSER_BITS
    check_is_on(grid, Grid(bits - MOST_LOST, 50))
    with pytest.raises(DivergenceError, match=r"^The shares outgrew every grid; take"):
        grid.coarsen()
    check_is_on(grid, Grid(bits - MOST_LOST, 50))


def test_bits_are_counted_from_the_first_grid_that_was_too_fine():
    """Changing to another grid in between does not start the count again."""
    grid = VectorGrid("margins", Grid(40, 50))
    grid.use(Grid(60, 50))
    grid.coarsen()  # from 60 on
    grid.use(Grid(44, 48))
    check_is_on(grid, Grid(44, 48))
    assert coarsened(grid) == (44 - (60 - MOST_LOST)) // COARSER_BITS


@pytest.mark.parametrize("times", [0, 1, 5, MOST_LOST // COARSER_BITS])
def test_a_grid_is_put_back(times):
    """Its state includes how far it may still get coarser."""
    grid, other = (VectorGrid("duals", Grid(40, 50)) for _ in range(2))
    for _ in range(times):
        grid.coarsen()
    state, content = grid.state(), save(grid)
    other.use(Grid(3, 9))
    load(other, content)
    check_is_on(other, Grid(40 - times * COARSER_BITS, 50))
    assert other.state() == state
    left = MOST_LOST // COARSER_BITS - times
    assert coarsened(other) == left
    assert coarsened(grid) == left
    other.restore(state)  # which no later change has reached
    check_is_on(other, Grid(40 - times * COARSER_BITS, 50))
    assert coarsened(other) == left


def test_all_grids_of_a_training_are_put_back():
    """Each grid has its own state again, and never another's."""
    names = [field.name for field in fields(Grids)]
    one, other = (
        Grids(*(VectorGrid(name, Grid(30 + k, 50)) for k, name in enumerate(names)))
        for _ in range(2)
    )
    for times, name in enumerate(names):
        for _ in range(times):
            getattr(one, name).coarsen()
    load(other, save(one))
    for times, name in enumerate(names):
        check_is_on(getattr(other, name), Grid(30 + times - times * COARSER_BITS, 50))
        left = MOST_LOST // COARSER_BITS - times
        assert coarsened(getattr(other, name)) == left


# Grids that public bounds allow


BOUNDS = [Bounds(4.0, 8.0, 1.0, 12.0), Bounds(1.0, 16.0, 2.0, 4.0)]


def test_public_bounds_are_above_what_clients_say():
    """Rows and losses add up over clients; columns and slopes are one client's."""
    bounds = PublicBounds.of(BOUNDS, n_samples=8)
    assert bounds == PublicBounds(
        row_norm=4.0 + 1.0,
        largest_part=4.0,
        column_sum=16.0,
        slope_at_zero=2.0,
        loss_at_zero=(12.0 + 4.0) / 8,
    )


@given(st.floats(1e-100, 1e100), st.integers(1, 50), st.integers(20, 64), st.data())
def test_no_sum_on_a_grid_overflows_and_no_bit_is_wasted(bound, n_summands, bits, data):
    """Sums of numbers up to the bound just fit into the available bits."""
    sum_bits = data.draw(st.integers(20, 60))
    maker = GridMaker(layout_of(parts.grid(N, M, (2, 3))), sum_bits)
    grid = maker.grid("margins", bound, n_summands, bits)
    [largest] = grid.grid.encode(np.array([bound]), "up").tolist()
    assert n_summands * largest <= 2 ** min(bits, sum_bits)
    # Both the bound and the number of summands count as the next power of two.
    assert 2 * n_summands * 2 * largest >= 2 ** min(bits, sum_bits)


def test_a_maker_knows_how_many_add_up():
    """The most holders of a sample, the most of a feature, and all clients."""
    maker = GridMaker(layout_of(parts.grid(N, M, (2, 3))), 58)
    assert (maker.sample_holders, maker.feature_holders, maker.n_clients) == (3, 2, 6)


# Runs


def too_fine(training, name, bits):
    """Make a grid so fine that values soon do not fit, and return it."""
    grid = getattr(training.federation.grids, name)
    grid.use(replace(grid.grid, fraction_bits=grid.fraction_bits + bits))
    return grid


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
    grid = too_fine(training, name, bits=12)
    before = grid.fraction_bits
    plain = PlainAlgorithm(
        X.toarray(), y[:, 0], partition, make_loss("hinge"), 0.01, refresh
    )
    for round_number in range(1, 50):
        active = participation.of_round(round_number)
        plain.round(active, training.server.draws.of_round(round_number, active).drawn)
        run_round(training, active)
    assert grid.fraction_bits < before
    assert np.abs(server_duals(training)[:, 0] - plain.duals).max() <= 1e-10
    objective = pooled(X, y, l2=0.01)
    measurement, duals = measure(training), server_duals(training)
    exact = objective.primal(objective.weights_from(duals))
    assert measurement.primal == pytest.approx(exact, rel=1e-9)
    assert measurement.primal >= exact
    assert measurement.dual <= objective.dual(duals)


@pytest.mark.parametrize("name", ["margins", "shares", "totals", "duals"])
def test_the_line_search_survives_too_fine_grids(name):
    """D still never falls when an exchange has to be asked again."""
    X, y = classification(N, M, noise=0.5)
    training = set_up(
        make_training(X, y, parts.grid(N, M, (2, 3), seed=0), step="line_search")
    )
    grid = too_fine(training, name, bits=14)
    before = grid.fraction_bits
    duals = []
    for _ in range(15):
        run_round(training)
        duals.append(measure(training).dual)
    assert grid.fraction_bits < before
    assert np.all(np.diff(duals) > -1e-11)

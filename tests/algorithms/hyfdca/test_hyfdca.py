"""HyFDCA against plain transliterations, laws and the claims of the errata."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.holdings import partition as parts
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import cyclic, random_fraction
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.objective import reference_optimum
from tests.support.small_runs import (
    PlainAlgorithm,
    classification,
    duals_of,
    make_training,
    measure,
    pooled,
    run_round,
    set_up,
)

N, M = 120, 24


PARTITIONS = {
    "horizontal": parts.horizontal(N, M, 4, seed=1),
    "vertical": parts.vertical(N, M, 4, seed=1),
    "grid": parts.grid(N, M, (3, 3), seed=1),
    "uneven grid": parts.grid(N, M, (7, 2), seed=1),
    "overlapping": parts.from_holdings(
        N,
        M,
        [
            (np.arange(0, 80), np.arange(0, 14)),
            (np.arange(30, 120), np.arange(8, 24)),
            (np.arange(0, 120, 2), np.arange(4, 20)),
            ([], []),
        ],
    ),
}


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("local_steps", [1, 5, N])
def test_equals_theta_weighted_minibatch_sdca(name, local_steps):
    """Complete participation is mini-batch SDCA with the share of holders that drew."""
    X, y = classification(N, M)
    partition = PARTITIONS[name]
    training = set_up(make_training(X, y, partition, local_steps=local_steps))
    objective, duals = pooled(_owned_table(X, partition), y), np.zeros((N, 1))
    for round_number in range(1, 40):
        draw = training.server.draws.of_round(round_number, range(partition.n_clients))
        theta = _theta(partition, draw)
        margins = objective.margins(objective.weights_from(duals))
        step = objective.loss.dual_step(duals, margins, y, objective.curvatures)
        duals = duals + theta * step
        run_round(training)
        assert np.abs(duals_of(training) - duals).max() <= 1e-12


def _owned_table(X, partition):
    """Return what the holdings cover of a table, each cell once."""
    table = np.zeros(X.shape)
    blocks = partition.split(X)
    for holding, block in zip(partition.holdings, blocks, strict=True):
        table[np.ix_(holding.samples, holding.features)] += block.toarray()
    return sp.csr_array(table)


def _theta(partition, draw):
    theta = np.zeros((partition.n_samples, 1))
    for client, rows in draw.drawn.items():
        items = partition.holdings[client].samples
        items = items if rows is None else items[rows]
        holders = partition.samples.counts[items][:, None]
        theta[items] += 1.0 / holders if draw.is_shared else 1.0
    return theta


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("refresh", ["drawn", "all"])
@pytest.mark.parametrize("divide_by", ["active", "all"])
def test_equals_plain_algorithm_under_partial_participation(name, refresh, divide_by):
    """Stale margins, stale shares and returning clients are those of Algorithm 1."""
    X, y = classification(N, M)
    partition = PARTITIONS[name]
    participation = random_fraction(partition.n_clients, 0.5, seed=3)
    training = set_up(
        make_training(
            X,
            y,
            partition,
            participation=participation,
            local_steps=4,
            refresh=refresh,
            divide_by=divide_by,
        )
    )
    plain = PlainAlgorithm(
        X.toarray(), y[:, 0], partition, make_loss("hinge"), 0.05, refresh, divide_by
    )
    plain.curvatures = pooled(_owned_table(X, partition), y).curvatures[:, 0]
    for round_number in range(1, 60):
        active = participation.of_round(round_number)
        draw = training.server.draws.of_round(round_number, active)
        if not draw.drawn:
            continue
        plain.round(active, draw.drawn)
        run_round(training, active)
        _assert_active_agree(training, active, plain.duals)
    weights = plain.weights()
    for client in active:
        features = partition.holdings[client].features
        held = training.clients[client].dual.weights[:, 0]
        assert np.abs(held - weights[features]).max(initial=0.0) <= 1e-11


def _assert_active_agree(training, active, duals):
    for client in active:
        items = training.layout.samples.items[client]
        mine = training.clients[client].dual.duals[:, 0]
        assert np.abs(mine - duals[items]).max(initial=0.0) <= 1e-12


def test_second_inner_product_changes_nothing_but_the_cost():
    """Algorithm 1's second SecureInnerProduct costs half a round trip, no duals.

    So it is where the same clients come again; those who stay away next time leave
    newer margins behind.
    """
    X, y = classification(N, M)
    participation = cyclic([[0, 1, 4, 5, 8]])
    runs = [
        set_up(
            make_training(
                X,
                y,
                PARTITIONS["grid"],
                participation=participation,
                local_steps=4,
                refresh="all",
                second_inner_product=second,
            )
        )
        for second in (False, True)
    ]
    trips = np.zeros(2)
    for round_number in range(1, 15):
        active = participation.of_round(round_number)
        trips += [run_round(run, active).round_trips for run in runs]
    assert np.array_equal(duals_of(runs[0]), duals_of(runs[1]))
    assert trips[1] - trips[0] == pytest.approx(0.5 * 14)


def test_round_trips_are_those_of_the_paper():
    """Partial participation takes 4.5 round trips, complete 3, horizontal 2."""
    X, y = classification(N, M)
    hybrid = set_up(make_training(X, y, PARTITIONS["grid"], local_steps=4))
    assert [run_round(hybrid).round_trips for _ in range(4)] == [3.0] * 4
    flat = set_up(make_training(X, y, PARTITIONS["horizontal"], local_steps=4))
    assert [run_round(flat).round_trips for _ in range(4)] == [2.0] * 4
    participation = random_fraction(9, 0.5, seed=0)
    partial = set_up(
        make_training(
            X, y, PARTITIONS["grid"], participation=participation, local_steps=4
        )
    )
    seen = []
    for round_number in range(1, 20):
        active = participation.of_round(round_number)
        # Where nobody present has missed a dual, nobody has to be brought up to date.
        behind = any(map(partial.server.dual.has_news, active))
        trips = run_round(partial, active).round_trips
        assert trips == (4.5 if behind else 3.5)
        seen.append(trips)
    assert seen.count(4.5) > 10


def test_cost_follows_the_work_drawn():
    """With few drawn samples a round's sample messages do not grow with the data."""
    sizes = []
    for n_samples in (300, 3000):
        X, y = classification(n_samples, 6)
        training = make_training(
            X, y, parts.grid(n_samples, 6, (2, 2), seed=0), local_steps=3
        )
        set_up(training)
        run_round(training)
        traffic = run_round(training)
        sizes.append(traffic.bytes_up + traffic.bytes_down)
    assert sizes[1] <= 1.1 * sizes[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_gap_is_never_negative_and_reaches_the_optimum(loss):
    """On every loss the certificate brackets the optimum and closes on it."""
    X, y = classification(60, 8, noise=0.5)
    objective = pooled(X, y, loss, l2=0.1)
    optimum = reference_optimum(objective, 1e-9)
    training = make_training(
        X,
        y,
        parts.grid(60, 8, (2, 2), seed=0),
        loss=loss,
        l2=0.1,
        step="auto",
        max_rounds=400,
        tolerance=1e-3,
    )
    for report in training.rounds():
        assert report.measurement.dual <= optimum.primal
        assert report.measurement.primal >= optimum.dual
    assert training.measurement.relative_gap <= 1e-3


@given(
    st.integers(0, 10_000),
    st.sampled_from(sorted(LOSSES)),
    st.sampled_from(["paper", "safe"]),
    st.floats(0.2, 1.0),
)
def test_certificate_is_never_optimistic(seed, loss, step, share):
    """Whatever the duals are, P is not below and D not above the true value."""
    X, y = classification(30, 5, seed=seed)
    partition = parts.grid(30, 5, (2, 2), seed=seed)
    participation = random_fraction(4, share, seed=seed)
    training = make_training(
        X,
        y,
        partition,
        loss=loss,
        l2=0.02,
        participation=participation,
        local_steps=5,
        step=step,
        max_rounds=6,
    )
    weights = training.finish()
    objective = pooled(X, y, loss, l2=0.02)
    assert training.measurement.primal >= objective.primal(weights)
    assert training.measurement.gap >= 0.0
    optimum = reference_optimum(objective, 1e-4, max_epochs=200)
    assert training.measurement.dual <= optimum.primal
    assert training.measurement.primal >= optimum.dual


def test_profiles_agree_bit_for_bit():
    """Who may read the weights changes no number."""
    X, y = classification(N, M)
    runs = [
        set_up(make_training(X, y, PARTITIONS["grid"], local_steps=7, profile=profile))
        for profile in ("open", "sealed")
    ]
    for run in runs:
        for _ in range(20):
            run_round(run)
    assert np.array_equal(duals_of(runs[0]), duals_of(runs[1]))
    assert measure(runs[0]) == measure(runs[1])


def test_same_seed_same_history():
    """Two runs from one seed are equal to the last bit; another seed is another run."""
    X, y = classification(N, M)

    def history(seed):
        training = make_training(
            X,
            y,
            PARTITIONS["grid"],
            participation=random_fraction(9, 0.5, seed),
            local_steps=5,
            seed=seed,
            max_rounds=10,
        )
        training.finish()
        return [(r["primal"], r["dual"], r["participants"]) for r in training.history]

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_overlaps_without_ownership_solve_the_problem_with_cells_counted_twice():
    """Counting shared cells at every holder solves R∘X (E10); owning is right."""
    X, y = classification(60, 8, noise=0.5)
    partition = parts.from_holdings(
        60, 8, [(np.arange(40), np.arange(5)), (np.arange(20, 60), np.arange(3, 8))]
    )
    counts = np.zeros(X.shape)
    for holding in partition.holdings:
        counts[np.ix_(holding.samples, holding.features)] += 1
    doubled = sp.csr_array(X.toarray() * counts)
    once = sp.csr_array(X.toarray() * (counts > 0))
    naive = parts.Partition(60, 8, partition.holdings, is_disjoint=True)
    naive_run = make_training(X, y, naive, step="auto", max_rounds=3000, tolerance=1e-9)
    owned_run = make_training(
        X, y, partition, step="auto", max_rounds=3000, tolerance=1e-9
    )
    doubled_weights = reference_optimum(pooled(doubled, y), 1e-12).weights
    right = reference_optimum(pooled(once, y), 1e-12)
    assert np.abs(naive_run.finish() - doubled_weights).max() <= 1e-3
    assert np.abs(owned_run.finish() - right.weights).max() <= 1e-3
    wrong = pooled(once, y).primal(doubled_weights)
    assert wrong - right.primal > 1e-3


@pytest.mark.parametrize("step", ["paper", "safe", "line_search"])
def test_zero_rows_do_not_leave_the_gap_open(step):
    """A row of zeros gets its best dual, the end of the domain."""
    X, y = classification(30, 6)
    table = X.toarray()
    table[[3, 17]] = 0.0
    training = make_training(
        sp.csr_array(table),
        y,
        parts.grid(30, 6, (2, 3), seed=0),
        l2=0.5,
        step=step,
        max_rounds=600,
        tolerance=1e-6,
    )
    training.finish()
    assert training.stop_reason == "tolerance"
    assert np.array_equal(duals_of(training)[[3, 17]], y[[3, 17]])


@pytest.mark.parametrize("step", ["paper", "safe", "line_search"])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge"])
def test_holders_without_labels_take_part(step, loss):
    """Clients without labels carry their columns and get the same duals."""
    X, y = classification(60, 9, noise=0.5)
    partition = parts.grid(60, 9, (2, 3), seed=0)
    training = make_training(
        X,
        y,
        partition,
        loss=loss,
        labelled=[True, False, False, False, True, False],
        l2=0.2,
        step=step,
        local_fraction=0.3 if step == "paper" else 1.0,
        max_rounds=1500,
        tolerance=1e-3,
    )
    training.finish()
    assert training.stop_reason == "tolerance"
    duals = duals_of(training)
    for client, half in enumerate(training.clients):
        own = duals[partition.holdings[client].samples]
        assert np.array_equal(half.dual.duals, own)


def test_inner_iterations_constant_is_the_papers():
    """H = ceil(IIC N / (K Q)), at most the samples a client has."""
    X, y = classification(N, M)
    for iic, expected in ((0.1, 2), (1.0, 14), (3.0, 40), (5.0, 40)):
        training = make_training(X, y, PARTITIONS["grid"], iic=iic, step="safe")
        draw = training.server.draws.of_round(1, range(9))
        sizes = {40 if rows is None else len(rows) for rows in draw.drawn.values()}
        assert sizes == {expected}


def test_weights_of_samples_equal_repeated_rows():
    """A sample of weight 3 counts like three equal samples."""
    X, y = classification(40, 6, noise=0.5)
    repeats = np.where(np.arange(40) % 4 == 0, 3, 1)
    partition = parts.grid(40, 6, (2, 2), seed=0)
    layout = layout_of(partition)
    weights = repeats[:, None] * 40 / repeats.sum()
    blocks = split_blocks(X, y, partition, layout, sample_weights=weights)
    training = make_training(
        X, y, partition, step="auto", blocks=blocks, max_rounds=2000, tolerance=1e-6
    )
    learnt = training.finish()
    repeated = pooled(
        sp.csr_array(np.repeat(X.toarray(), repeats, axis=0)),
        np.repeat(y, repeats, axis=0),
    )
    optimum = reference_optimum(repeated, 1e-10)
    assert training.stop_reason == "tolerance"
    assert repeated.primal(learnt) <= optimum.primal * (1 + 1e-5)

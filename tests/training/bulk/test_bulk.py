"""Rounds of all clients at once are those of the messages between them.

So are their bytes and round trips, ``traffic``, to the byte.
"""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfem import HyFem
from hyfdca.holdings import partition as parts
from hyfdca.holdings.participation import bernoulli, complete, cyclic, random_fraction
from hyfdca.maths.losses import make_loss
from hyfdca.maths.seeds import stream
from hyfdca.training.bulk import dual_ascent
from hyfdca.training.bulk.dual_ascent import BulkDualAscent
from hyfdca.training.bulk.local_sgd import BulkLocalSgd
from hyfdca.training.bulk.stacked import stacked
from tests.support.small_runs import classification, make_training, pooled

N, M, L2, SEED, N_ROUNDS = 60, 12, 0.05, 5, 15
CLOSE = 1e-12
ROUNDED = 4e-12  # a certificate's P is rounded up and its D down, by so much at most

X, Y = classification(N, M, noise=0.5)
SPLITS = {
    "grid": parts.grid(N, M, (3, 2), seed=1),
    "dealt": parts.deal_nonzeros(X, (2, 3), seed=1),
    "rows": parts.horizontal(N, M, 4, seed=0),
    "columns": parts.vertical(N, M, 3, seed=0),
    "overlapping": parts.from_holdings(
        N,
        M,
        [
            (np.arange(40), np.arange(8)),
            (np.arange(20, 60), np.arange(4, 12)),
            (np.arange(60), np.arange(12)),  # all that the others lack
        ],
    ),
    "one": parts.horizontal(N, M, 1),
    "empty client": parts.from_holdings(
        N, M, [(range(N), range(6)), ([], []), (range(N), range(6, M))]
    ),
}
DUAL = {
    "paper": Hyfdca(step="paper", local_steps=3),
    "drawn": Hyfdca(step="paper", local_steps=3, refresh="drawn"),
    "as printed": Hyfdca(
        step="paper", iic=0.3, divide_by="all", aggregation="decreasing"
    ),
    "all samples": Hyfdca(step="paper", local_fraction=1.0),
    "safe": Hyfdca(step="safe", local_steps=3),
}
PRIMAL = {
    "fedavg": FedAvg(local_steps=5, rate=0.3),
    "hyfem": HyFem(local_steps=5, rate=0.3),
    "hyfem restarting": HyFem(iic=0.4, rate=0.3, restart=True, matching="proximal"),
}


def presences(n_clients):
    """Return who takes part, in some ways."""
    turns = [[k, (k + 1) % n_clients] for k in range(n_clients)]
    return {
        "complete": complete(n_clients),
        "half": random_fraction(n_clients, 0.5, seed=3),
        "coins": bernoulli(n_clients, 0.4, seed=2),
        "in turn": cyclic(turns),
    }


def check(bulk, algorithm, split, loss, presence):
    """Compare model and history of both, round by round."""
    run = make_training(
        X,
        Y,
        SPLITS[split],
        algorithm=algorithm,
        loss=loss,
        l2=L2,
        participation=presence,
        seed=SEED,
        max_rounds=N_ROUNDS,
        tolerance=0.0,
    )
    problem = pooled(X, Y, loss, L2)
    for report in run.rounds():
        assert bulk.round().traffic == report.traffic
        found, certified = bulk.measure(), report.measurement
        weights = run.release()
        scale = max(1.0, found.primal)  # the printed step may overshoot
        np.testing.assert_allclose(
            bulk.weights(), weights[:, 0], rtol=CLOSE, atol=CLOSE
        )
        assert found.primal == pytest.approx(problem.primal(weights), rel=CLOSE)
        assert -CLOSE <= (certified.primal - found.primal) / scale <= ROUNDED
        assert -CLOSE <= (found.dual - certified.dual) / scale <= ROUNDED
    assert bulk.round_number == N_ROUNDS
    assert np.any(bulk.weights())


@pytest.mark.sampled(9)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("presence", list(presences(2)))
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", DUAL)
def test_dual_ascent_is_that_of_messages(name, split, presence, loss):
    """Weights and losses agree to 1e-12, the certificate up to its rounding."""
    presence = presences(SPLITS[split].n_clients)[presence]
    if presence.is_complete and name == "safe":
        presence = bernoulli(SPLITS[split].n_clients, 0.7, seed=1)  # it needs absence
    blocks = stacked(X, Y[:, 0], SPLITS[split], by="samples")
    bulk = BulkDualAscent(blocks, make_loss(loss), L2, DUAL[name], presence, SEED)
    check(bulk, DUAL[name], split, loss, presence)


@pytest.mark.parametrize("presence", ["half", "coins", "in turn"])
@pytest.mark.parametrize("name", ["paper", "as printed", "safe"])
def test_recalled_margins_are_the_refreshed_ones(name, presence, monkeypatch):
    """They are equal bit for bit: weights of past rounds replace rereading all rows."""
    blocks = stacked(X, Y[:, 0], SPLITS["overlapping"], by="samples")
    present = presences(3)[presence]

    def found(**limits):
        for limit, value in limits.items():
            monkeypatch.setattr(dual_ascent, limit, value)
        bulk = BulkDualAscent(blocks, make_loss("hinge"), L2, DUAL[name], present, SEED)
        rounds = [bulk.round() for _ in range(N_ROUNDS)]
        return bulk.duals, rounds

    refreshed, read = found(_MOST_RECALLED=0)
    recalled, unread = found(_MOST_RECALLED=M, _FIRST_ROUNDS=2)
    np.testing.assert_array_equal(refreshed, recalled)
    assert [own.traffic for own in read] == [own.traffic for own in unread]
    assert not any(own.unread_seconds for own in read)
    assert all(own.unread_seconds for own in unread if len(own.participants))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("presence", list(presences(2)))
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", PRIMAL)
def test_local_steps_are_those_of_messages(name, split, presence, loss):
    """Weights and losses agree to 1e-12, the certificate up to its rounding."""
    presence = presences(SPLITS[split].n_clients)[presence]
    blocks = stacked(X, Y[:, 0], SPLITS[split], by="clients")
    bulk = BulkLocalSgd(blocks, make_loss(loss), L2, PRIMAL[name], presence, SEED)
    check(bulk, PRIMAL[name], split, loss, presence)


@pytest.mark.parametrize("by", ["samples", "clients"])
@pytest.mark.parametrize("split", SPLITS)
def test_stacked_blocks_are_the_table(split, by, seed):
    """Products, combinations and lengths are those of the whole table."""
    blocks = stacked(X, Y[:, 0], SPLITS[split], by=by)
    random = stream(seed, "numbers")
    weights, coefficients = random.normal(size=M), random.normal(size=N)
    table = X.toarray()
    np.testing.assert_allclose(blocks.margins(weights), table @ weights, atol=CLOSE)
    np.testing.assert_allclose(
        blocks.combined(coefficients), table.T @ coefficients, atol=CLOSE
    )
    np.testing.assert_allclose(blocks.squared_norms, (table**2).sum(axis=1), atol=CLOSE)
    for client, part in enumerate(SPLITS[split].split(X)):
        first, last = blocks.client_starts[client : client + 2]
        rows = blocks.client_rows[first:last]
        held = SPLITS[split].holdings[client]
        np.testing.assert_array_equal(blocks.row_samples[rows], held.samples)
        own = blocks.rows[rows].toarray()[:, held.features]
        np.testing.assert_array_equal(own, part.toarray())


def test_numbers_of_columns_are_among_the_clients_own():
    """They stand for the features that the rows have."""
    blocks = stacked(X, Y[:, 0], SPLITS["overlapping"], by="clients")
    client = np.repeat(blocks.row_clients, np.diff(blocks.rows.indptr))
    places = blocks.feature_starts[client] + blocks.client_columns
    np.testing.assert_array_equal(blocks.features[places], blocks.rows.indices)


@pytest.mark.parametrize(
    ("settings", "is_complete", "advice"),
    [
        (Hyfdca(step="line_search"), True, "step='paper' or 'safe'"),
        (Hyfdca(variant="theory"), False, "step='paper' or 'safe'"),
        (Hyfdca(step="safe"), True, "step='paper'"),
        (Hyfdca(step="paper", min_rows=2), False, "min_rows=1"),
        (Hyfdca(step="paper", second_inner_product=True), False, "without the second"),
    ],
)
def test_what_cannot_be_simulated_so_is_refused(settings, is_complete, advice):
    """One sentence says what can be simulated."""
    blocks = stacked(X, Y[:, 0], SPLITS["grid"], by="samples")
    presence = complete(6) if is_complete else random_fraction(6, 0.5, 0)
    with pytest.raises(ValueError, match=advice):
        BulkDualAscent(blocks, make_loss("hinge"), L2, settings, presence)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [(FedAvg(batch=2), "batch=1"), (HyFem(average="cached"), "average='active'")],
)
def test_local_steps_that_cannot_be_simulated_are_refused(settings, advice):
    """One sentence says what can be simulated."""
    blocks = stacked(X, Y[:, 0], SPLITS["grid"], by="clients")
    with pytest.raises(ValueError, match=advice):
        BulkLocalSgd(blocks, make_loss("hinge"), L2, settings, complete(6))


def test_rows_in_the_wrong_order_are_refused():
    """Each method says which order it reads."""
    loss, presence, split = make_loss("hinge"), complete(6), SPLITS["grid"]
    with pytest.raises(ValueError, match="by='samples'"):
        BulkDualAscent(
            stacked(X, Y[:, 0], split, "clients"), loss, L2, DUAL["paper"], presence
        )
    with pytest.raises(ValueError, match="by='clients'"):
        BulkLocalSgd(
            stacked(X, Y[:, 0], split, "samples"), loss, L2, FedAvg(), presence
        )

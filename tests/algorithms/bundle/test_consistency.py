"""Parts that can be read but do not belong together end a run with a name."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.algorithms.bundle.consistency import PlaneConsistency
from hyfdca.errors import StudyError
from hyfdca.protocol.server_session import BadReplyError
from tests.support.small_runs import (
    bundle_run,
    coarse_grids,
    partition_of,
    table_for,
)
from tests.support.thoroughness import examples

LIAR = 1
MOST_ROUNDS = 9  # until a lie is found: the run could have a thousand


def a_run(loss, partition, profile, scale=1.0, seed=0, **given):
    """Return a run that is confirmed, as studies are, and does not end by itself."""
    X, y = table_for(loss, 80, 10, seed)
    parts = partition_of(partition, 80, 10)
    given = {"l2": 0.01, "max_rounds": 30, **given}
    run = bundle_run(X * scale, y, parts, loss=loss, profile=profile, **given)
    run.runner.confirms = True
    return run


def with_margins(change):
    """Return a function that makes a client send other margins."""

    def lie(party):
        honest = party.products
        party.products = lambda rows, weights: change(honest(rows, weights))

    return lie


def with_slopes(change):
    """Return a function that makes a client send other slopes."""

    def lie(party):
        honest = party.sealing.sealed_features

        def sealed(kind, vector, grid):
            return honest(kind, change(vector) if kind == "slopes" else vector, grid)

        party.sealing.sealed_features = sealed

    return lie


def noisy(vector):
    """Return numbers that have little to do with those of the table."""
    random = np.random.Generator(np.random.PCG64(vector.size))
    return vector * random.uniform(-1.0, 1.0, vector.shape)


MULTIPLES = {
    "margins of 0": with_margins(lambda z: 0.0 * z),
    "margins times 3": with_margins(lambda z: 3.0 * z),
    "negated margins": with_margins(lambda z: -z),
    "negated slopes": with_slopes(lambda s: -s),
}
OTHERS = {
    "slopes of 0": with_slopes(lambda s: 0.0 * s),
    "noisy slopes": with_slopes(noisy),
    "noisy margins": with_margins(noisy),
}
SHIFTED = {
    "shifted slopes": with_slopes(lambda s: s + 1.0),
    "shifted margins": with_margins(lambda z: z + 0.7),
    "noisy margins": with_margins(noisy),
}
TABLES = [
    ("logistic", "2x2"),
    ("hinge", "overlapping"),
    ("half_squared", "overlapping"),
    ("absolute", "2x2"),
]


def named(run, lie):
    """Return who is named after a lie of one client, and the sentence."""
    lie(run.parties[LIAR])
    with pytest.raises(BadReplyError, match="contradict each other") as raised:
        run.finish()
    assert raised.value.is_final
    assert run.runner.progress.n_rounds <= MOST_ROUNDS
    return list(raised.value.reasons)


@pytest.mark.parametrize("lie", MULTIPLES)
@pytest.mark.parametrize(("loss", "partition"), TABLES)
def test_the_open_profile_names_who_sends_multiples(loss, partition, lie):
    """Its slopes show that the difference is a multiple of its own parts."""
    run = a_run(loss, partition, "open")
    assert named(run, MULTIPLES[lie]) in ([LIAR], run.federation.everyone)


def test_the_open_profile_names_one_client_alone():
    """If a run continues for some rounds, there is no doubt who lies."""
    run = a_run("half_squared", "2x2", "open")
    assert named(run, MULTIPLES["margins of 0"]) == [LIAR]
    run = a_run("logistic", "overlapping", "open")
    assert named(run, MULTIPLES["negated slopes"]) == [LIAR]


@pytest.mark.parametrize("lie", {**MULTIPLES, **OTHERS})
@pytest.mark.parametrize(("loss", "partition"), TABLES)
def test_the_sealed_profile_says_what_does_not_fit(loss, partition, lie):
    """The server sees sums alone, so everybody may be the cause."""
    run = a_run(loss, partition, "sealed")
    assert named(run, {**MULTIPLES, **OTHERS}[lie]) == run.federation.everyone


@pytest.mark.parametrize("lie", OTHERS)
def test_what_is_no_multiple_accuses_nobody_alone(lie):
    """It accuses neither the liar, whom data does not reveal, nor an honest client."""
    run = a_run("half_squared", "2x2", "open")
    assert named(run, OTHERS[lie]) == run.federation.everyone


@pytest.mark.parametrize("lie", SHIFTED)
@pytest.mark.parametrize(
    ("loss", "partition"),
    [("half_squared", "1x3"), ("absolute", "2x2"), ("logistic", "overlapping")],
)
def test_nobody_else_is_named_where_weights_hardly_move(loss, partition, lie):
    """Then all parts are nearly the same in every round, and nearly multiples."""
    for seed in range(examples(3)):
        run = a_run(loss, partition, "open", seed=seed, l2=1.0)
        SHIFTED[lie](run.parties[LIAR])
        assert accused_by(run) in ([], [LIAR], run.federation.everyone)


def accused_by(run):
    """Return who is named when the run ends; some ends name nobody."""
    try:
        run.finish()
    except BadReplyError as error:
        return list(error.reasons)
    except StudyError:
        pass
    return []


def negated_products(party):
    """Have a client send products of slopes that no slopes have."""
    honest = party.sealing.total_part

    def part(kind, values, grid, *rest):
        is_gram = values.shape[0] > 1 and kind == "totals"
        return honest(kind, -9.0 * values if is_gram else values, grid, *rest)

    party.sealing.total_part = part


@pytest.mark.parametrize("loss", ["logistic", "half_squared"])
def test_products_of_no_vectors_end_a_run_with_names(loss):
    """A length of weights that is negative is nobody's table, whoever sent what."""
    run = a_run(loss, "2x2", "sealed")
    negated_products(run.parties[LIAR])
    with pytest.raises(BadReplyError, match="not those of any vectors") as raised:
        run.finish()
    assert raised.value.is_final
    assert list(raised.value.reasons) == run.federation.everyone


def test_slopes_of_0_are_those_of_a_table_without_these_columns():
    """Nobody else holds them: the model is right for the table of all others."""
    lying, without = (a_run("logistic", "1x3", "sealed", tolerance=1e-6) for _ in "ab")
    OTHERS["slopes of 0"](lying.parties[LIAR])
    own = without.layout.features.items[LIAR]
    for block in without.blocks[LIAR : LIAR + 1]:
        block.X.data[:] = 0.0
    weights = lying.finish()
    np.testing.assert_allclose(weights, without.again().finish(), atol=1e-6)
    assert not weights[own].any()


HONEST = [
    ("logistic", "2x2", {}),
    ("hinge", "overlapping", {}),
    ("squared_hinge", "4x1", {"l2": 1e-5}),
    ("half_squared", "4x1", {"scale": 100.0, "offset": 0.7}),
    ("squared", "overlapping", {"free_intercept": True, "l2": 1e-4}),
    ("huber", "2x2", {"free_intercept": True}),
    ("absolute", "1x3", {"labelled": [True, False, True]}),
    ("pinball", "overlapping", {"labelled": [True, False, True, True], "l2": 1e-4}),
    ("epsilon_insensitive", "1x3", {"scale": 1e-3}),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("lost_bits", [0, 16])
@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize(("loss", "partition", "given"), HONEST)
def test_honest_runs_are_never_in_doubt(loss, partition, given, profile, lost_bits):
    """No round is in doubt, even if the gap is that of rounding at the end."""
    for seed in range(examples(2)):
        run = a_run(loss, partition, profile, seed=seed, **given)
        with coarse_grids(lost_bits):
            for _ in run.rounds():
                assert not run.server.consistency.differences
        assert run.stop_reason in {"round limit", "diverged"}


def test_what_was_measured_is_compared(monkeypatch):
    """Otherwise nothing would be found, and nothing could be wrong."""
    heard = []
    honest = PlaneConsistency.expect

    def expect(self, *given):
        honest(self, *given)
        heard.append(self._trial)

    monkeypatch.setattr(PlaneConsistency, "expect", expect)
    run = a_run("logistic", "2x2", "sealed", max_rounds=5)
    run.finish()
    assert len(heard) == 5
    assert None not in heard


def test_a_round_that_is_repeated_is_not_compared_with_the_lost_one():
    """Its planes touch at the trial point of the round that was restored."""
    run = a_run("logistic", "2x2", "sealed")
    rounds = run.rounds()
    for _ in range(3):
        next(rounds)
    own, before = run.server.consistency, run.server.consistency.state()
    assert own._trial is not None
    assert before.coarsest > 0
    run.server.restore(run.server.state())
    assert own._trial is None
    assert own.state() == before

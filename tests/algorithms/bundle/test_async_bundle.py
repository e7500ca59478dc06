"""The bundle method where clients come and go: visits, and waiting."""

import numpy as np
import pytest

from hyfdca.holdings.participation import (
    Participation,
    bernoulli,
    cyclic,
    random_fraction,
    schedule,
)
from hyfdca.maths.losses import LOSSES
from hyfdca.maths.objective import reference_optimum
from tests.protocol.wires import listen
from tests.support.small_runs import (
    PROFILES,
    coarse_grids,
    make_training,
    measure,
    partition_of,
    pooled,
    run_round,
    searched_primals,
    set_up,
    table_for,
)

EVERYBODY = range(4)

ABSENCES = {
    "half of them": lambda seed: random_fraction(4, 0.5, seed),
    "coins": lambda seed: bernoulli(4, 0.6, seed),
    "in turn": lambda _: cyclic([[0, 1], [2], [3, 0]]),
    "one at a time": lambda _: cyclic([[3], [1], [0], [2]]),
    "rounds without anybody": lambda _: cyclic([[0, 1, 2, 3], [], [1], []]),
}


def bundle_run(loss="hinge", partition="2x2", seed=0, **given):
    """Return a run of four clients with 60 samples, and its problem in one place."""
    X, y = table_for(loss, seed=seed)
    run = make_training(
        X, y, partition_of(partition), algorithm="bundle", loss=loss, l2=0.02, **given
    )
    return run, pooled(X, y, loss, 0.02)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "partition",
    [
        "2x2",
        "overlapping",
        pytest.param("4x1", marks=pytest.mark.slow),
        pytest.param("1x4", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("absence", ABSENCES)
def test_absent_clients_delay_but_do_not_hinder(absence, partition, profile, seed):
    """The gap is reached, by visits or by waiting, and the certificate is true."""
    run, objective = bundle_run(
        partition=partition,
        seed=seed,
        profile=profile,
        participation=ABSENCES[absence](seed),
        tolerance=1e-2,
        max_rounds=1000,
    )
    weights = run.finish()
    assert run.stop_reason == "tolerance"
    assert run.measurement.primal == pytest.approx(objective.primal(weights), rel=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("labelled", [None, [True, False, False, True]])
@pytest.mark.parametrize("loss", LOSSES)
def test_visits_solve_every_loss(loss, labelled, seed):
    """Whether or not all holders have labels; P* is inside the certificate."""
    run, objective = bundle_run(
        loss,
        seed=seed,
        profile="open",
        labelled=labelled,
        participation=cyclic([[0, 1, 2], [1, 2, 3], [2, 3, 0], [3, 0, 1]]),
        tolerance=1e-2,
        max_rounds=1000,
    )
    weights = run.finish()
    optimum = reference_optimum(objective, 1e-9)
    assert run.stop_reason == "tolerance"
    assert run.measurement.primal >= objective.primal(weights) * (1 - 1e-12)
    assert run.measurement.dual <= optimum.primal


@pytest.mark.sampled(2)
@pytest.mark.parametrize("absence", ABSENCES)
def test_certificates_of_visits_only_improve(absence, seed):
    """P never rises except by rounding, and D never falls, with any clients absent."""
    run, objective = bundle_run(
        seed=seed,
        profile="open",
        participation=ABSENCES[absence](seed),
        max_rounds=80,
        sub_groups=2,
        min_group_size=10,
    )
    run.finish()
    primals = np.array([record["primal"] for record in run.history])
    duals = np.array([record["dual"] for record in run.history])
    assert np.all(np.diff(primals) <= 1e-9 * primals[:-1])
    assert np.all(np.diff(duals) >= 0.0)
    assert duals[-1] <= reference_optimum(objective, 1e-9).primal


def _leaves(client, first, last=None):
    """Return everybody except one client that is away for some rounds or for good."""

    def of_round(number):
        is_away = number >= first and (last is None or number < last)
        return [c for c in EVERYBODY if not (is_away and c == client)]

    return Participation(of_round)


def test_a_client_that_never_returns_freezes_only_its_buckets(seed):
    """The bound keeps rising with the others' planes, and stays true."""
    run, objective = bundle_run(
        partition="4x1",
        seed=seed,
        profile="open",
        participation=_leaves(3, 4),
        max_rounds=60,
    )
    run.finish()
    duals = [record["dual"] for record in run.history]
    optimum = reference_optimum(objective, 1e-9)
    assert duals[-1] > duals[3]
    assert duals[-1] <= optimum.primal
    # P needs the one who left, and is as it was measured last.
    assert run.history[-1]["primal"] == run.history[4]["primal"]
    assert run.measurement.primal >= objective.primal(run.release()) * (1 - 1e-12)


def test_the_others_learn_while_one_is_away(seed):
    """With its last planes for those it holds, the bound gets near the optimum."""
    run, objective = bundle_run(
        partition="4x1",
        seed=seed,
        profile="open",
        participation=_leaves(3, 20),
        max_rounds=120,
    )
    run.finish()
    optimum = reference_optimum(objective, 1e-9).primal
    # Planes of three quarters of the samples are new, those of the rest 100 rounds old.
    assert run.measurement.dual >= 0.95 * optimum


@pytest.mark.parametrize("profile", PROFILES)
def test_a_client_that_returns_is_brought_up_to_date(profile, seed):
    """After a long absence the run resumes and reaches its tolerance."""
    run, objective = bundle_run(
        seed=seed,
        profile=profile,
        participation=_leaves(1, 3, 40),
        tolerance=1e-3,
        max_rounds=400,
    )
    weights = run.finish()
    assert run.stop_reason == "tolerance"
    assert len(run.history) >= 40
    assert run.measurement.primal == pytest.approx(objective.primal(weights), rel=1e-9)


@pytest.mark.parametrize("phase", ["planes", "trial", "search"])
def test_the_sealed_profile_waits_in_every_exchange(phase):
    """Who was asked is not asked again while the others are awaited."""
    run, _ = bundle_run(profile="sealed", participation=schedule([[0, 1], [2], [1, 3]]))
    set_up(run)
    heard, _ = listen(run)
    for participants in ([0, 1], [2], [1, 3], [0, 1], [2], [3], [0], [2], [1, 3]) * 3:
        run_round(run, participants)
    asked = [said.client for said in heard if said.phase == phase]
    assert len(asked) >= 4
    for first in range(0, len(asked) - 3, 4):
        assert sorted(asked[first : first + 4]) == [0, 1, 2, 3]


def test_totals_are_opened_by_somebody_present():
    """Nobody waits for the first client to open what another could."""
    run, _ = bundle_run(profile="sealed", participation=cyclic([[3], [0, 1, 2]]))
    set_up(run)
    heard, _ = listen(run)
    for participants in ([3], [0, 1, 2], [3]):
        run_round(run, participants)
    assert [said.client for said in heard if said.phase == "open planes"] == [3]


@pytest.mark.parametrize("participants", [[0], [1, 2], [0, 1, 2, 3]])
@pytest.mark.parametrize("profile", PROFILES)
def test_only_those_present_are_asked(profile, participants):
    """A round speaks to its participants and to nobody else."""
    run, _ = bundle_run(profile=profile, participation=cyclic([participants]))
    set_up(run)
    heard, _ = listen(run)
    for _ in range(5):
        run_round(run, participants)
    assert {said.client for said in heard} == set(participants)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_round_without_anybody_says_nothing(profile):
    """A round without participants does not change the certificate."""
    run, _ = bundle_run(profile=profile, participation=cyclic([[0, 1, 2, 3], []]))
    set_up(run)
    run_round(run, EVERYBODY)
    before = measure(run)
    heard, _ = listen(run)
    run_round(run, [])
    assert heard == []
    assert measure(run) == before


def test_waiting_changes_no_number(seed):
    """Sealed, a run with absences is the complete run, bit for bit, with waits."""
    results = []
    for participation in (None, cyclic([[0, 1], [2], [3, 0]]), cyclic([EVERYBODY])):
        run, _ = bundle_run(
            seed=seed,
            profile="sealed",
            participation=participation,
            tolerance=1e-4,
            max_rounds=500,
        )
        run.finish()
        assert run.stop_reason == "tolerance"
        results.append(searched_primals(run))
    complete, waiting, always_there = results
    assert always_there == complete
    # A bound is known before the search: waiting may end one search earlier.
    assert waiting in (complete, complete[:-1])


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_absences_give_the_same_history(profile, seed):
    """The histories are the same bit for bit, except for seconds."""
    histories = []
    for _ in range(2):
        run, _ = bundle_run(
            seed=seed,
            profile=profile,
            participation=random_fraction(4, 0.5, seed),
            max_rounds=25,
        )
        weights = run.finish()
        records = [{**record, "seconds": 0.0} for record in run.history]
        histories.append((records, weights.tobytes()))
    assert histories[0] == histories[1]


def test_weights_released_are_the_certified_ones_at_any_time(seed):
    """Even if some clients have no new point yet, all give the best point's weights."""
    run, objective = bundle_run(
        seed=seed,
        profile="open",
        participation=random_fraction(4, 0.5, seed),
        max_rounds=40,
    )
    for report in run.rounds():
        primal = objective.primal(run.release())
        assert report.measurement.primal == pytest.approx(primal, rel=1e-9)


@pytest.mark.parametrize("labelled", [None, [True, True, False, True]])
@pytest.mark.parametrize("lost_bits", [0, 38])
def test_bounds_of_visits_cover_what_grids_round_away(lost_bits, labelled, seed):
    """D stays below P* on coarse grids; it knows the coarsest a slope came on."""
    run, objective = bundle_run(
        "logistic",
        partition="overlapping",
        seed=seed,
        profile="open",
        labelled=labelled,
        participation=cyclic([[0, 1, 2], [1, 2, 3], [2, 3, 0], [3, 0, 1]]),
        max_rounds=60,
    )
    with coarse_grids(lost_bits):
        run.finish()
    optimum = reference_optimum(objective, 1e-12)
    step = 2.0**-run.federation.grids.shares.fraction_bits
    assert run.server.model.coarsest_step == step
    assert run.measurement.dual <= optimum.primal
    assert run.measurement.primal >= objective.primal(run.release()) * (1 - 1e-12)

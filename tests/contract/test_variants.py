"""Settings that take another way through an algorithm: the contract holds there too."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.algorithms.registry import make_algorithm
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.grids import VectorGrid
from hyfdca.federation.server import Federation
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete, cyclic
from hyfdca.holdings.partition import from_holdings
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.protocol.messages import TooLarge
from tests.contract.cases import SHAPES, Case, objective, table
from tests.contract.test_algorithms import numbers, put_into, sessions
from tests.support.small_runs import classification, make_training, partition_of

pytestmark = pytest.mark.slow

# Each with the split on which it goes another way than the default
VARIANTS = {
    "fedavg batch": ("fedavg", "grid", {"batch": 4, "local_steps": 3}),
    "hyfem cached": ("hyfem", "grid", {"average": "cached", "matching": "proximal"}),
    "hyfem restart": ("hyfem", "grid", {"restart": True}),
    "d3ca whole": ("d3ca", "grid", {"conjugate": "whole", "average": "1/Q"}),
    "cocoa rows": ("cocoa", "horizontal", {"combine": "average"}),
    "feddcd accelerated": ("feddcd", "horizontal", {"accelerated": True}),
    "fedbcd batch": ("fedbcd", "vertical", {"batch": 10}),
    "fedbcd turns": ("fedbcd", "vertical", {"order": "sequential", "batch": 10}),
    "fedbcd frozen": ("fedbcd", "vertical", {"slopes": "frozen", "proximal": 0.1}),
    "tdcd batch": ("tdcd", "grid", {"batch": 10}),
    "disco short": ("disco", "grid", {"cg_steps": 2}),
}


def run_of(variant, encryption=None, **given):
    """Return a run of a variant; clients take turns where it may miss some."""
    name, shape, settings = VARIANTS[variant]
    case = Case(name, shape, "complete" if name == "disco" else "half")
    if name != "disco":
        given = {"participation": cyclic([[0, 1], [2], [1, 2]]), **given}
    return case.run(encryption, algorithm=make_algorithm(name, settings), **given)


@pytest.mark.parametrize("variant", VARIANTS)
def test_resumed_equals_undisturbed(variant):
    """A run whose parties are all made again in the middle ends at the same bits."""
    undisturbed = run_of(variant)
    weights = undisturbed.finish()
    first, again = run_of(variant), run_of(variant)
    for _ in first.rounds():
        if len(first.history) >= 4:
            break
    put_into(again, first)
    assert again.finish().tobytes() == weights.tobytes()
    assert numbers(again) == numbers(undisturbed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scheme", ["stream", "bfv"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_encrypted_equals_unencrypted(variant, scheme):
    """A scheme changes bytes and time, and no number."""
    plain, sealed = run_of(variant), run_of(variant, Encryption(scheme))
    assert sealed.finish().tobytes() == plain.finish().tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_certificate_is_never_optimistic(variant):
    """P is not below the model's own loss, D not above the optimum."""
    optimum = reference_optimum(objective(), 1e-10).primal
    run = run_of(variant)
    for report in run.rounds():
        assert report.measurement.primal >= objective().primal(run.release()) - 1e-12
        assert report.measurement.dual <= optimum + 1e-12


@pytest.mark.sampled(2)
@pytest.mark.parametrize("variant", VARIANTS)
def test_coarser_grids_in_the_middle_of_a_run_change_little(variant, monkeypatch):
    """Every exchange asks again; each phase coarsens its grids in between, once.

    With everybody present, since margins that are sent again are less old.
    """
    n_clients = partition_of(SHAPES[VARIANTS[variant][1]]).n_clients
    present = {"participation": complete(n_clients)}
    weights, gather = run_of(variant, **present).finish(), Federation.gather
    seen = set()

    def coarsened(self, phase, clients, grids, *rest):
        asked = list(clients)
        yield from gather(self, phase, asked, grids, *rest)
        for grid in dict.fromkeys(grids) if phase not in seen else ():
            VectorGrid.coarsen(grid)
        seen.add(phase)
        return (yield from gather(self, phase, asked, grids, *rest))

    monkeypatch.setattr(Federation, "gather", coarsened)
    assert run_of(variant, **present).finish() == pytest.approx(weights, abs=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("variant", VARIANTS)
def test_several_outputs_with_weights_are_trained_apart(variant):
    """Two classes with sample weights end as each of them does alone."""
    name, shape, settings = VARIANTS[variant]
    X, y = table()
    random = np.random.Generator(np.random.PCG64(1))
    labels = np.hstack([y, -y])
    weights = random.integers(0, 3, size=labels.shape).astype(float)

    def trained(columns):
        partition = partition_of(SHAPES[shape], *X.shape)
        layout, own = layout_of(partition), labels[:, columns]
        blocks = split_blocks(X, own, partition, layout, None, weights[:, columns])
        return make_training(
            X,
            own,
            partition,
            loss="logistic",
            l2=0.05,
            max_rounds=4,
            algorithm=make_algorithm(name, settings),
            blocks=blocks,
        ).finish()

    together = trained([0, 1])
    for column in (0, 1):
        assert together[:, [column]] == pytest.approx(trained([column]), abs=1e-6)


# Clients with nothing

STEADY = {"tdcd": {"local_steps": 1}}  # with more, a step depends on the holders


@pytest.mark.parametrize("algorithm", ["fedavg", "hyfem", "tdcd", "block_admm"])
def test_a_client_without_rows_changes_nothing(algorithm):
    """Who has no row has nothing to say, and is not in a mean."""
    X, y = classification(24, 4)
    rows, columns = np.arange(24), np.arange(4)
    two = [(rows[:12], columns), (rows[12:], columns)]
    three = [*two, (rows[:0], columns)]
    found = [
        make_training(
            X,
            y,
            from_holdings(24, 4, held),
            loss="logistic",
            l2=0.1,
            algorithm=make_algorithm(algorithm, STEADY.get(algorithm, {})),
            max_rounds=40,
        ).finish()
        for held in (two, three)
    ]
    tolerance = 2e-2 if algorithm == "block_admm" else 1e-9  # it averages over holders
    assert found[1] == pytest.approx(found[0], abs=tolerance)


def test_tdcd_is_not_biased_where_clients_are_absent():
    """Who is absent is made up for, feature by feature."""
    run = Case("tdcd", "grid", "half").run(
        algorithm=make_algorithm("tdcd", {"local_steps": 1, "rate": 3.0}),
        max_rounds=1_500,
        measure_every=1_500,
    )
    best = reference_optimum(objective(), 1e-10).primal
    assert objective().primal(run.finish()) - best < 1e-3


def test_a_transient_does_not_spoil_later_measurements():
    """Weights that were huge once are measured finely again when they are not."""
    X, y = classification(30, 4)
    run = make_training(
        X,
        y,
        partition_of("2x2", 30, 4),
        loss="half_squared",
        l2=0.1,
        max_rounds=1_000,
        algorithm="tdcd",
        rate=20.0,
        rate_offset=1e-9,
        local_steps=1,
        measure_every=5,
    )
    weights = run.finish()
    problem = Objective(X, y, run.settings.loss, 0.1)
    highest = np.nanmax([record["primal"] for record in run.history])
    assert highest > 1e12 * problem.primal(weights)
    assert run.measurement.primal == pytest.approx(problem.primal(weights), rel=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_client_that_always_needs_a_coarser_grid_ends_the_run(variant):
    """It has diverged; the model last measured is still released."""
    name = VARIANTS[variant][0]
    for phase in [
        p for p, e in make_algorithm(name, {}).phases.items() if TooLarge in e.reply
    ]:
        if phase in ("norms", "evaluate", "touch", "touch forwarded", "evaluate norms"):
            continue
        run = run_of(variant, max_rounds=6)
        for _ in run.rounds():
            break
        for session in sessions(run):
            session.handlers = {**session.handlers, phase: lambda _: TooLarge()}
        weights = run.finish()
        assert run.stop_reason in ("diverged", "round limit")  # if it is never asked
        assert np.all(np.isfinite(weights))

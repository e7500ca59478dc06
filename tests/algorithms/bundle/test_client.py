"""What travels in the bundle method, and what happens to what should not."""

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.algorithms.bundle import messages as b
from hyfdca.crypto.schemes.fixedpoint import Grid
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.server import Federation
from hyfdca.holdings.participation import cyclic
from hyfdca.protocol import messages as m
from tests.protocol.wires import LACKING, four_clients, listen, numbers_of
from tests.support.small_runs import (
    classification,
    make_training,
    partition_of,
    pooled,
    run_round,
    set_up,
)


@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_no_dual_travels_where_all_have_labels(profile):
    """Planes go up without duals, and none are forwarded."""
    run = four_clients(profile, max_rounds=3)
    heard, wires = listen(run)
    run.finish()
    planes = [said for said in heard if said.phase == "planes"]
    assert len(planes) == 3 * 4
    assert all(not said.request.forwards for said in planes)
    for said in planes:
        assert wires[said.client].read(said, b.Planes).duals is None
    assert "forward planes" not in {said.phase for said in heard}


@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_duals_travel_to_those_without_labels_alone(profile):
    """They get those of their own samples; nobody asks them for planes."""
    run = four_clients(profile, max_rounds=3, labelled=LACKING)
    heard, _ = listen(run)
    run.finish()
    askers = {said.client for said in heard if said.phase == "planes"}
    forwarded = [said for said in heard if said.phase == "forward planes"]
    assert askers == {0, 2}
    assert {said.client for said in forwarded} == {1, 3}
    for said in forwarded:
        [duals] = said.request.duals
        n_held = len(run.layout.samples.items[said.client])
        assert len(duals.payload) == 8 * n_held * said.request.n_planes


@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_the_exchanges_of_a_round(profile):
    """The phases of the table in ``bundle.py``, in that order."""
    run = four_clients(profile, max_rounds=1, labelled=LACKING)
    heard, _ = listen(set_up(run))
    run_round(run)
    sealed = ["gram", "open planes"] if profile == "sealed" else []
    expected = ["planes", "forward planes", *sealed, "trial", "search", "open search"]
    assert list(dict.fromkeys(said.phase for said in heard)) == expected


@pytest.mark.parametrize("labelled", [None, LACKING])
def test_the_sealed_profile_tells_no_weights(labelled):
    """The server says how much of each plane to take; it has no weights to tell."""
    run = four_clients("sealed", max_rounds=3, labelled=labelled)
    heard, _ = listen(run)
    run.finish()
    trials = [said.request for said in heard if said.phase == "trial"]
    assert len(trials) == 3 * 4
    assert all(trial.weights is None for trial in trials)
    assert run.server.model.slopes is None


def test_the_open_profile_tells_weights():
    """Each client those of its own features, and no weights of planes."""
    run = four_clients("open", max_rounds=3)
    heard, _ = listen(run)
    run.finish()
    for said in heard:
        if said.phase == "trial":
            n_held = len(run.layout.features.items[said.client])
            assert len(said.request.weights) == 8 * n_held
            assert said.request.plane_weights is None


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("labelled", [None, LACKING])
@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_the_server_reads_nothing_that_is_sealed(profile, labelled, is_complete):
    """Sealed for all but clients, the numbers of a run are the same bit for bit."""
    given = {
        "profile": profile,
        "labelled": labelled,
        "participation": None if is_complete else cyclic([[0, 1, 2], [1, 2, 3]]),
        "max_rounds": 6,
    }
    plain = numbers_of(four_clients(**given))
    run = four_clients(**given, encryption=Encryption("stream"))
    heard, wires = listen(run)
    assert numbers_of(run) == plain
    # Margins, duals and totals did travel sealed.
    said = next(said for said in heard if said.phase == "trial")
    part = wires[said.client].read(said, m.Part).vector
    words = np.frombuffer(part.payload[24:], np.int64)
    margins = words * 2.0**-part.fraction_bits
    assert np.abs(margins).max() > 10 * np.abs(run.clients[said.client].margins).max()


@pytest.mark.parametrize("labelled", [None, LACKING])
def test_candidates_start_from_the_duals_of_the_trial_point(labelled):
    """The mixtures that clients receive give, over all clients, the last weights."""
    run = four_clients("open", n_features=80, labelled=labelled, max_rounds=4)
    heard, _ = listen(run)
    run.finish()
    duals, weights = np.zeros((60, 1)), np.zeros((80, 1))
    n_asked = {"planes": sum(run.layout.labelled), "trial": 4}
    last_planes = [said for said in heard if said.phase == "planes"]
    for said in last_planes[-n_asked["planes"] :]:
        half = run.clients[said.client]
        samples = run.layout.samples.items[said.client]
        duals[samples] = half._present_duals(said.request.mixture)
    trials = [said for said in heard if said.phase == "trial"]
    for said in trials[-2 * n_asked["trial"] : -n_asked["trial"]]:
        received = np.frombuffer(said.request.weights).reshape(-1, 1)
        weights[run.layout.features.items[said.client]] = received
    X, y = classification(60, 80, noise=0.5)
    expected = pooled(X, y, l2=0.01).weights_from(duals)
    assert np.abs(weights).max() > 0.1
    assert expected == pytest.approx(weights, rel=1e-9, abs=1e-9)


def test_candidates_of_rows_of_zeros_are_at_the_end_of_the_domain():
    """Without curvature the best dual of a hinge loss of 1 is the label."""
    X, y = classification(20, 60)
    X = sp.csr_array(X.toarray() * (np.arange(20) % 2)[:, None])
    run = set_up(make_training(X, y, partition_of("1x1", 20, 60), algorithm="bundle"))
    given = (slice(0, 20), np.zeros((20, 1)), b.Candidate(0.5, 5.0))
    candidate = run.clients[0]._candidate(*given)
    assert np.array_equal(candidate[::2], y[::2])
    assert np.all(np.abs(candidate[1::2]) < 1.0)


_fit_margins = Federation.fit_margins


def make_finer(grid):
    """Make a grid 16 bits finer than its vectors need."""
    usual = grid.grid
    grid.use(Grid(usual.fraction_bits + 16, usual.limit_bits))


def too_fine(of_visits):
    """Return what fits grids of margins, those of visits or the others too finely."""

    def fit(federation, grid, squared_norms):
        _fit_margins(federation, grid, squared_norms)
        if (grid is not federation.grids.margins) == of_visits:
            make_finer(grid)

    return fit


def grid_of(run, name):
    """Return a grid of the federation, or one of planes."""
    every = {**vars(run.federation.grids), **vars(run.server.grids)}
    return every[name]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("labelled", [None, LACKING])
@pytest.mark.parametrize(
    "n_features", [8, pytest.param(80, marks=pytest.mark.slow, id="wide")]
)
@pytest.mark.parametrize(
    ("grid", "profile", "phase"),
    [
        ("shares", "open", "planes"),
        ("shares", "sealed", "planes"),
        ("margins", "open", "trial"),
        ("margins", "sealed", "trial"),
        ("offsets", "open", "planes"),
        ("gram", "sealed", "gram"),
    ],
)
def test_being_asked_again_moves_nobody_twice(
    grid, profile, phase, n_features, labelled, monkeypatch
):
    """Where a value does not fit, the same is said again on a coarser grid."""
    given = {
        "profile": profile,
        "n_features": n_features,
        "labelled": labelled,
        "tolerance": 1e-4,
    }
    undisturbed = four_clients(**given)
    weights = undisturbed.finish()
    run = four_clients(**given)
    heard, _ = listen(run)
    # The grid of Gram entries is chosen again each round, with room for larger ones.
    monkeypatch.setattr("hyfdca.algorithms.bundle.collecting._ROOM", 1e-9)
    monkeypatch.setattr(Federation, "fit_margins", too_fine(of_visits=False))
    for report in run.rounds():
        if report.round_number == 1:
            make_finer(grid_of(run, grid))
    asked = [said for said in heard if said.phase == phase]
    n_asked = 4 if labelled is None or phase != "planes" else 2
    assert len(asked) > n_asked * len(run.history)
    assert run.stop_reason == "tolerance"
    # Roundings differ, so the paths differ a little, and more the longer they are. A
    # client that moved twice would be somewhere else.
    assert len(run.history) == len(undisturbed.history)
    assert run.release() == pytest.approx(weights, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    ("labelled", "phases"),
    [(None, {"visit", "visit planes"}), (LACKING, {"visit", "forward visit"})],
)
def test_being_asked_again_on_a_visit_moves_nobody_twice(labelled, phases, monkeypatch):
    """A measurement that has been waiting is not disturbed either."""
    given = {
        "profile": "open",
        "participation": cyclic([[0, 1, 2], [1, 2, 3], [0, 3]]),
        "labelled": labelled,
        "max_rounds": 30,
    }
    undisturbed = four_clients(**given)
    weights = undisturbed.finish()
    run = four_clients(**given)
    heard, _ = listen(run)
    monkeypatch.setattr(Federation, "fit_margins", too_fine(of_visits=True))
    for report in run.rounds():
        if report.round_number == 4:
            make_finer(run.federation.grids.shares)
    assert phases <= {said.phase for said in heard if b"too large" in said.reply}
    assert run.release() == pytest.approx(weights, rel=1e-6, abs=1e-6)

"""What travels in the bundle method, and what happens to what should not."""

import numpy as np
import pytest
import scipy.sparse as sp
from msgspec.structs import replace

from hyfdca.algorithms.bundle import BundleSettings
from hyfdca.algorithms.coordinator import Coordinator
from hyfdca.crypto.fixedpoint import Grid
from hyfdca.participation import cyclic
from hyfdca.protocol import messages as m
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices, pack_reals
from tests.small_runs import (
    classification,
    make_training,
    partition_of,
    pooled,
    run_round,
    set_up,
)
from tests.wires import ToySealer, listen

LACKING = [True, False, True, False]  # labels, of the four clients of a 2x2 grid


def bundle_run(profile="sealed", n_features=8, **given):
    """Return a run of four clients with 60 samples."""
    X, y = classification(60, n_features, noise=0.5)
    partition = partition_of("2x2", 60, n_features)
    return make_training(
        X, y, partition, algorithm="bundle", profile=profile, l2=0.01, **given
    )


def numbers_of(run):
    """Return what a finished run found, but for the time it took."""
    weights = run.finish()
    records = [{**record, "seconds": 0.0} for record in run.history]
    return records, weights.tobytes()


# What travels


@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_no_dual_travels_where_all_have_labels(profile):
    """Planes go up without duals, and nobody has to adopt any."""
    run = bundle_run(profile, max_rounds=3)
    heard, wires = listen(run)
    run.finish()
    planes = [said for said in heard if said.phase == "planes"]
    assert len(planes) == 3 * 4
    assert all(not said.request.is_lent for said in planes)
    for said in planes:
        assert wires[said.client].read(said, m.Planes).duals is None
    assert "adopt planes" not in {said.phase for said in heard}


@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_duals_travel_to_those_without_labels_alone(profile):
    """They get those of their own samples; nobody asks them for planes."""
    run = bundle_run(profile, max_rounds=3, labelled=LACKING)
    heard, _ = listen(run)
    run.finish()
    askers = {said.client for said in heard if said.phase == "planes"}
    adopted = [said for said in heard if said.phase == "adopt planes"]
    assert askers == {0, 2}
    assert {said.client for said in adopted} == {1, 3}
    for said in adopted:
        [duals] = said.request.duals
        n_held = len(run.layout.samples.items[said.client])
        assert len(duals.payload) == 8 * n_held * said.request.n_planes


@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_the_exchanges_of_a_round(profile):
    """The phases of the table in ``bundle.py``, in that order."""
    run = bundle_run(profile, max_rounds=1, labelled=LACKING)
    heard, _ = listen(set_up(run))
    run_round(run)
    sealed = ["gram", "open planes"] if profile == "sealed" else []
    expected = ["planes", "adopt planes", *sealed, "trial", "search", "open search"]
    assert list(dict.fromkeys(said.phase for said in heard)) == expected


@pytest.mark.parametrize("labelled", [None, LACKING])
def test_the_sealed_profile_tells_no_weights(labelled):
    """The server says how much of each plane to take; it has no weights to tell."""
    run = bundle_run("sealed", max_rounds=3, labelled=labelled)
    heard, _ = listen(run)
    run.finish()
    trials = [said.request for said in heard if said.phase == "trial"]
    assert len(trials) == 3 * 4
    assert all(trial.weights is None for trial in trials)
    assert run.server.model.slopes is None


def test_the_open_profile_tells_weights():
    """Each client those of its own features, and no weights of planes."""
    run = bundle_run("open", max_rounds=3)
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
def test_the_server_reads_nothing_that_is_sealed(
    profile, labelled, is_complete, monkeypatch
):
    """Sealed for all but clients, the numbers of a run are the same bit for bit."""
    given = {
        "profile": profile,
        "labelled": labelled,
        "participation": None if is_complete else cyclic([[0, 1, 2], [1, 2, 3]]),
        "max_rounds": 6,
    }
    plain = numbers_of(bundle_run(**given))
    monkeypatch.setattr("hyfdca.training.PlainSealer", ToySealer)
    run = bundle_run(**given)
    heard, wires = listen(run)
    assert numbers_of(run) == plain
    # Margins, duals and totals did travel in the toy seal.
    said = next(said for said in heard if said.phase == "trial")
    part = wires[said.client].read(said, m.Part).vector
    margins = np.frombuffer(part.payload, np.int64) * 2.0**-part.fraction_bits
    assert np.abs(margins).max() > 10 * np.abs(run.clients[said.client].margins).max()


@pytest.mark.parametrize("labelled", [None, LACKING])
def test_candidates_start_from_the_duals_of_the_trial_point(labelled):
    """The mixture a client is told of gives, over all clients, the last weights."""
    run = bundle_run("open", n_features=80, labelled=labelled, max_rounds=4)
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
        told = np.frombuffer(said.request.weights).reshape(-1, 1)
        weights[run.layout.features.items[said.client]] = told
    X, y = classification(60, 80, noise=0.5)
    expected = pooled(X, y, l2=0.01).weights_from(duals)
    assert np.abs(weights).max() > 0.1
    assert expected == pytest.approx(weights, rel=1e-9, abs=1e-9)


def test_candidates_of_rows_of_zeros_are_at_the_end_of_the_domain():
    """Without curvature the best dual of a hinge loss of 1 is the label."""
    X, y = classification(20, 60)
    X = sp.csr_array(X.toarray() * (np.arange(20) % 2)[:, None])
    run = set_up(make_training(X, y, partition_of("1x1", 20, 60), algorithm="bundle"))
    given = (slice(0, 20), np.zeros((20, 1)), m.Candidate(0.5, 5.0))
    candidate = run.clients[0]._candidate(*given)
    assert np.array_equal(candidate[::2], y[::2])
    assert np.all(np.abs(candidate[1::2]) < 1.0)


# What servers refuse


def _other_grid(vector):
    return m.Sealed(vector.fraction_bits + 1, vector.payload)


SPOILT_REPLIES = {
    "a slope too few": (
        "planes",
        m.Planes,
        lambda r: replace(r, slopes=r.slopes[1:]),
        "slopes of other buckets",
    ),
    "slopes on another grid": (
        "planes",
        m.Planes,
        lambda r: replace(r, slopes=[_other_grid(s) for s in r.slopes]),
        "on another grid",
    ),
    "offsets on another grid": (
        "planes",
        m.Planes,
        lambda r: replace(r, offsets=_other_grid(r.offsets)),
        "on another grid",
    ),
    "slopes of other features": (
        "planes",
        m.Planes,
        lambda r: replace(
            r, slopes=[m.Sealed(s.fraction_bits, s.payload[8:]) for s in r.slopes]
        ),
        "does not load",
    ),
    "duals kept": ("planes", m.Planes, lambda r: replace(r, duals=None), "kept its"),
    "adopted slopes too few": (
        "adopt planes",
        m.Parts,
        lambda _: m.Parts([]),
        "slopes of other buckets",
    ),
    "margins on another grid": (
        "trial",
        m.Part,
        lambda r: m.Part(_other_grid(r.vector)),
        "on another grid",
    ),
    "margins of other samples": (
        "trial",
        m.Part,
        lambda r: m.Part(m.Sealed(r.vector.fraction_bits, r.vector.payload[8:])),
        "does not load",
    ),
    "totals of other steps": (
        "search",
        m.Part,
        lambda r: m.Part(m.Sealed(r.vector.fraction_bits, r.vector.payload[8:])),
        "does not load",
    ),
    "no number": (
        "open search",
        m.Opened,
        lambda r: m.Opened(pack_reals(np.full(len(r.values) // 8, np.nan))),
        "not a number",
    ),
}


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("name", SPOILT_REPLIES)
def test_a_spoilt_reply_is_refused(name, profile):
    """The server names what is wrong, whichever client it came from."""
    phase, kind, change, message = SPOILT_REPLIES[name]
    run = set_up(bundle_run(profile, labelled=LACKING))
    run_round(run)
    for wire in listen(run)[1]:
        wire.tamper[phase] = (kind, change)
    with pytest.raises(RemoteProtocolError, match=message):
        run_round(run)


@pytest.mark.parametrize(
    ("phase", "kind", "change"),
    [
        ("visit", m.Parts, lambda r: m.Parts(r.vectors[1:])),
        ("visit planes", m.Planes, lambda r: replace(r, slopes=r.slopes[1:])),
        ("adopt visit", m.Parts, lambda r: m.Parts(r.vectors[1:])),
    ],
)
def test_a_spoilt_reply_to_a_visit_is_refused(phase, kind, change):
    """A client cannot answer for fewer buckets than it was asked for."""
    everybody = cyclic([[0, 1, 2, 3]])
    run = set_up(bundle_run("open", labelled=LACKING, participation=everybody))
    run_round(run)
    for wire in listen(run)[1]:
        wire.tamper[phase] = (kind, change)
    with pytest.raises(RemoteProtocolError, match="answers for other buckets"):
        run_round(run)


# What clients refuse


def _shorter(sums):
    return [m.Sealed(s.fraction_bits, s.payload[8:]) for s in sums]


def _goes_on(move, **changed):
    """Return a move after this one, so that a client would move if it obeyed."""
    return replace(move, **{"number": move.number + 9, **changed})


SPOILT_REQUESTS = {
    "a move that goes back": (
        "trial",
        lambda r: replace(r, move=replace(r.move, number=0)),
    ),
    "a move of other outputs": (
        "trial",
        lambda r: replace(r, move=_goes_on(r.move, steps=[1.0, 1.0])),
    ),
    "weights of too few planes": (
        "trial",
        lambda r: replace(
            r,
            move=_goes_on(r.move),
            weights=None,
            plane_weights=(r.plane_weights or r.weights)[8:],
        ),
    ),
    "weights of too few features": (
        "trial",
        lambda r: replace(r, move=_goes_on(r.move), weights=pack_reals(np.ones(1))),
    ),
    "weights that are no numbers": (
        "trial",
        lambda r: replace(
            r, move=_goes_on(r.move), weights=pack_reals(np.full(40, np.nan))
        ),
    ),
    "a delivery that never was": (
        "planes",
        lambda r: replace(
            r,
            move=_goes_on(r.move),
            mixture=m.Mixture([*r.mixture.deliveries, 99], r.mixture.weights),
        ),
    ),
    "a delivery with too few weights": (
        "planes",
        lambda r: replace(
            r,
            move=_goes_on(r.move),
            mixture=m.Mixture(r.mixture.deliveries[:1], r.mixture.weights[8:]),
        ),
    ),
    "a delivery twice with weights for one": (
        "planes",
        lambda r: replace(
            r,
            move=_goes_on(r.move),
            mixture=m.Mixture([*r.mixture.deliveries] * 2, r.mixture.weights),
        ),
    ),
    "planes after a move that goes back": (
        "planes",
        lambda r: replace(r, move=replace(r.move, number=0)),
    ),
    "margins of too few samples": (
        "search",
        lambda r: replace(r, margins=_shorter(r.margins)),
    ),
    "a bucket that is none": (
        "buckets",
        lambda r: m.BucketsNotice(7, pack_indices(np.full(len(r.buckets) // 4, 7))),
    ),
    "buckets of too few samples": (
        "buckets",
        lambda r: m.BucketsNotice(7, r.buckets[4:]),
    ),
    "a release that goes back": (
        "release",
        lambda r: m.MovedRelease(m.Move(0, r.move.steps)),
    ),
    "slopes of too few features": (
        "gram",
        lambda r: replace(
            r,
            first=r.first + 1000,
            kept=pack_indices(np.empty(0)),
            slopes=[_shorter(s) for s in r.slopes],
        ),
    ),
    "no slopes": ("gram", lambda r: replace(r, first=r.first + 1000, slopes=[])),
    "planes kept that are new": (
        "gram",
        lambda r: replace(r, first=r.first + 1000, kept=pack_indices(np.array([9999]))),
    ),
}


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("name", SPOILT_REQUESTS)
def test_a_spoilt_request_changes_nothing(name, profile):
    """It is refused as such, and the run goes on as if nothing had been said."""
    phase, spoil = SPOILT_REQUESTS[name]
    if phase == "gram" and profile == "open":
        profile = "sealed"  # where alone there are such requests
    given = {"profile": profile, "n_features": 80, "max_rounds": 6}
    undisturbed = numbers_of(bundle_run(**given))
    run = bundle_run(**given)
    heard, _ = listen(run)
    for report in run.rounds():
        if report.round_number == 3:
            break
    run.release()
    last = {(said.client, said.phase): said.request for said in heard}
    for client, half in enumerate(run.clients):
        with pytest.raises(RemoteProtocolError):
            half.phases[phase].handle(spoil(last[client, phase]))
    assert numbers_of(run) == undisturbed


SPOILT_VISITS = {
    "a bucket that is none": (
        "visit",
        lambda r: replace(r, buckets=pack_indices(np.array([0, 99]))),
    ),
    "a point that is none": (
        "visit",
        lambda r: replace(r, point_of=pack_indices(np.full(len(r.point_of) // 4, 9))),
    ),
    "points that are no numbers": (
        "visit",
        lambda r: replace(r, points=pack_reals(np.full(len(r.points) // 8, np.inf))),
    ),
    "margins of too few buckets": (
        "visit planes",
        lambda r: replace(r, numbers=[n + 1 for n in r.numbers], margins=r.margins[1:]),
    ),
    "margins of too few samples of the last bucket": (
        "visit planes",
        lambda r: replace(
            r,
            numbers=[n + 1 for n in r.numbers],
            margins=[*r.margins[:-1], _shorter(r.margins[-1])],
        ),
    ),
}


@pytest.mark.parametrize("name", SPOILT_VISITS)
def test_a_spoilt_visit_changes_nothing(name):
    """Not even the buckets that were right."""
    phase, spoil = SPOILT_VISITS[name]
    given = {
        "profile": "open",
        "participation": cyclic([[0, 1, 2, 3]]),
        "bundle": BundleSettings(sub_groups=3, min_group_size=5),
        "max_rounds": 6,
    }
    undisturbed = numbers_of(bundle_run(**given))
    run = bundle_run(**given)
    heard, _ = listen(run)
    for report in run.rounds():
        if report.round_number == 3:
            break
    last = {(said.client, said.phase): said.request for said in heard}
    for client, half in enumerate(run.clients):
        with pytest.raises(RemoteProtocolError):
            half.phases[phase].handle(spoil(last[client, phase]))
    assert numbers_of(run) == undisturbed


def test_a_client_without_labels_makes_no_planes():
    """Whoever asks."""
    run = bundle_run("open", labelled=LACKING, max_rounds=2)
    heard, _ = listen(run)
    run.finish()
    request = next(said.request for said in heard if said.phase == "planes")
    with pytest.raises(RemoteProtocolError, match="no labels"):
        run.clients[1].phases["planes"].handle(request)


def test_deliveries_of_other_sizes_are_not_mixed():
    """A mixture is of deliveries with as many planes each."""
    run = bundle_run("open", n_features=80, max_rounds=3)
    heard, _ = listen(run)
    run.finish()
    said = [said for said in heard if said.phase == "planes"][-1]
    planes = run.clients[said.client].phases["planes"]
    number, mixture = said.request.number, said.request.mixture
    request = replace(said.request, move=run.server._move)
    planes.handle(replace(request, number=number + 1, candidates=[]))
    both = m.Mixture([mixture.deliveries[0], number + 1], mixture.weights)
    with pytest.raises(RemoteProtocolError, match="as many planes"):
        planes.handle(replace(request, number=number + 2, mixture=both))


# Grids that are too fine


_fit_margins = Coordinator.fit_margins


def too_fine(name):
    """Return what fits a grid of that name 16 bits finer than margins need."""

    def fit(coordinator, grid, squared_norms):
        _fit_margins(coordinator, grid, squared_norms)
        fitted = coordinator.grids[grid]
        if grid == name:
            finer = Grid(fitted.fraction_bits + 16, fitted.limit_bits)
            coordinator.grids[grid] = finer

    return fit


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
    undisturbed = bundle_run(**given)
    weights = undisturbed.finish()
    run = bundle_run(**given)
    heard, _ = listen(run)
    # The grid of Gram entries is chosen anew each round, with room for larger ones.
    monkeypatch.setattr("hyfdca.algorithms.collecting._ROOM", 1e-9)
    monkeypatch.setattr(Coordinator, "fit_margins", too_fine("margins"))
    coordinator = run.server.coordinator
    for report in run.rounds():
        if report.round_number == 1:
            usual = coordinator.grids[grid]
            coordinator.grids[grid] = Grid(usual.fraction_bits + 16, usual.limit_bits)
    asked = [said for said in heard if said.phase == phase]
    n_asked = 4 if labelled is None or phase != "planes" else 2
    assert len(asked) > n_asked * len(run.history)
    assert run.stop_reason == "tolerance"
    # Other roundings: the paths differ by little, and more the longer they are. Whoever
    # moved twice would be somewhere else.
    assert len(run.history) == len(undisturbed.history)
    assert run.release() == pytest.approx(weights, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    ("labelled", "phases"),
    [(None, {"visit", "visit planes"}), (LACKING, {"visit", "adopt visit"})],
)
def test_being_asked_again_on_a_visit_moves_nobody_twice(labelled, phases, monkeypatch):
    """Nor is a measurement disturbed that has been waiting since before."""
    given = {
        "profile": "open",
        "participation": cyclic([[0, 1, 2], [1, 2, 3], [0, 3]]),
        "labelled": labelled,
        "max_rounds": 30,
    }
    undisturbed = bundle_run(**given)
    weights = undisturbed.finish()
    run = bundle_run(**given)
    heard, _ = listen(run)
    monkeypatch.setattr(Coordinator, "fit_margins", too_fine("visit margins"))
    coordinator = run.server.coordinator
    for report in run.rounds():
        if report.round_number == 4:
            usual = coordinator.grids["shares"]
            finer = Grid(usual.fraction_bits + 16, usual.limit_bits)
            coordinator.grids["shares"] = finer
    assert phases <= {said.phase for said in heard if b"too large" in said.reply}
    assert run.release() == pytest.approx(weights, rel=1e-6, abs=1e-6)

"""What servers and clients of the bundle method refuse, and that nothing changed."""

import numpy as np
import pytest
from msgspec.structs import replace

from hyfdca.algorithms.bundle import messages as b
from hyfdca.federation.messages import Opened
from hyfdca.holdings.participation import cyclic
from hyfdca.protocol import messages as m
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices, pack_reals
from tests.protocol.wires import LACKING, four_clients, listen, numbers_of
from tests.support.small_runs import (
    run_round,
    set_up,
)


def _other_grid(vector):
    return m.Sealed(vector.fraction_bits + 1, vector.payload)


SPOILT_REPLIES = {
    "a slope too few": (
        "planes",
        b.Planes,
        lambda r: replace(r, slopes=r.slopes[1:]),
        "slopes of other buckets",
    ),
    "slopes on another grid": (
        "planes",
        b.Planes,
        lambda r: replace(r, slopes=[_other_grid(s) for s in r.slopes]),
        "on another grid",
    ),
    "offsets on another grid": (
        "planes",
        b.Planes,
        lambda r: replace(r, offsets=_other_grid(r.offsets)),
        "on another grid",
    ),
    "slopes of other features": (
        "planes",
        b.Planes,
        lambda r: replace(
            r, slopes=[m.Sealed(s.fraction_bits, s.payload[8:]) for s in r.slopes]
        ),
        "does not load",
    ),
    "duals kept": (
        "planes",
        b.Planes,
        lambda r: replace(r, duals=None),
        "withheld its",
    ),
    "forwarded slopes too few": (
        "forward planes",
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
        m.TotalsPart,
        lambda r: m.TotalsPart(replace(r.vector, payload=r.vector.payload[8:])),
        "does not load",
    ),
    "P at fewer steps": (
        "open search",
        Opened,
        lambda r: Opened(r.values[8:]),
        "expected .* items",
    ),
}


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("name", SPOILT_REPLIES)
def test_a_spoilt_reply_is_refused(name, profile):
    """The server names what is wrong, whichever client it came from."""
    phase, kind, change, message = SPOILT_REPLIES[name]
    run = set_up(four_clients(profile, labelled=LACKING))
    run_round(run)
    for wire in listen(run)[1]:
        wire.tamper[phase] = (kind, change)
    with pytest.raises(RemoteProtocolError, match=message):
        run_round(run)


@pytest.mark.parametrize(
    ("phase", "kind", "change"),
    [
        ("visit", m.Parts, lambda r: m.Parts(r.vectors[1:])),
        ("visit planes", b.Planes, lambda r: replace(r, slopes=r.slopes[1:])),
        ("forward visit", m.Parts, lambda r: m.Parts(r.vectors[1:])),
    ],
)
def test_a_spoilt_reply_to_a_visit_is_refused(phase, kind, change):
    """A client cannot answer for fewer buckets than it was asked for."""
    everybody = cyclic([[0, 1, 2, 3]])
    run = set_up(four_clients("open", labelled=LACKING, participation=everybody))
    run_round(run)
    for wire in listen(run)[1]:
        wire.tamper[phase] = (kind, change)
    with pytest.raises(RemoteProtocolError, match="replied for other buckets"):
        run_round(run)


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
    "weights that are not numbers": (
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
            mixture=b.Mixture([*r.mixture.deliveries, 99], r.mixture.weights),
        ),
    ),
    "a delivery with too few weights": (
        "planes",
        lambda r: replace(
            r,
            move=_goes_on(r.move),
            mixture=b.Mixture(r.mixture.deliveries[:1], r.mixture.weights[8:]),
        ),
    ),
    "a delivery twice with weights for one": (
        "planes",
        lambda r: replace(
            r,
            move=_goes_on(r.move),
            mixture=b.Mixture([*r.mixture.deliveries] * 2, r.mixture.weights),
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
        lambda r: b.BucketsNotice(
            r.numbers, pack_indices(np.full(len(r.buckets) // 4, 7))
        ),
    ),
    "buckets of too few samples": (
        "buckets",
        lambda r: b.BucketsNotice(r.numbers, r.buckets[4:]),
    ),
    "a release that goes back": (
        "release",
        lambda r: b.MovedRelease(b.Move(0, r.move.steps)),
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("name", SPOILT_REQUESTS)
def test_a_spoilt_request_changes_nothing(name, profile):
    """It is refused as such, and the run continues as if nothing had been sent."""
    phase, spoil = SPOILT_REQUESTS[name]
    if phase == "gram" and profile == "open":
        profile = "sealed"  # where alone there are such requests
    given = {"profile": profile, "n_features": 80, "max_rounds": 6}
    undisturbed = numbers_of(four_clients(**given))
    run = four_clients(**given)
    heard, _ = listen(run)
    for report in run.rounds():
        if report.round_number == 3:
            break
    run.release()
    last = {(said.client, said.phase): said.request for said in heard}
    for client, half in enumerate(run.clients):
        with pytest.raises(RemoteProtocolError):
            half.handlers[phase](spoil(last[client, phase]))
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
    "points that are not numbers": (
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
    """Not even its valid buckets change anything."""
    phase, spoil = SPOILT_VISITS[name]
    given = {
        "profile": "open",
        "participation": cyclic([[0, 1, 2, 3]]),
        "sub_groups": 3,
        "min_group_size": 5,
        "max_rounds": 6,
    }
    undisturbed = numbers_of(four_clients(**given))
    run = four_clients(**given)
    heard, _ = listen(run)
    for report in run.rounds():
        if report.round_number == 3:
            break
    last = {(said.client, said.phase): said.request for said in heard}
    for client, half in enumerate(run.clients):
        with pytest.raises(RemoteProtocolError):
            half.handlers[phase](spoil(last[client, phase]))
    assert numbers_of(run) == undisturbed


def test_a_client_without_labels_makes_no_planes():
    """It refuses in every algorithm of the bundle."""
    run = four_clients("open", labelled=LACKING, max_rounds=2)
    heard, _ = listen(run)
    run.finish()
    request = next(said.request for said in heard if said.phase == "planes")
    with pytest.raises(RemoteProtocolError, match="no labels"):
        run.clients[1].handlers["planes"](request)


def test_planes_are_collected_where_the_method_says():
    """Other places, and candidates without the duals they start from, are refused."""
    run = four_clients("open", n_features=80, max_rounds=3)
    heard, _ = listen(run)
    run.finish()
    said = [said for said in heard if said.phase == "planes"][-1]
    planes = run.clients[said.client].handlers["planes"]
    request = replace(said.request, move=run.server._move)
    for changed, why in (
        ({"candidates": []}, "no planes at these places"),
        ({"places": [1.0, 0.125]}, "no planes at these places"),
        ({"mixture": None}, "the duals they start from"),
    ):
        with pytest.raises(RemoteProtocolError, match=why):
            planes(replace(request, number=request.number + 1, **changed))


@pytest.mark.parametrize("scale", [-1e-6, 1.1])
def test_duals_to_start_from_are_a_mixture_of_those_delivered(scale):
    """A server cannot choose the duals of single rows by weights beyond a mixture."""
    run = four_clients("open", n_features=80, max_rounds=3)
    heard, _ = listen(run)
    run.finish()
    said = [said for said in heard if said.phase == "planes"][-1]
    mixture, move = said.request.mixture, run.server._move
    weights = np.frombuffer(mixture.weights)
    other = replace(mixture, weights=pack_reals(np.full_like(weights, scale)))
    with pytest.raises(RemoteProtocolError, match="not a mixture"):
        run.clients[said.client].handlers["planes"](
            replace(said.request, move=move, mixture=other)
        )

"""A run that is resumed, or returns to the start of a round, changes no bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hyfdca.algorithms.bundle.async_server import AsyncBundleServer
from hyfdca.algorithms.bundle.bucket_states import Bucket, BucketLayouts, Owed
from hyfdca.crypto.schemes.paillier import PaillierAddition
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.crypto.schemes.stream import StreamSealer
from hyfdca.crypto.schemes.stream_sums import StreamAdder
from hyfdca.federation.sums import RunningSum
from hyfdca.protocol.checkpoint import load, save
from hyfdca.runtime.driver import Traffic
from tests.support.run_cases import (
    AXES,
    MORE_METHODS,
    Case,
    cases_of,
    coarsen,
    covering,
    name_of,
)
from tests.support.saved_runs import (
    Saved,
    abort,
    begun_again,
    everything_of,
    saved_rounds,
)
from tests.support.sealed_runs import ENCRYPTIONS
from tests.support.small_runs import run_round
from tests.support.thoroughness import sampled

pytestmark = pytest.mark.usefixtures("small_paillier")

ALL = {"none": Encryption(), **ENCRYPTIONS}
METHODS = [*AXES["method"], *MORE_METHODS]
EVERY = {**AXES, "method": METHODS, "encryption": list(ALL)}
FEW = {**EVERY, "encryption": ["none", "stream", "bfv-compact", "paillier"]}
BARE = {**EVERY, "encryption": ["none", "stream"]}


def _run(case, **given):
    return case.run(ALL[case.encryption], **given)


# Resuming


def _check_resumed(run):
    """Resume a run after its first round, after half of them, and after the last."""
    states = saved_rounds(run)
    assert states  # some round ends between two steps
    expected = everything_of(run)
    for place in {0, len(states) // 2, len(states) - 1}:
        resumed = states[place].put_back(begun_again(run))
        assert everything_of(resumed) == expected
    assert np.abs(run.release()).max() > 0


@pytest.mark.sampled(7)
@pytest.mark.parametrize("case", covering(cases_of(FEW)), ids=name_of)
def test_a_resumed_run_changes_no_bit(case):
    """New parties that take a state continue like those that had it."""
    _check_resumed(_run(case))


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(covering(cases_of(EVERY)), 4), ids=name_of)
def test_a_resumed_run_of_any_scheme_changes_no_bit(case):
    """The same holds for every scheme and precision."""
    _check_resumed(_run(case))


@pytest.mark.parametrize("name", ["stream", "paillier"])
@pytest.mark.parametrize("presence", AXES["presence"])
def test_worn_sums_on_several_grids_are_resumed(name, presence, monkeypatch):
    """How much was added to a sum, and on which grids, is part of the state."""
    monkeypatch.setattr(StreamAdder, "capacity", 4)
    monkeypatch.setattr(PaillierAddition, "capacity", 4)
    run = _run(
        Case("drawn", "overlapping", "sealed", presence, "some", 2, name), max_rounds=12
    )
    for report in run.rounds():
        if report.round_number in (2, 4):
            coarsen(run)
        if report.round_number == 6:
            saved = Saved.of(run)
    expected = everything_of(run)
    assert len(run.server.dual.duals.take_all()) > 2
    assert everything_of(saved.put_back(begun_again(run))) == expected


def _facts(thing):
    """Return all that an object of a bucket has, whether or not a state names it."""
    if isinstance(thing, RunningSum):
        return thing.take_all(), thing._n_summands.tolist()
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, Bucket | Owed):
        return {name: _facts(value) for name, value in vars(thing).items()}
    return None if isinstance(thing, BucketLayouts) else thing


@pytest.mark.parametrize("labels", AXES["labels"])
def test_buckets_are_put_back(labels):
    """Points, and slopes that are owed, wait for absent clients as they did before."""
    case = Case("bundle", "overlapping", "open", "partial", labels, 1, "stream")
    run = _run(case)
    assert isinstance(run.server, AsyncBundleServer)
    used, n_owed, n_shared = begun_again(run), set(), 0
    for _ in run.rounds():
        run_round(used, [1, 2])  # what is owed there comes and goes, too
        load(used.server, save(run.server))
        before, after = run.server.states, used.server.states
        assert list(map(_facts, after)) == list(map(_facts, before))
        n_owed.add(sum(state.owed is not None for state in before))
        for one, other in zip(before, after, strict=True):
            is_last = one.last_point is run.server.point
            assert (other.last_point is used.server.point) == is_last
            n_shared += is_last
        for client, other in zip(used.clients, run.clients, strict=True):
            load(client, save(other))
    assert len(n_owed) > 1
    assert n_shared


# Going back


def _go_back(run):
    """Break a round off after any number of exchanges, and go back each time."""
    rounds = run.rounds()
    next(_ for _ in rounds if run.server.is_between_steps)
    saved, session = Saved.of(run), run.federation.session
    participants = run.participation.of_round(len(run.history) + 1)

    def round_and_measuring():
        yield from run.server.round(participants)
        yield from run.server.measure()

    for n_exchanges in itertools.count():
        number = session.number
        goes_on = abort(run, round_and_measuring(), n_exchanges)
        saved.put_back(run)
        assert run.server.is_between_steps
        assert session.number >= number + goes_on
        if not goes_on:
            return


def _check_begun_again(case):
    run, expected = _run(case), everything_of(_run(case))
    _go_back(run)
    assert everything_of(run) == expected


@pytest.mark.sampled(7)
@pytest.mark.parametrize("case", covering(cases_of(BARE)), ids=name_of)
def test_a_round_can_be_begun_again(case):
    """Wherever a round was cut off, its start can be restored."""
    _check_begun_again(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(covering(cases_of(EVERY)), 4), ids=name_of)
def test_a_round_can_be_begun_again_with_any_scheme(case):
    """The same holds for every scheme and precision."""
    _check_begun_again(case)


def test_a_suspended_step_is_dropped():
    """While a step waits for absent clients there is no state; loading drops it."""
    case = Case("bundle", "grid", "sealed", "partial", "all", 1, "none")
    run = _run(case)
    states = saved_rounds(run)
    assert 0 < len(states) < len(run.history)
    fresh = begun_again(run)
    run_round(fresh, [0])
    assert not fresh.server.is_between_steps
    states[0].put_back(fresh)
    assert fresh.server.is_between_steps


def test_no_pad_is_used_again(monkeypatch):
    """Whether a run is resumed or goes back, every sealed vector has its own nonce."""
    nonces = []
    draw = StreamSealer._next_nonce
    monkeypatch.setattr(
        StreamSealer,
        "_next_nonce",
        lambda self: nonces.append(draw(self)) or nonces[-1],
    )
    run = _run(Case("bundle", "grid", "sealed", "complete", "all", 1, "stream"))
    saved = saved_rounds(run)[0]
    for other in (run, begun_again(run)):
        saved.put_back(other)
        other.driver.run(other.server.round(range(4)), Traffic())
    assert len(set(nonces)) == len(nonces) > 100

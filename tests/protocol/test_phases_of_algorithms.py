"""The halves of all algorithms keep the order of phases, whatever way a run takes."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.crypto.schemes.stream_sums import StreamAdder
from hyfdca.federation.grids import DivergenceError
from hyfdca.federation.messages import SET_UP
from hyfdca.federation.server import Federation
from hyfdca.protocol.client_session import frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import TooLarge
from hyfdca.protocol.phases import START
from tests.protocol.attributes import differences
from tests.protocol.examples import example
from tests.protocol.kinds import (
    KINDS,
    PLAIN_KINDS,
    SECRETS,
    make_run,
    may_follow,
    runs_of,
)
from tests.support.run_cases import AXES


class Tempted:
    """A client's session that gets every illegal request before each legal one."""

    def __init__(self, run, twin, client):
        self._session = run.driver._clients[client]
        self._half, self._twin = run.clients[client], twin.clients[client]
        self._other = twin.driver._clients[client]
        self.refused = set()

    def handle(self, phase, payload):
        """Pass a request on, after every illegal one."""
        session = self._session
        number, _ = unframe(payload, session._token)
        for wrong, entry in session.phases.items():
            if may_follow(session.phases, wrong, session.last_phase):
                continue
            request = frame(session._token, number, example(entry.request))
            known = wrong in session.handlers
            said = "is out of order" if known else f"there is no phase '{wrong}'"
            with pytest.raises(RemoteProtocolError, match=said):
                session.handle(wrong, request)
            self.refused.add((session.last_phase, wrong))
        # The twin gets the legal requests only.
        assert differences(self._half, self._twin, SECRETS) == []
        self._other.handle(phase, payload)
        return session.handle(phase, payload)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("profile", AXES["profile"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_half_takes_a_phase_out_of_order(kind, profile):
    """Illegal requests change neither a half, at any time of a run, nor the model."""
    run, twin, other = (make_run(kind, profile, "complete") for _ in range(3))
    wires = {c: Tempted(run, twin, c) for c in range(len(run.clients))}
    run.driver._clients = wires
    assert run.finish().tobytes() == other.finish().tobytes()
    refused = set().union(*(wire.refused for wire in wires.values()))
    rounds = run.settings.algorithm.phases.keys() - SET_UP.keys()
    for before in (START, "arrange", "bounds", "norms"):
        assert {phase for last, phase in refused if last == before} >= rounds


def test_hyfdca_takes_no_step_before_it_is_prepared():
    """A step directly after the schemes is refused and changes nothing."""
    run, other = (make_run("drawn", "sealed", "complete") for _ in range(2))
    session, half = run.driver._clients[0], run.clients[0]
    notice = run.federation.vectors.notice(0)
    for own in (run, other):
        client = own.driver._clients[0]
        client.handle("arrange", frame(client._token, 1, notice))
    step = example(ALGORITHMS["hyfdca"].phases["step"].request)
    with pytest.raises(
        RemoteProtocolError, match=r"'step' is out of order: .*'arrange'"
    ):
        session.handle("step", frame(session._token, 2, step))
    assert differences(half, other.clients[0], SECRETS) == []


# Runs that take another way


@pytest.mark.slow
@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", PLAIN_KINDS)
def test_sums_that_wear_out_break_no_order(kind, monkeypatch):
    """Sums are sealed again between any two phases of a round, or before measuring."""
    expected = [run.finish().tobytes() for run in runs_of(kind, "stream")]
    monkeypatch.setattr(StreamAdder, "capacity", 2)
    assert [run.finish().tobytes() for run in runs_of(kind, "stream")] == expected


def may_diverge(algorithm):
    """Return the phases in which numbers may outgrow every grid."""
    table = algorithm.phases
    probes = {"probe margins", "probe shares"}  # of set-up: there is no model yet
    return [p for p, e in table.items() if TooLarge in e.reply and p not in probes]


@pytest.mark.slow
@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", PLAIN_KINDS)
def test_a_run_that_diverges_in_any_phase_releases_its_model(kind, monkeypatch):
    """A run that ends within a round still releases the model last measured."""
    gather, diverging, met = Federation.gather, [], set()

    def gather_and_diverge(federation, phase, *given):
        replies = yield from gather(federation, phase, *given)
        if replies and diverging == [phase]:
            diverging.append("done")
            raise DivergenceError("outgrown")
        return replies

    monkeypatch.setattr(Federation, "gather", gather_and_diverge)
    for run in runs_of(kind):
        for phase in may_diverge(run.settings.algorithm):
            diverging.clear()
            again = run.again()
            for _ in again.rounds():
                diverging[:] = diverging or [phase]
            if diverging[1:]:
                met.add(phase)
                assert again.stop_reason == "diverged"
                assert np.all(np.isfinite(again.release())), phase
    assert met

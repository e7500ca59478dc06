"""A reply that cannot be sealed is no reply: the client is as it was before."""

from __future__ import annotations

from typing import Any

import pytest

from hyfdca.holdings.participation import cyclic
from hyfdca.protocol.codec import RemoteProtocolError
from tests.protocol.wires import LACKING
from tests.support.sealed_runs import found_by
from tests.support.wrong_requests import PARTIAL, make_run, state_of


class Unable:
    """A sealer that opens, and does not seal."""

    def __init__(self, sealer: Any) -> None:
        self._sealer = sealer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sealer, name)

    def seal(self, *_: Any) -> memoryview:
        """Refuse."""
        raise ValueError("it cannot be sealed")


class Failing:
    """A client that cannot seal its first reply to any request."""

    def __init__(self, run: Any, client: int) -> None:
        self._session, self._half = run.driver._clients[client], run.clients[client]
        self._sealing = run.parties[client].sealing
        self.phases: set[str] = set()

    def handle(self, phase: str, payload: bytes | bytearray) -> bytearray:
        """Answer, after a failure that must change nothing."""
        honest, before = self._sealing.sealer, state_of(self._half)
        self._sealing.sealer = lambda *given: Unable(honest(*given))
        is_failed = False
        try:
            self._session.handle(phase, bytearray(payload))
        except (RemoteProtocolError, ValueError):
            is_failed = True
        finally:
            del self._sealing.sealer
        if is_failed:
            self.phases.add(phase)
            assert state_of(self._half) == before, f"{phase} changed something"
        return self._session.handle(phase, payload)


METHODS = {
    "partial": ("drawn", {"participation": PARTIAL}, {"shares", "margins", "step"}),
    "horizontal": (
        "drawn",
        {"partition": "3x1", "participation": cyclic([[0, 1], [1, 2]])},
        {"shares", "step"},
    ),
    "visits": (
        "bundle",
        {"profile": "open", "participation": PARTIAL},
        {"visit planes"},
    ),
    "safe": ("safe", {}, {"probe margins", "shares", "losses"}),
    "search": ("search", {}, {"direction", "move", "measure shares"}),
    "forwarded": (
        "search",
        {"local_fraction": 1.0, "labelled": LACKING},
        {"forward direction", "move", "products"},
    ),
    "bundle": ("bundle", {}, {"planes", "gram", "trial", "search"}),
    "bundle-forwarded": ("bundle", {"labelled": LACKING}, {"forward planes"}),
}


@pytest.mark.parametrize("name", ["stream", "bfv-compact"])
@pytest.mark.parametrize("case", METHODS)
def test_a_failure_to_seal_changes_nothing(case: str, name: str) -> None:
    """In any phase, and the run then ends as if it had never happened."""
    method, given, phases = METHODS[case]
    undisturbed = found_by(make_run(name, method, **given))
    run = make_run(name, method, **given)
    wires = {client: Failing(run, client) for client in range(len(run.clients))}
    run.driver._clients = wires
    assert found_by(run) == undisturbed
    assert phases <= {phase for wire in wires.values() for phase in wire.phases}

"""A server cannot have vectors sealed otherwise than the study allows."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from hyfdca.algorithms.hyfdca.messages import MarginsRequest
from hyfdca.federation.messages import Arrangements, GridRequest
from hyfdca.protocol.client_session import frame
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import GridSpec
from tests.support.sealed_runs import found_by
from tests.support.small_runs import set_up
from tests.support.wrong_requests import make_run, state_of, tempt

pytestmark = pytest.mark.usefixtures("small_paillier")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", ["samples", "features"])
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("stream", "none"),
        ("stream", "bfv"),
        ("bfv-compact", "none"),
        ("bfv-compact", "stream"),
        ("paillier", "none"),
        ("paillier", ""),
    ],
)
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_a_server_cannot_pick_what_the_study_does_not_allow(name, other, kind, method):
    """A client refuses, keeps its schemes, and the run continues."""
    undisturbed = found_by(make_run(name, method, max_rounds=2))
    run = make_run(name, method, max_rounds=2)

    def downgraded(request):
        if isinstance(request, Arrangements):
            yield kind, msgspec.structs.replace(request, **{kind: other})

    wires = tempt(run, downgraded)
    assert found_by(run) == undisturbed
    assert all(len(wire.reasons) == 1 for wire in wires)
    assert all("does not allow" in wire.reasons[0] for wire in wires)


def test_later_downgrades_are_refused_too():
    """In the middle of a run the server cannot change the scheme, in any order."""
    run = make_run("stream", max_rounds=3)
    undisturbed = found_by(make_run("stream", max_rounds=3))
    notice = Arrangements("none", "none")
    for _ in run.rounds():
        for half, session in zip(
            run.clients, run.driver._clients.values(), strict=True
        ):
            payload = frame(session._token, session.last_number + 1, notice)
            with pytest.raises(RemoteProtocolError, match="out of order"):
                session.handle("arrange", payload)
            # Nor would it be taken where the order allowed it.
            with pytest.raises(RemoteProtocolError, match="does not allow"):
                half.handlers["arrange"](notice)
    assert found_by(run) == undisturbed


def test_the_open_profile_seals_samples_all_the_same():
    """The server may read only sums by feature."""
    run = set_up(make_run("stream", profile="open"))
    for half, party in zip(run.clients, run.parties, strict=True):
        groups = memoryview(np.zeros(party.n_held, np.uint32).tobytes())
        with pytest.raises(RemoteProtocolError, match="does not allow"):
            half.handlers["arrange"](Arrangements("none", "none", groups))


@pytest.mark.parametrize("name", ["stream", "bfv-compact", "paillier"])
@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_nothing_is_sealed_before_anybody_said_how(name, profile):
    """A client gives no vector in the clear just because it has no scheme yet."""
    run = make_run(name, profile=profile)
    undisturbed = found_by(make_run(name, profile=profile))
    for half in run.clients:  # its handlers, since its session minds the order too
        before = state_of(half)
        for phase, request in [
            ("norms", GridRequest(GridSpec(20, 40))),
            ("margins", MarginsRequest(None, None, GridSpec(20, 40))),
            ("measure margins", MarginsRequest(None, None, GridSpec(20, 40))),
        ]:
            with pytest.raises(RemoteProtocolError, match="not been arranged"):
                half.handlers[phase](request)
        assert state_of(half) == before
    assert found_by(run) == undisturbed

"""Sharing labels with parties that break the protocol: refused, nothing changed."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.data.targets import TargetSettings
from hyfdca.federation.messages import Arrangements, GridRequest
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices
from hyfdca.protocol.messages import GridSpec, Message, Part, Sealed
from hyfdca.stages.labels.messages import (
    GiveRequest,
    LabelsNotice,
    SumBound,
    TotalsNotice,
    WeightsNotice,
)
from hyfdca.stages.labels.transfer import as_whole_numbers
from tests.stages.alignment.alignments import TOKEN
from tests.stages.label_meetings import Labelled, LabelMeeting

WEIGHTED = TargetSettings(has_weights=True)
HELD = [
    Labelled([0, 1, 2, 4], [0], [0, 1]),
    Labelled([1, 0, 4, 2], [1], [0, 2, 4]),
    Labelled([0, 4], [2], None),
]
PLAIN = Arrangements("none", "none")


# Clients that break the protocol


def tampered(phase, kind, change):
    meeting = LabelMeeting(HELD, WEIGHTED)
    meeting.wires[1].tamper[phase] = (kind, change)
    return meeting


@pytest.mark.parametrize(
    ("phase", "kind", "change"),
    [
        ("give labels", Part, lambda p: Part(Sealed(0, p.vector.payload[:-8]))),
        ("give labels", Part, lambda p: Part(Sealed(1, p.vector.payload))),
        ("give labels", Part, lambda p: Part(Sealed(0, bytes(len(p.vector.payload))))),
        ("give labels", Part, lambda _: Message()),
        ("weight bound", SumBound, lambda _: SumBound(float("inf"))),
        ("weight bound", SumBound, lambda _: SumBound(-1.0)),
        ("weight bound", SumBound, lambda _: SumBound(float("nan"))),
        ("weigh rows", Part, lambda p: Part(Sealed(3, p.vector.payload))),
        ("weigh rows", Part, lambda p: Part(Sealed(p.vector.fraction_bits, b""))),
    ],
)
def test_hostile_replies(phase, kind, change):
    """What does not fit is refused by the server, or by those who would open it."""
    with pytest.raises(RemoteProtocolError):
        tampered(phase, kind, change).run()


# Servers that break the protocol


def wire_of(targets=WEIGHTED, is_visible=True):
    """Return the first client's half and its session, after the schemes came."""
    meeting = LabelMeeting(HELD, targets)
    client, wire = meeting.clients[0], meeting.wires[0]
    if not is_visible:
        client._settings = targets
    wire.handle("arrange", frame(TOKEN, 1, PLAIN))
    return client, wire


def positions(*rows):
    return GiveRequest(pack_indices(np.array(rows, dtype=np.int64)))


def values(rows, fraction_bits=0):
    numbers = as_whole_numbers(np.array(rows)).astype(np.int64)
    return LabelsNotice([Sealed(fraction_bits, memoryview(numbers.tobytes()))])


RIGHT = values([[1.0, 0.5], [0.0, 0.25]])  # of the two rows that it lacks


@pytest.mark.parametrize(
    ("phase", "request_", "message"),
    [
        ("give labels", positions(2), "this client lacks"),
        ("give labels", positions(0, 7), "below 4"),
        ("give labels", positions(1, 0), "sorted"),
        ("take labels", LabelsNotice([]), "one sum"),
        ("take labels", LabelsNotice(RIGHT.values * 2), "one sum"),
        ("take labels", values([[1.0, 0.5], [0.0, 0.25]], 1), "one sum"),
        ("take labels", values([[1.0, 0.5]]), "does not open"),
        ("take labels", values([[1.0, 0.5], [2.0, 0.5]]), "does not open"),
        ("take labels", values([[1.0, 0.5], [0.5, 0.5]]), "does not open"),
        ("take labels", values([[1.0, 0.5], [np.nan, 0.5]]), "does not open"),
        ("take labels", values([[1.0, 0.5], [0.0, 0.0]]), "does not open"),
        ("take labels", values([[1.0, 0.5], [0.0, -1.0]]), "does not open"),
        ("take labels", values([[1.0, 0.5], [0.0, np.inf]]), "does not open"),
        (
            "take labels",
            LabelsNotice([Sealed(0, memoryview(bytes(2 * 7 * 8)))]),
            "does not open",
        ),
        ("weight bound", Message(), "did not come"),
        ("weigh rows", GridRequest(GridSpec(40, 50)), "did not come"),
        ("weight totals", TotalsNotice([]), "out of order"),
    ],
)
def test_hostile_requests(phase, request_, message):
    """A request that does not fit is refused, and the right one still works."""
    client, wire = wire_of()
    with pytest.raises(RemoteProtocolError, match=message):
        wire.handle(phase, frame(TOKEN, 2, request_))
    with pytest.raises(RemoteProtocolError, match="did not come"):
        _ = client.losses
    wire.handle("take labels", frame(TOKEN, 3, RIGHT))
    reply = wire.handle("weight bound", frame(TOKEN, 4, Message()))
    assert decode(unframe(reply, TOKEN)[1], SumBound).total == 2.0


def test_a_grid_that_is_too_fine():
    """Weights that do not fit the grid are not sent, not even in part."""
    client, wire = wire_of()
    wire.handle("take labels", frame(TOKEN, 2, RIGHT))
    with pytest.raises(RemoteProtocolError, match="too fine"):
        wire.handle("weigh rows", frame(TOKEN, 3, GridRequest(GridSpec(49, 49))))
    with pytest.raises(RemoteProtocolError, match="total of all weights did not"):
        _ = client.losses


@pytest.mark.parametrize("total", [0.0, -1.0])
def test_totals_that_are_none(total):
    """A sum of weights that is not above 0 would be divided by."""
    client, wire = wire_of()
    wire.handle("take labels", frame(TOKEN, 2, RIGHT))
    wire.handle("weigh rows", frame(TOKEN, 3, GridRequest(GridSpec(40, 50))))
    number = memoryview(np.array([total * 2**40], np.int64).tobytes())
    notice = TotalsNotice([Sealed(40, number)])
    with pytest.raises(RemoteProtocolError, match="have no weight"):
        wire.handle("weight totals", frame(TOKEN, 4, notice))
    with pytest.raises(RemoteProtocolError, match="total of all weights did not"):
        _ = client.losses


def test_nobody_gives_labels_without_consent():
    """A server that asks although the study does not allow it gets nothing."""
    _, wire = wire_of(is_visible=False)
    with pytest.raises(RemoteProtocolError, match="lets no other holder learn"):
        wire.handle("give labels", frame(TOKEN, 2, positions(0)))


def weights_notice(*weights):
    numbers = as_whole_numbers(np.array(weights)[:, None]).astype(np.int64)
    return WeightsNotice([Sealed(0, memoryview(numbers.tobytes()))])


@pytest.mark.parametrize(
    ("phase", "request_", "message"),
    [
        ("give labels", positions(0), "no phase"),
        ("weigh rows", GridRequest(GridSpec(40, 50)), "no phase"),
        ("take weights", WeightsNotice([]), "one sum"),
        ("take weights", weights_notice(1.0), "does not open"),
        ("take weights", weights_notice(1.0, -2.0), "does not open"),
        ("take weights", weights_notice(1.0, np.nan), "does not open"),
        ("take weights", weights_notice(1.0, np.inf), "does not open"),
    ],
)
def test_hostile_requests_without_labels(phase, request_, message):
    """A client without labels takes the weights of its samples, and nothing else."""
    meeting = LabelMeeting(HELD, WEIGHTED)
    client, wire = meeting.clients[2], meeting.wires[2]
    wire.handle("arrange", frame(TOKEN, 1, PLAIN))
    with pytest.raises(RemoteProtocolError, match=message):
        wire.handle(phase, frame(TOKEN, 2, request_))
    with pytest.raises(RemoteProtocolError, match="did not come"):
        _ = client.losses
    wire.handle("take weights", frame(TOKEN, 3, weights_notice(0.5, 1.5)))
    assert client.losses.weights.tolist() == [[0.5], [1.5]]


def test_weights_that_the_study_does_not_have():
    """A server that sends weights although there are none is refused."""
    wire = LabelMeeting(HELD).wires[2]
    wire.handle("arrange", frame(TOKEN, 1, PLAIN))
    with pytest.raises(RemoteProtocolError, match="the study has no weights"):
        wire.handle("take weights", frame(TOKEN, 2, weights_notice(0.5, 1.5)))

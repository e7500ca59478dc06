"""Columns that are yes and no at one client, and numbers at another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hyfdca.data.tables import stored_densely
from hyfdca.protocol.client_session import decode, unframe
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices, unpack_indices
from hyfdca.protocol.server_session import BadReplyError
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.messages import Numbers, NumbersRequest
from tests.stages.alignment.alignments import ANYHOW, TOKEN, Meeting, make_table

WORDS = ("boolean", "number")  # the kinds of two columns at the first client


def meeting_of(numbers):
    """Return clients without a row in common, the second with these numbers."""
    words = replace(make_table([0, 1, 2], [0, 1]), kinds=WORDS)
    cells = stored_densely(np.column_stack([np.full(3, 5.0), numbers]))
    other = replace(make_table([3, 4, 5], [1, 0]), cells=cells)
    return Meeting([words, other], ANYHOW)


@pytest.mark.parametrize("numbers", [[0.0, 1.0, 1.0], [0.0, np.nan, 0.0]])
def test_zeros_and_ones(numbers):
    """They mean no and yes; only the client with numbers is asked, about one column."""
    meeting = meeting_of(numbers)
    assert meeting.run().named("boolean")
    assert "numbers" not in meeting.wires[0].phases
    place = meeting.wires[1].phases.index("numbers")
    request = decode(unframe(meeting.wires[1].down[place], TOKEN)[1], NumbersRequest)
    assert unpack_indices(request.columns, 2).tolist() == [1]


@pytest.mark.parametrize("numbers", [[1.0, 2.0, 1.0], [0.0, 0.5, np.nan]])
def test_other_numbers(numbers):
    """They are refused; the sentence names the column and both clients."""
    message = "pressure 000' is yes or no at 'org0', but .* 0 and 1 at 'org1'; write 1"
    with pytest.raises(AlignmentError, match=message):
        meeting_of(numbers).run()


def test_numbers_elsewhere_too():
    """Numbers at every client are nobody's business."""
    meeting = Meeting([make_table([0, 1, 2], [0]), make_table([3, 4, 5], [0])], ANYHOW)
    meeting.run()
    assert all("numbers" not in wire.phases for wire in meeting.wires)


def test_wrong_requests_and_replies():
    """A server asks about numbers alone, and a client answers what it was asked."""
    meeting = meeting_of([1.0, 0.0, 1.0])
    meeting.wires[1].tamper["numbers"] = (
        Numbers,
        lambda _: Numbers(pack_indices(np.array([0]))),
    )
    with pytest.raises(BadReplyError, match="was not asked about"):
        meeting.run()
    request = NumbersRequest(pack_indices(np.array([0])))
    with pytest.raises(RemoteProtocolError, match="not one of numbers"):
        meeting.clients[0].handlers["numbers"](request)

from __future__ import annotations

import pytest
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message

from hyfdca.flare.routes import refused


@pytest.mark.parametrize(
    ("origin", "destination", "passes"),
    [
        ("server", "city", True),
        ("server.job", "city.job", True),
        ("coast.job", "server.job", True),
        ("city", "city.job", True),
        ("coast", "city", False),
        ("coast.job", "city.job", False),
        ("coast.server", "city.server", False),
        ("servers", "city", False),
    ],
)
def test_messages_pass_between_a_client_and_the_server_alone(
    origin: str, destination: str, passes: bool
) -> None:
    """Or between the processes of one party; only the first part of a name counts."""
    ends = {
        MessageHeaderKey.ORIGIN: origin,
        MessageHeaderKey.DESTINATION: destination,
    }
    assert (refused(Message(ends)) is None) is passes

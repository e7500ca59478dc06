from __future__ import annotations

import pytest
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.private.defs import CellMessageHeaderKeys

from hyfdca.flare.port.routes import NET_MANAGER, refused, refused_command


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
    """They also pass within one party; only the first part of a name counts."""
    ends = {
        MessageHeaderKey.ORIGIN: origin,
        MessageHeaderKey.DESTINATION: destination,
    }
    assert (refused(Message(ends)) is None) is passes


@pytest.mark.parametrize(
    ("origin", "destination", "passes"),
    [("city", "server", False), ("server", "city", False), ("city", "city.job", True)],
)
def test_nobody_manages_the_processes_of_another_party(
    origin: str, destination: str, passes: bool
) -> None:
    """NVFlare's channel for that can stop a process, or send it load."""
    headers = {
        MessageHeaderKey.ORIGIN: origin,
        MessageHeaderKey.DESTINATION: destination,
        MessageHeaderKey.CHANNEL: NET_MANAGER,
    }
    assert (refused(Message(headers)) is None) is passes


@pytest.mark.parametrize(("name", "passes"), [("admin", True), ("city", False)])
def test_commands_are_the_admins_alone(name: str, passes: bool) -> None:
    """Others are refused, also with a certificate of the study and a token."""
    message = Message({CellMessageHeaderKeys.CLIENT_NAME: name})
    assert (refused_command(message, "admin") is None) is passes
    assert refused_command(Message({}), "admin") is not None

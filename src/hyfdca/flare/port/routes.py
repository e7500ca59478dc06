"""Permitted routes of messages: only between an organisation and the server.

NVFlare's server also forwards messages between clients. A client could therefore send
another one requests that only the server may send, and open the replies, because all
clients have the study's keys. Here both ends refuse such messages, and so does the
server between them. The origin of a message can be trusted: the server compares it with
the sender's token.

NVFlare also lets every party with a certificate of the study send admin commands, and
any process ask any other about its connections, load it, or stop it. Here the server
takes commands from the admin of its own kit alone, and nobody manages the processes of
another party.
"""

from __future__ import annotations

from weakref import WeakSet

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.net_agent import _CHANNEL as NET_MANAGER
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.message import Message
from nvflare.private.defs import CellMessageHeaderKeys

_ENDS = (MessageHeaderKey.ORIGIN, MessageHeaderKey.DESTINATION)

_guarded: WeakSet[CoreCell] = WeakSet()
_commanded: WeakSet[CoreCell] = WeakSet()


def close_side_ways() -> None:
    """Refuse messages from client to client in this process from now on."""
    for cell in CoreCell.ALL_CELLS.values():
        if cell not in _guarded:
            _guarded.add(cell)
            cell.add_incoming_filter("*", "*", refused)


def take_commands_of(admin: str) -> None:
    """Refuse the commands of everybody but this admin from now on."""
    for cell in CoreCell.ALL_CELLS.values():
        if cell not in _commanded:
            _commanded.add(cell)
            cell.add_incoming_filter(CellChannel.HCI, "*", refused_command, admin)


def refused(message: Message) -> Message | None:
    """Return an error reply for a message that may not pass, otherwise None."""
    origin, destination = (FQCN.get_root(message.get_header(end)) for end in _ENDS)
    if origin == destination:
        return None
    is_managing = message.get_header(MessageHeaderKey.CHANNEL) == NET_MANAGER
    if FQCN.ROOT_SERVER in (origin, destination) and not is_managing:
        return None
    return make_reply(ReturnCode.AUTHENTICATION_ERROR)


def refused_command(message: Message, admin: str) -> Message | None:
    """Return an error reply for a command of anybody else, otherwise None.

    The name in a message can be trusted: NVFlare compares it with the sender's token.
    """
    if message.get_header(CellMessageHeaderKeys.CLIENT_NAME) == admin:
        return None
    return make_reply(ReturnCode.AUTHENTICATION_ERROR)

"""Permitted routes of messages: only between an organisation and the server.

NVFlare's server also forwards messages between clients. A client could therefore send
another one requests that only the server may send, and open the replies, because all
clients have the study's keys. Here both ends refuse such messages, and so does the
server between them. The origin of a message can be trusted: the server compares it with
the sender's token.
"""

from __future__ import annotations

from weakref import WeakSet

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.message import Message

_ENDS = (MessageHeaderKey.ORIGIN, MessageHeaderKey.DESTINATION)

_guarded: WeakSet[CoreCell] = WeakSet()


def close_side_ways() -> None:
    """Refuse messages from client to client in this process from now on."""
    for cell in CoreCell.ALL_CELLS.values():
        if cell not in _guarded:
            _guarded.add(cell)
            cell.add_incoming_filter("*", "*", refused)


def refused(message: Message) -> Message | None:
    """Return an error reply for a message between two clients, otherwise None."""
    origin, destination = (FQCN.get_root(message.get_header(end)) for end in _ENDS)
    if origin == destination or FQCN.ROOT_SERVER in (origin, destination):
        return None
    return make_reply(ReturnCode.AUTHENTICATION_ERROR)

"""Ways that messages may take: between an organisation and the server, no others.

NVFlare's server also carries messages from one client to another. So a client could ask
another one what only the server may, and open the answers, for all clients have the
study's keys. Both ends refuse that here, and so does the server on the way. Where a
message comes from is said truthfully: the server compares it with the sender's token.
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
    """Have this process refuse, from now on, what goes from client to client."""
    for cell in CoreCell.ALL_CELLS.values():
        if cell not in _guarded:
            _guarded.add(cell)
            cell.add_incoming_filter("*", "*", refused)


def refused(message: Message) -> Message | None:
    """Return what ends a message between two clients; nothing for all others."""
    origin, destination = (FQCN.get_root(message.get_header(end)) for end in _ENDS)
    if origin == destination or FQCN.ROOT_SERVER in (origin, destination):
        return None
    return make_reply(ReturnCode.AUTHENTICATION_ERROR)

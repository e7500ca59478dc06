"""One connection an identity: the second of two sites with one certificate is refused.

NVFlare lets the newcomer in and the two then push each other out, over and over. Here
each run of ``hyfdca client`` has a random number, which it shows when it registers: the
same number is a process that was started again, another one a second client.
"""

from __future__ import annotations

import os
import time
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_exception import NotAuthenticated

from hyfdca.flare.surroundings import RUN

_SHOWN = "hyfdca_run"
_GONE_AFTER = 12.0  # seconds without a sign of life; there is one every five


class Visitor(FLComponent):
    """Shows the number of this run when the client registers."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Put the number where the server sees it."""
        if event_type == EventType.BEFORE_CLIENT_REGISTER:
            run = os.environ.get(RUN, "")
            fl_ctx.set_prop(_SHOWN, run, private=False, sticky=True)


class Doorman(FLComponent):
    """Lets one run of an identity in at a time, on the server."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[str, str] = {}

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Refuse who registers while another one is alive."""
        if event_type != EventType.CLIENT_REGISTER_RECEIVED:
            return
        peer = fl_ctx.get_peer_context()
        name, run = peer.get_identity_name(), str(peer.get_prop(_SHOWN, ""))
        known = fl_ctx.get_engine().get_client_from_name(name)
        alive = known and time.time() - known.last_connect_time < _GONE_AFTER
        if alive and self._runs.get(name) != run:
            self.logger.warning(f"refused a second client with the identity {name}")
            raise NotAuthenticated(f"another client {name} is connected")
        self._runs[name] = run

"""Who may register: organisations of the study, each once.

NVFlare admits a second client with the same name, and the two then evict each other
forever. Here each kit has a random number, which a copy of it lacks, and shows it when
it registers. The same number means a restarted client, another number a second client.
A client with a valid certificate that is not an organisation of the study is refused as
well, and so is every role but two: organisations, and the admin of the server's kit.
"""

from __future__ import annotations

import os
import threading
import time
from functools import cached_property
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.private.defs import ClientType

from hyfdca.flare.diagnosis import refusal
from hyfdca.flare.job_environment import RUN, job_environment
from hyfdca.flare.port.routes import take_commands_of
from hyfdca.flare.port.strangers import limit_strangers
from hyfdca.flare.preparing import prepare_process
from hyfdca.flare.status import holders, write_holders
from hyfdca.kits.kit import ServerKit, read_server_kit

_SHOWN = "hyfdca_run"
# Seconds without a heartbeat. There is one every five; but a second client with the
# same certificate cuts the connection, and the next one then takes up to twenty.
_GONE_AFTER = 27.0


class RegistrationToken(FLComponent):
    """Shows the number of the kit when the client registers."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Put the number where the server can see it."""
        if event_type == EventType.BEFORE_CLIENT_REGISTER:
            prepare_process()  # before any other client can reach us
            run = os.environ.get(RUN, "")
            fl_ctx.set_prop(_SHOWN, run, private=False, sticky=True)


class RegistrationGuard(FLComponent):
    """Admits one kit per organisation at a time, on the server."""

    def __init__(self) -> None:
        super().__init__()
        self._one_at_a_time = threading.Lock()

    @cached_property
    def _kit(self) -> ServerKit:
        return read_server_kit(job_environment().kit)

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Refuse strangers, and a second client while the first one is alive."""
        if event_type == EventType.SYSTEM_BOOTSTRAP:  # before anybody can register
            prepare_process()
            take_commands_of(self._kit.admin_name)
            limit_strangers(self._kit.owner.port)
        if event_type != EventType.CLIENT_REGISTER_RECEIVED:
            return
        peer = fl_ctx.get_peer_context()
        name, run = peer.get_identity_name(), str(peer.get_prop(_SHOWN, ""))
        role = fl_ctx.get_prop(FLContextKey.CLIENT_TYPE)
        if role == ClientType.ADMIN and name == self._kit.admin_name:
            return
        if role != ClientType.REGULAR:
            self._refuse(name, "only organisations of the study may connect")
        known = fl_ctx.get_engine().get_client_from_name(name)
        alive = known and time.time() - known.last_connect_time < _GONE_AFTER
        with self._one_at_a_time:
            self._let_in(name, run, bool(alive))

    def _let_in(self, name: str, run: str, is_alive: bool) -> None:
        if name not in self._kit.names:
            self._refuse(name, "the study has no such organisation")
        # On disk, because clients do not register again after a restart of the server.
        known = holders(self._kit)
        if is_alive and known.get(name, run) != run:
            self._refuse(name, "it is already connected")
        write_holders(self._kit, {**known, name: run})

    def _refuse(self, name: str, why: str) -> None:
        self.logger.warning(refusal(name, why))
        raise NotAuthenticated(why)

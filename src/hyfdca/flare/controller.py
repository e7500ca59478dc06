"""The server's side of a job: waits for clients, then runs the study."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from nvflare.apis.impl.controller import Controller

from hyfdca.errors import StudyError
from hyfdca.flare.job_environment import JobEnvironment, job_environment
from hyfdca.flare.network import (
    AbortedError,
    Failure,
    Network,
    NetworkRequest,
    PausedError,
)
from hyfdca.flare.preparing import prepare_process
from hyfdca.flare.status import Note, progress, rejoin_file, write_note
from hyfdca.flare.wire import CANNOT, TOPIC, to_answer, to_message
from hyfdca.kits.kit import Kit, read_server_kit
from hyfdca.protocol.server_session import Replies
from hyfdca.runtime.machine import collect_often, keep_memory

_HELLO_TIMEOUT = 2.0  # seconds
_FINISH_TIMEOUT = 5.0
_LOADING_PAUSE = 0.1


class StudyController(Controller):
    """Runs the study once the sites of the job have loaded their data.

    Parameters
    ----------
    wait : float
        Seconds to wait for all of them; then it starts with those that are ready.
    """

    def __init__(self, wait: float = 600.0) -> None:
        super().__init__()
        self._wait = wait

    def start_controller(self, fl_ctx: Any) -> None:
        """Do nothing: there is only the control flow."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """Do nothing: there is only the control flow."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Run the study; leave a note of how it ended."""
        keep_memory()
        prepare_process()
        environment, job = job_environment(), str(fl_ctx.get_job_id())
        kit = Kit(environment.kit)
        collect_often()
        network = self._network(kit, abort_signal, fl_ctx.get_engine())
        try:
            note = self._run(environment, job, network, fl_ctx)
        finally:
            network.close()
        if note is None:
            return
        write_note(kit, note)
        if note.state in ("refused", "failed"):
            self.system_panic(note.reason, fl_ctx)

    def _run(
        self, environment: JobEnvironment, job: str, network: Network, fl_ctx: Any
    ) -> Note | None:
        try:
            self._meet(Kit(environment.kit), network, fl_ctx)
            environment.module.serve(environment.kit, network)
            network.finish(_FINISH_TIMEOUT)
        except PausedError as pause:
            return Note(job, "paused", str(pause))
        except StudyError as error:
            _tell_why(network, environment.without_paths(str(error)))
            return Note(job, "refused", str(error))
        except AbortedError:
            return None  # the party that ended the job knows why
        except Exception as error:
            self.log_exception(fl_ctx, "the study failed")
            return Note(job, "failed", f"The study failed: {error}.")
        return Note(job, "finished")

    def _meet(self, kit: Kit, network: Network, fl_ctx: Any) -> None:
        """Wait until every client in the job is ready, or has said why not.

        Raises
        ------
        StudyError
            If a client cannot take part in a study that has not begun.
        """
        waiting = {client.name for client in fl_ctx.get_engine().get_clients()}
        deadline = time.monotonic() + self._wait
        while waiting and time.monotonic() < deadline:
            replies = network.hello(_HELLO_TIMEOUT)
            # A client that cannot take part says so once and leaves.
            for name, why in _unable(network, replies).items():
                waiting.discard(name)
                self.log_warning(fl_ctx, f"{name} {why}")
                if not progress(kit):
                    who = f"Organisation {name!r}"  # its own sentence may repeat it
                    raise StudyError(f"{who} {why.replace(f'{who}: ', '')}.")
            waiting -= {network.names[rank] for rank in replies.ok}
            if waiting:
                network.pause_if_asked()  # they may be connected, but in no job
                time.sleep(_LOADING_PAUSE)

    def _network(self, kit: Kit, abort_signal: Any, engine: Any) -> Network:
        def courier(
            name: str, request: NetworkRequest, timeout: float
        ) -> bytes | Failure:
            if engine.get_client_from_name(name) is None:
                return Failure("is not connected")
            with engine.new_context() as context:
                replies = engine.send_aux_request(
                    targets=[name],
                    topic=TOPIC,
                    request=to_message(request),
                    timeout=timeout,
                    fl_ctx=context,
                    optional=True,
                )
            return to_answer((replies or {}).get(name), timeout)

        pause = rejoin_file(kit)
        return Network(
            read_server_kit(kit.folder).names,
            courier,
            pause.exists,
            lambda: abort_signal.triggered,
        )


def _tell_why(network: Network, sentence: str) -> None:
    """End the clients too; they would otherwise wait for another job."""
    with suppress(AbortedError):
        network.refuse(sentence, _FINISH_TIMEOUT)


def _unable(network: Network, replies: Replies) -> dict[str, str]:
    return {
        network.names[rank]: why
        for rank, why in replies.failed.items()
        if why.startswith(CANNOT)
    }

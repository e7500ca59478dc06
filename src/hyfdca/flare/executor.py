"""A client's side of a job: loads the table once, then answers requests.

No error in here may end the process: NVFlare would fail the job for all parties.
"""

from __future__ import annotations

import threading
import traceback
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import make_reply

from hyfdca.errors import StudyError
from hyfdca.flare.job_environment import job_environment
from hyfdca.flare.network import NetworkRequest
from hyfdca.flare.preparing import prepare_process
from hyfdca.flare.status import Note, read_note, write_note
from hyfdca.flare.wire import (
    CANNOT,
    TOPIC,
    answer_message,
    refusal_message,
    sentence_of,
    to_request,
)
from hyfdca.kits.kit import Kit
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.runtime.machine import collect_often, keep_memory

_LOADING = "is loading its data"


class StudyExecutor(Executor):
    """Passes requests to the study's handler, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._handler: Any = None
        self._trouble = _LOADING
        self._one_at_a_time = threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Prepare when the job starts."""
        if event_type == EventType.START_RUN:
            self._job = str(fl_ctx.get_job_id())
            prepare_process()
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._answer)
            self._join(fl_ctx)

    def execute(self, *_: Any) -> Any:
        """Refuse NVFlare's tasks: a study has none."""
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _join(self, fl_ctx: Any) -> None:
        keep_memory()
        try:
            environment = job_environment()
            self._handler = environment.module.join(environment.kit, environment.data)
            collect_often()
            self._note("joined")
        except StudyError as error:
            self._trouble = f"{CANNOT}: {str(error).rstrip('.')}"
            self._try_note(fl_ctx, "refused", str(error))
        except BaseException as error:  # see the module
            self._trouble = f"{CANNOT}: {_unexpected(error)}"
            self.log_error(fl_ctx, f"could not join the study:\n{_trace(error)}")
            why = f"Could not join the study: {_unexpected(error)}."
            self._try_note(fl_ctx, "refused", why)

    def _answer(self, topic: str, request: Any, fl_ctx: Any) -> Any:
        """Answer any message from the server."""
        try:
            return self._reply(to_request(request))
        except RefusedError as error:
            # Also noted for the user of this client: it will not resolve itself.
            why = str(error).rstrip(".")
            own = f"This organisation cannot take part: {why}."
            self._try_note(fl_ctx, "refused", own)
            return _refusal(f"refused: {why}")
        except (RemoteProtocolError, StudyError) as error:
            return _refusal(f"refused: {error}")
        except OSError as error:
            why = error.strerror or type(error).__name__
            self.log_error(fl_ctx, f"a request was not answered: {why}")
            return refusal_message(f"failed: {why}")
        except BaseException as error:  # see the module
            self.log_error(fl_ctx, f"a request was not answered:\n{_trace(error)}")
            return refusal_message(f"failed: {_unexpected(error)}")

    def _reply(self, request: NetworkRequest) -> Any:
        if request.kind == "finished":
            self._finish()
            return answer_message(b"")
        if request.kind == "refused":
            self._end(sentence_of(request))
            return answer_message(b"")
        if self._handler is None:
            return _refusal(self._trouble)
        if request.kind == "hello":
            return answer_message(b"")
        with self._one_at_a_time:
            payload = bytes(request.payload)
            answer = self._handler.handle(request.stage, request.phase, payload)
        if not isinstance(answer, bytes | bytearray):
            raise TypeError(f"the handler returned a {type(answer).__name__}")
        return answer_message(answer)

    def _finish(self) -> None:
        """Note that the study is over, unless the user has yet to read a refusal."""
        if not self._has_refused:
            self._note("finished")

    def _end(self, sentence: str) -> None:
        """Note why the server ended the study, unless it was for our own refusal."""
        if not self._has_refused:
            self._note("refused", f"The server stopped: {sentence}")

    @property
    def _has_refused(self) -> bool:
        note = read_note(Kit(job_environment().kit))
        return note is not None and (note.job, note.state) == (self._job, "refused")

    def _try_note(self, fl_ctx: Any, state: Any, reason: str) -> None:
        """Leave a note if the disk allows it; the server is answered in any case."""
        try:
            self._note(state, reason)
        except OSError as error:
            what = f"a note could not be written ({error.strerror}): {reason}"
            self.log_error(fl_ctx, what)

    def _note(self, state: Any, reason: str = "") -> None:
        write_note(Kit(job_environment().kit), Note(self._job, state, reason))


def _refusal(reason: str) -> Any:
    """Return a refusal that names no folder of this machine, as notes may."""
    return refusal_message(job_environment().without_paths(reason))


def _trace(error: BaseException) -> str:
    """Return where an error happened; its message might contain cells of tables."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"{frames}{type(error).__name__}"


def _unexpected(error: BaseException) -> str:
    return f"an unexpected error ({type(error).__name__}), described in its log"

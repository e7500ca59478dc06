"""Both sides of a job without a network between them: NVFlare's classes only."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.apis.shareable import Shareable, make_reply

from hyfdca.flare import executor as executor_module
from hyfdca.flare.controller import StudyController
from hyfdca.flare.executor import StudyExecutor
from hyfdca.flare.job_environment import JobEnvironment
from hyfdca.flare.launcher import ClientLauncher
from hyfdca.flare.network import Failure, NetworkRequest
from hyfdca.flare.status import read_note
from hyfdca.flare.wire import (
    answer_message,
    refusal_message,
    to_answer,
    to_message,
    to_request,
)
from hyfdca.kits.kit import Kit


class Context:
    """The part of NVFlare's context that is used, including its engine."""

    def __init__(self, **properties: Any) -> None:
        self._properties = properties
        self.handlers: dict[str, Any] = {}

    def get_engine(self) -> Context:
        """Return the engine, which is this object too."""
        return self

    def get_job_id(self) -> str:
        """Return the only job."""
        return "job"

    def get_prop(self, name: str, default: Any = None) -> Any:
        """Return what the test has set."""
        return self._properties.get(name, default)

    def register_aux_message_handler(self, topic: str, handler: Any) -> None:
        """Keep it for the test."""
        self.handlers[topic] = handler

    # What logging asks for.
    get_identity_name = get_peer_context = get_job_id


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobEnvironment:
    table = tmp_path / "table.csv"
    table.write_text("rows", encoding="utf-8")
    environment = JobEnvironment(tmp_path, table, "tests.flare.flare_study")
    for name, value in environment.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(StudyExecutor, "log_error", lambda *_: None)
    monkeypatch.setattr(executor_module, "keep_memory", lambda: None)
    return environment


def joined() -> Any:
    """Return the message handler of a client that has joined."""
    context = Context()
    StudyExecutor().handle_event(EventType.START_RUN, context)
    return lambda message: context.handlers["hyfdca"]("hyfdca", message, context)


def asked(answer: Any, phase: str, payload: bytes = b"x") -> bytes | Failure:
    return to_answer(
        answer(to_message(NetworkRequest("ask", "s", phase, payload))), 1.0
    )


def test_requests_survive_the_wire() -> None:
    """Every field, and bytes of any value."""
    request = NetworkRequest("ask", "train", "margins", bytes(range(256)))
    assert to_request(to_message(request)) == request


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "ask", "stage": "s", "phase": "p", "payload": "text"},
        {"kind": "other", "stage": "s", "phase": "p", "payload": b""},
        {"kind": "ask", "stage": 1, "phase": "p", "payload": b""},
        {"kind": ["ask"], "stage": "s", "phase": "p", "payload": b""},
    ],
)
def test_messages_that_are_not_requests_are_refused(fields: dict[str, Any]) -> None:
    """Messages from the network are checked field by field."""
    message = Shareable()
    message.update(fields)
    with pytest.raises(ValueError, match="the message"):
        to_request(message)


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (answer_message(b""), b""),
        (refusal_message("refused:\x1b[2J\n no"), Failure("refused: [2J no")),
        (answer_message("text"), Failure("sent an invalid reply")),
        (Shareable(), Failure("sent an invalid reply")),
        (None, Failure("is not connected", may_pass=True)),
        (make_reply(ReturnCode.TIMEOUT), Failure("did not answer within 1.5 s")),
        (
            make_reply(ReturnCode.COMMUNICATION_ERROR),
            Failure("cannot be reached", may_pass=True),
        ),
        (make_reply(ReturnCode.HANDLER_EXCEPTION), Failure("cannot be reached")),
    ],
)
def test_an_answer_is_bytes_or_the_end_of_a_sentence(
    message: Any, answer: bytes | Failure
) -> None:
    """For any reply of a client, the result is bytes or one line."""
    assert to_answer(message, 1.5) == answer


def test_a_client_answers_whatever_happens_in_its_handler(
    environment: JobEnvironment,
) -> None:
    """No exception escapes, and no text that may contain data."""
    answer = joined()
    assert asked(answer, "echo") == b"x"
    assert asked(answer, "table") == b"rows"
    assert asked(answer, "refuse") == Failure("refused: this is not the time for that")
    for phase, kind in (("fail", "ZeroDivisionError"), ("exit", "SystemExit")):
        why = f"failed: an unexpected error ({kind}), described in its log"
        assert asked(answer, phase) == Failure(why)
    assert isinstance(to_answer(answer(Shareable()), 1.0), Failure)


SHARED = "The file state/round-4 is damaged, or {} is another kit"


def test_a_refusal_names_no_folder_of_the_client(environment: JobEnvironment) -> None:
    """Its own user reads the whole path."""
    answer, kit = joined(), environment.kit
    expected = f"refused: {SHARED.format(kit.name)}"
    assert asked(answer, "damaged") == Failure(expected)
    note = read_note(Kit(kit))
    assert note is not None
    assert f"The file {kit}/state/round-4 is damaged" in note.reason


def test_the_end_of_a_study_names_no_folder_of_the_server(tmp_path: Path) -> None:
    """The note on the server has it."""
    (tmp_path / "script").write_text("damaged", encoding="utf-8")
    environment = JobEnvironment(tmp_path, study="tests.flare.flare_study")
    refused: list[str] = []
    engine: Any = SimpleNamespace(get_clients=list)
    context: Any = SimpleNamespace(get_engine=lambda: engine)
    network: Any = SimpleNamespace(refuse=lambda sentence, _: refused.append(sentence))
    note = StudyController()._run(environment, "job", network, context)
    assert refused == [f"{SHARED.format(tmp_path.name)}."]
    assert note is not None
    assert f"The file {tmp_path}/state/round-4" in note.reason


def test_folders_of_other_names_stay_in_sentences(tmp_path: Path) -> None:
    """Only the kit's folder and the table's are left out, with what is around them."""
    environment = JobEnvironment(tmp_path / "my kit", tmp_path / "data" / "table.csv")
    said = f"{tmp_path}/my kit/state/a, {tmp_path}/data/table.csv, {tmp_path}/data-2"
    shared = environment.without_paths(said)
    assert shared == f"state/a, table.csv, {tmp_path}/data-2"


def test_a_client_notes_its_state(environment: JobEnvironment) -> None:
    """First it has joined, then the study is finished."""
    answer = joined()
    note = read_note(Kit(environment.kit))
    assert note is not None
    assert note.state == "joined"
    assert to_answer(answer(to_message(NetworkRequest("finished"))), 1.0) == b""
    note = read_note(Kit(environment.kit))
    assert note is not None
    assert note.state == "finished"


def test_a_client_that_cannot_join_says_why(environment: JobEnvironment) -> None:
    """Its process lives on: its death would end the job for everybody."""
    assert environment.data is not None
    environment.data.write_text("", encoding="utf-8")
    answer = joined()
    hello = to_answer(answer(to_message(NetworkRequest("hello"))), 1.0)
    assert hello == Failure("cannot take part: The table has no rows")
    environment.data.unlink()
    answer = joined()
    hello = to_answer(answer(to_message(NetworkRequest("hello"))), 1.0)
    assert isinstance(hello, Failure)
    assert "FileNotFoundError" in hello.reason
    assert str(environment.kit) not in hello.reason


def test_a_refusal_of_the_client_is_not_hidden_by_the_end(
    environment: JobEnvironment,
) -> None:
    """The others have finished; this client's user has to know that it has not."""
    assert environment.data is not None
    environment.data.write_text("", encoding="utf-8")
    answer = joined()
    assert to_answer(answer(to_message(NetworkRequest("finished"))), 1.0) == b""
    note = read_note(Kit(environment.kit))
    assert note is not None
    assert (note.state, note.reason) == ("refused", "The table has no rows.")


def test_a_client_notes_why_the_server_stopped(environment: JobEnvironment) -> None:
    """The note has one line for any sentence; the client's own refusal comes first."""
    answer = joined()
    why = b"Tables\x1b[2J\n do not fit \xff."
    ending = to_message(NetworkRequest("refused", payload=why))
    assert to_answer(answer(ending), 1.0) == b""
    note = read_note(Kit(environment.kit))
    assert note is not None
    assert (note.state, note.job) == ("refused", "job")
    assert note.reason == "The server stopped: Tables [2J do not fit \ufffd."
    assert environment.data is not None
    environment.data.write_text("", encoding="utf-8")
    answer = joined()
    assert to_answer(answer(ending), 1.0) == b""
    note = read_note(Kit(environment.kit))
    assert note is not None
    assert note.reason == "The table has no rows."


def test_a_client_answers_although_no_note_can_be_written(
    environment: JobEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk hides no refusal from the server, and its log has the sentence."""
    answer, logged = joined(), []

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(executor_module, "write_note", full)
    monkeypatch.setattr(StudyExecutor, "log_error", lambda *said: logged.append(said))
    assert asked(answer, "keep") == Failure("refused: it accepts at most 5 rounds")
    assert logged[-1][-1] == (
        "a note could not be written (No space left on device): This organisation "
        "cannot take part: it accepts at most 5 rounds."
    )
    assert environment.data is not None
    environment.data.write_text("", encoding="utf-8")
    hello = to_answer(joined()(to_message(NetworkRequest("hello"))), 1.0)
    assert hello == Failure("cannot take part: The table has no rows")
    environment.data.unlink()
    hello = to_answer(joined()(to_message(NetworkRequest("hello"))), 1.0)
    assert isinstance(hello, Failure)
    assert "FileNotFoundError" in hello.reason


def test_job_processes_are_guarded_and_their_arguments_quoted() -> None:
    """A folder with a space in its name stays one argument."""
    arguments = {
        JobProcessArgs.EXE_MODULE: ("-m", "nvflare.worker"),
        JobProcessArgs.WORKSPACE: ("-m", "/two words/flare"),
        JobProcessArgs.OPTIONS: ("--set", " a=1 b=2"),
    }
    context = Context(**{FLContextKey.JOB_PROCESS_ARGS: arguments})
    words = shlex.split(ClientLauncher().get_command({}, context))
    assert words[2:4] == ["-m", "hyfdca.flare.guarded"]
    assert words[5:] == [
        "nvflare.worker",
        "-m",
        "/two words/flare",
        "--set",
        "a=1",
        "b=2",
    ]

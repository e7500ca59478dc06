"""A study of nothing but messages, run by the job processes of the tests."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvflare.private.fed.client.client_run_manager import ClientRunManager

from hyfdca.errors import StudyError
from hyfdca.flare.network import Failure, Network, NetworkRequest
from hyfdca.flare.wire import TOPIC, to_answer, to_message
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.protocol.server_session import Ask

N_ROUNDS, SECONDS_PER_ROUND = 40, 0.1
LARGE = 20_000_000


def damage(kit: Path | str) -> str:
    """Return a complaint that names a folder."""
    return f"The file {kit}/state/round-4 is damaged, or {kit} is another kit."


_ERRORS: dict[str, Callable[[], BaseException]] = {
    "refuse": lambda: RemoteProtocolError("this is not the time for that"),
    "keep": lambda: RefusedError("it accepts at most 5 rounds"),
    "damaged": lambda: RefusedError(damage(os.environ["HYFDCA_KIT"])),
    "fail": lambda: ZeroDivisionError(f"patient {4711} has no weight"),
    "exit": lambda: SystemExit(3),
}


class EchoHandler:
    """Echoes its requests, or does what the phase says."""

    def __init__(self, text: str) -> None:
        self._text = text

    def handle(self, stage: str, phase: str, payload: bytes) -> bytes:
        """Answer a request."""
        if phase == "table":
            return self._text.encode()
        if phase in _ERRORS:
            raise _ERRORS[phase]()
        if phase == "number":
            return 1  # type: ignore[return-value]  # what the test is about
        if phase == "whisper":
            return _answer_of(payload.decode()).encode()
        if phase == "sleep":
            time.sleep(float(payload or b"0"))
        return payload


def _answer_of(site: str) -> str:
    """Ask another site as the server would; return its answer, or why there is none."""
    gc.unfreeze()  # or what existed when the study began is not listed
    [engine] = [o for o in gc.get_objects() if type(o) is ClientRunManager]
    request = to_message(NetworkRequest("ask", "stage", "echo", b"whispered"))
    with engine.new_context() as context:
        replies = engine.send_aux_request([site], TOPIC, request, 2.0, context)
    answer = to_answer(replies.get(site), 2.0)
    return answer.reason if isinstance(answer, Failure) else answer.decode()


def join(kit: Path, data: Path) -> EchoHandler:
    """Load a text; an organisation without one cannot take part."""
    text = data.read_text(encoding="utf-8")
    if not text:
        raise StudyError("The table has no rows.")
    return EchoHandler(text)


def serve(kit: Path, network: Network) -> None:
    """Do what the kit says."""
    _SCRIPTS[(kit / "script").read_text(encoding="utf-8")](kit, network)


def _messages(kit: Path, network: Network) -> None:
    """Try every kind of message once; write the answers to a file."""
    ranks = range(len(network.names))

    def ask(phase: str, payloads: dict[int, bytes], timeout: float = 20.0) -> Any:
        mutable = {c: bytearray(p) for c, p in payloads.items()}  # as sessions send
        replies = network.exchange("stage", Ask(phase, mutable), timeout)
        return {c: bytes(p) for c, p in replies.ok.items()}, dict(replies.failed)

    own = {c: b"%d\x00\xff" % c for c in ranks}
    large = {c: os.urandom(LARGE) for c in ranks}
    slow = ask("sleep", {0: b"0", 1: b"12"}, 6.0)
    findings = {
        "hello": sorted(network.hello(20.0).ok),
        "own": ask("echo", own) == (own, {}),
        "empty": ask("echo", dict.fromkeys(ranks, b""))
        == (dict.fromkeys(ranks, b""), {}),
        "large": ask("echo", large, 60.0) == (large, {}),
        "table": {c: p.decode() for c, p in ask("table", {0: b"", 1: b""})[0].items()},
        "slow": [{c: p.decode() for c, p in slow[0].items()}, slow[1]],
        "refused": ask("refuse", {0: b""})[1],
        "failed": ask("fail", {0: b"", 1: b""})[1],
        "exit": ask("exit", {0: b""})[1],
        "number": ask("number", {0: b""})[1],
        "whispered": ask("whisper", {0: b"city"})[0][0].decode(),
        "to the server": ask("whisper", {0: b"server"})[0][0].decode(),
        "after": ask("echo", own) == (own, {}),
    }
    (kit / "out").mkdir(exist_ok=True)
    (kit / "out" / "findings.json").write_text(json.dumps(findings), encoding="utf-8")


def _rounds(kit: Path, network: Network) -> None:
    """Count rounds in which everybody was present, resuming from the last count."""
    file = kit / "state" / "progress.json"
    done = json.loads(file.read_text(encoding="utf-8")) if file.exists() else 0
    while done < N_ROUNDS or (kit / "go-on").exists():
        everybody = dict.fromkeys(range(len(network.names)), b"x")
        replies = network.exchange("stage", Ask("echo", everybody), 2.0)
        network.pause_if_asked()
        done += not replies.failed
        new = file.with_suffix(".new")
        new.write_text(json.dumps(done), encoding="utf-8")
        new.replace(file)
        time.sleep(SECONDS_PER_ROUND)


def _messages_and_rounds(kit: Path, network: Network) -> None:
    """Try every kind of message, then run rounds while tests need a running study."""
    _messages(kit, network)
    _rounds(kit, network)


def _damaged(kit: Path, _: Network) -> None:
    """Fail because of a file."""
    raise StudyError(damage(kit))


_SCRIPTS: dict[str, Callable[[Path, Network], None]] = {
    "messages": _messages,
    "rounds": _rounds,
    "damaged": _damaged,
    "messages and rounds": _messages_and_rounds,
}

"""The clients as the server's side of a study sees them: by rank, in bytes.

Knows of threads and time, but not of NVFlare: a courier takes one request to one site.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Literal

from hyfdca.protocol.sessions import Ask, Replies

Kind = Literal["hello", "ask", "finished"]

_LOOK_EVERY = 0.5  # seconds, whether the job is being aborted
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0  # seconds before a request is sent again
_THREADS_A_CLIENT = 4  # those that wait for answers nobody needs any more, too


class PausedError(Exception):
    """The study stopped between two rounds because it was asked to."""


class AbortedError(Exception):
    """The job is being ended from outside."""


@dataclass(frozen=True)
class NetworkRequest:
    """What goes to one client."""

    kind: Kind
    stage: str = ""
    phase: str = ""
    payload: bytes | bytearray = b""


@dataclass(frozen=True)
class Failure:
    """Why there is no answer, as the end of a sentence about the client.

    ``may_pass`` says that the same request may well arrive if sent again.
    """

    reason: str
    may_pass: bool = False


# Takes a request to a site and returns its answer, within so many seconds.
Courier = Callable[[str, NetworkRequest, float], bytes | Failure]


class Network:
    """Carries requests to clients, to all of them at a time.

    Parameters
    ----------
    names : sequence of str
        The clients, by rank.
    courier : callable
        Called from several threads; raises nothing.
    is_paused, is_aborted : callable
        Whether the study is asked to pause, or the job to end.
    """

    def __init__(
        self,
        names: Sequence[str],
        courier: Courier,
        is_paused: Callable[[], bool] = lambda: False,
        is_aborted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.names = tuple(names)
        self._courier = courier
        self._is_paused, self._is_aborted = is_paused, is_aborted
        self._pool = ThreadPoolExecutor(
            _THREADS_A_CLIENT * len(self.names), thread_name_prefix="network"
        )

    def exchange(self, stage: str, ask: Ask, timeout: float) -> Replies:
        """Send the requests of an ask; return what came back within the timeout.

        Notices wait for the acknowledgement too: its bytes are what the handler
        returned. What cannot be sent is sent again while there is time.
        """
        requests = {
            client: NetworkRequest("ask", stage, ask.phase, payload)
            for client, payload in ask.payloads.items()
        }
        return self._send(requests, timeout)

    def hello(self, timeout: float) -> Replies:
        """Return who is ready to be asked now, and why the others are not."""
        return self._send({c: NetworkRequest("hello") for c in self._ranks}, timeout)

    def finish(self, timeout: float) -> Replies:
        """Tell all clients that the study is over."""
        return self._send({c: NetworkRequest("finished") for c in self._ranks}, timeout)

    def pause_if_asked(self) -> None:
        """Raise ``PausedError`` where the study is to stop for others to come in."""
        if self._is_paused():
            raise PausedError("The study pauses so that organisations can come back.")

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def _ranks(self) -> range:
        return range(len(self.names))

    def _send(self, requests: Mapping[int, NetworkRequest], timeout: float) -> Replies:
        deadline = time.monotonic() + timeout
        sent = {
            client: self._pool.submit(self._deliver, client, request, deadline)
            for client, request in requests.items()
        }
        self._wait(sent.values(), deadline)
        ok: dict[int, bytes | bytearray] = {}
        failed: dict[int, str] = {}
        for client in sorted(sent):
            answer = self._answer(sent[client], timeout)
            if isinstance(answer, Failure):
                failed[client] = answer.reason
            else:
                ok[client] = answer
        return Replies(ok, failed)

    def _wait(self, sent: Iterable[Future[bytes | Failure]], deadline: float) -> None:
        waiting = set(sent)
        while waiting and (left := deadline - time.monotonic()) > 0:
            if self._is_aborted():
                raise AbortedError("The job is being ended.")
            _, waiting = wait(waiting, min(left, _LOOK_EVERY))

    def _answer(self, sent: Future[bytes | Failure], timeout: float) -> bytes | Failure:
        if not sent.done():
            sent.cancel()
            return Failure(f"did not answer within {timeout:g} s")
        return sent.result()

    def _deliver(
        self, client: int, request: NetworkRequest, deadline: float
    ) -> bytes | Failure:
        """Have a request taken to a client, again and again while there is time."""
        pause = _FIRST_PAUSE
        while True:
            left = max(deadline - time.monotonic(), 0.001)
            answer = self._courier(self.names[client], request, left)
            if not isinstance(answer, Failure) or not answer.may_pass:
                return answer
            if time.monotonic() + pause >= deadline or self._is_aborted():
                return answer
            if self._is_paused():
                return answer  # it may be back, but not in this job
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

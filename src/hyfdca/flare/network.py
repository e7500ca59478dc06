"""The clients as seen by the server's side of a study: by rank, in bytes.

This module knows about threads and time, but not about NVFlare: a courier carries one
request to one site.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Literal

from hyfdca.protocol.server_session import Ask, Replies
from hyfdca.runtime.driver import Driver

Kind = Literal["hello", "ask", "finished", "refused"]

_LOOK_EVERY = 0.5  # seconds between checks whether the job is being aborted
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0  # seconds before a request is sent again
_THREADS_A_CLIENT = 4  # including those that wait for obsolete answers


class PausedError(Exception):
    """The study stopped between two rounds, as requested."""


class AbortedError(Exception):
    """The job is being ended from outside."""


@dataclass(frozen=True)
class NetworkRequest:
    """A request to one client."""

    kind: Kind
    stage: str = ""
    phase: str = ""
    payload: bytes | bytearray = b""


@dataclass(frozen=True)
class Failure:
    """Why there is no answer, as the predicate of a sentence about the client.

    ``may_pass`` means that the same request may arrive if it is sent again.
    """

    reason: str
    may_pass: bool = False


# Takes a request to a site and returns its answer, within the given seconds.
Courier = Callable[[str, NetworkRequest, float], bytes | Failure]


class Network:
    """Carries requests to all clients at the same time.

    Parameters
    ----------
    names : sequence of str
        The clients, by rank.
    courier : callable
        Called from several threads; raises nothing.
    is_paused, is_aborted : callable
        Whether a pause of the study, or the end of the job, is requested.
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
        """Send the requests of an ask; return the replies within the timeout.

        Notices wait for an acknowledgement too: its bytes are what the handler
        returned. Requests that cannot be delivered are sent again while time is left.
        """
        requests = {
            client: NetworkRequest("ask", stage, ask.phase, payload)
            for client, payload in ask.payloads.items()
        }
        return self._send(requests, timeout)

    def hello(self, timeout: float) -> Replies:
        """Return which clients are ready now, and why the others are not."""
        return self._send({c: NetworkRequest("hello") for c in self._ranks}, timeout)

    def finish(self, timeout: float) -> Replies:
        """Tell all clients that the study is over."""
        return self._send({c: NetworkRequest("finished") for c in self._ranks}, timeout)

    def refuse(self, sentence: str, timeout: float) -> Replies:
        """Tell all clients that the study cannot run, and why."""
        request = NetworkRequest("refused", payload=sentence.encode())
        return self._send(dict.fromkeys(self._ranks, request), timeout)

    def pause_if_asked(self) -> None:
        """Raise ``PausedError`` if the study should pause so that others can join."""
        if self._is_paused():
            raise PausedError("The study pauses so that organisations can rejoin.")

    def close(self) -> None:
        """Release the threads."""
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
        """Deliver a request to a client, with retries while time is left."""
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


class NetworkDriver(Driver):
    """Carries the requests of a stage to organisations on other machines.

    Parameters
    ----------
    timeout : float
        Most seconds to wait for an answer.
    hello_timeout : float, optional
        Most seconds to wait for the answer to a greeting; by default the same.
    """

    def __init__(
        self,
        network: Network,
        stage: str,
        timeout: float,
        hello_timeout: float | None = None,
    ) -> None:
        self._network, self._stage, self._timeout = network, stage, timeout
        self._hello_timeout = timeout if hello_timeout is None else hello_timeout

    def exchange(self, ask: Ask) -> Replies:
        """Send requests to clients and return their replies."""
        is_hello = ask.phase == "hello"
        timeout = self._hello_timeout if is_hello else self._timeout
        return self._network.exchange(self._stage, ask, timeout)

"""A round trip between processes, by NVFlare over mutual TLS on this machine.

This module is also the study that the job processes run: a server that measures, and
clients that answer with what they get.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hyfdca.flare.client import run_client
from hyfdca.flare.network import Network
from hyfdca.flare.processes import free_port
from hyfdca.flare.supervisor import Terms, run_server
from hyfdca.protocol.server_session import Ask, Conversation
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess

NEEDS = ()
NAMES = ["a", "b", "c", "d"]
SIZES = ((10, 200), (1_000_000, 20), (20_000_000, 3))  # bytes, repetitions
ROOT = Path(__file__).parents[1]


class Echo:
    """Answers with what it gets."""

    def handle(self, stage: str, phase: str, payload: bytes) -> bytes:
        """Answer a request."""
        return payload


def join(kit: Path, data: Path) -> Echo:
    """Return the handler of a client."""
    return Echo()


def serve(kit: Path, network: Network) -> None:
    """Measure round trips; leave the milliseconds in the kit."""

    def trip(ask: Ask) -> None:
        replies = network.exchange("bench", ask, 120.0)
        if replies.failed:
            raise RuntimeError(f"no answer: {replies.failed}")

    (kit / "state" / "found.json").write_text(json.dumps(_measured(trip)))


def run(_: Path | None) -> None:
    """Print the medians, between processes and in one."""
    from tests.flare.flare_parties import provision  # noqa: PLC0415

    with TemporaryDirectory() as folder:
        kits = Path(folder) / "kits"
        provision(kits, NAMES, free_port())
        started = time.perf_counter()
        with _clients(kits):
            run_server(kits / "server", lambda _: None, Terms(__name__))
        took = time.perf_counter() - started
        apart = json.loads((kits / "server" / "state" / "found.json").read_text())
    together = _measured(_in_one_process())
    print(f"{len(NAMES)} clients, {took:.0f} s from start to end")
    for (size, repetitions), there, here in zip(SIZES, apart, together, strict=True):
        print(
            f"{size:>12,} bytes each way: {there['median']:8.2f} ms median of "
            f"{repetitions} (90 % within {there['most']:.2f}), "
            f"in one process {here['median']:.3f} ms"
        )


def _measured(trip: Callable[[Ask], None]) -> list[dict[str, float]]:
    found = []
    for size, repetitions in SIZES:
        ask = Ask("echo", {client: os.urandom(size) for client in range(len(NAMES))})
        trip(ask)
        times = []
        for _ in range(repetitions):
            started = time.perf_counter()
            trip(ask)
            times.append(1e3 * (time.perf_counter() - started))
        times.sort()
        most = times[int(0.9 * (len(times) - 1))]
        found.append({"median": statistics.median(times), "most": most})
    return found


def _in_one_process() -> Callable[[Ask], None]:
    class Session:
        def handle(self, phase: str, payload: bytes) -> bytes:
            return payload

    clients: Any = {client: Session() for client in range(len(NAMES))}
    driver = InProcess(clients)

    def once(ask: Ask) -> Conversation[None]:
        yield ask

    return lambda ask: driver.run(once(ask), Traffic())


@contextmanager
def _clients(kits: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.flare"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    os.environ["PYTHONPATH"] = str(ROOT)  # for the server's processes
    clients = [
        subprocess.Popen(  # noqa: S603  # our own command
            [*command, str(kits / name)],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        for name in NAMES
    ]
    try:
        yield
        for client in clients:
            client.wait(30)
    finally:
        for client in clients:
            client.kill()


if __name__ == "__main__":
    kit = Path(sys.argv[1])
    run_client(kit, kit / "study.toml", print, "benchmarks.flare")

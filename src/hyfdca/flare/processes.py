"""Starts, watches and ends NVFlare's two long-lived processes."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from hyfdca.errors import StudyError
from hyfdca.flare.job_environment import JobEnvironment
from hyfdca.flare.log import begin_again
from hyfdca.kits.kit import StudyKit
from hyfdca.kits.policy import write_policy
from hyfdca.kits.startup_settings import refuse_other_settings

_GRACE = 3.0  # seconds for a process to end by itself
_HEARTBEAT = 5.0  # seconds between a client's heartbeats

_MODULES = {
    "server": "nvflare.private.fed.app.server.server_train",
    "client": "nvflare.private.fed.app.client.client_train",
}


class Parent:
    """NVFlare's process of one site, which starts one process per job.

    It leads its own session, so that Ctrl-C reaches only us; we then end it. It ends by
    itself when we are gone (``guarded``), and its job processes with it.
    """

    def __init__(self, kit: StudyKit, environment: JobEnvironment) -> None:
        side, owner = kit.side, kit.owner
        self.log = kit.log / f"{side}.log"
        write_policy(kit.flare, side)
        if side == "server":
            refuse_other_settings(kit.admin, "admin")
        guard = [sys.executable, "-P", "-m", "hyfdca.flare.guarded", str(os.getpid())]
        settings = [
            "secure_train=true",
            f"uid={owner.name}",
            f"org={owner.organisation}",
            "config_folder=config",
            f"heart_beat_interval={_HEARTBEAT}",
        ]
        where = ["-m", str(kit.flare), "-s", f"fed_{side}.json"]
        with self.log.open("ab") as log:
            self._log_start = self._log_read = log.tell()
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                [*guard, _MODULES[side], *where, "--set", *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment.environment()},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    def is_running(self) -> bool:
        """Return whether the process is still running."""
        return self._process.poll() is None

    def printed(self) -> str:
        """Return the output since the process was started."""
        return _tail(self.log, self._log_start).decode("utf-8", errors="replace")

    def news(self) -> str:
        """Return the complete lines printed since the last call."""
        new = _tail(self.log, self._log_read)
        new = new[: new.rfind(b"\n") + 1]
        self._log_read += len(new)
        return new.decode("utf-8", errors="replace")

    def keep_log_small(self) -> None:
        """Empty the log, after a backup, if it has become large."""
        if begin_again(self.log):
            self._log_start = self._log_read = 0

    def stop(self) -> None:
        """End the process and everything it has started."""
        family = _family(self.pid)
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        family |= _family(self.pid)
        _kill(family)
        self._process.wait()


def wait_for(what: str, parent: Parent, timeout: float) -> bool:
    """Return whether a process prints ``what`` before it ends or time is up."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if what in parent.printed():
            return True
        if not parent.is_running():
            return False
        time.sleep(0.1)
    return False


def _tail(path: Path, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read()


def _family(pid: int) -> set[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return {parent, *parent.children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def _kill(family: Iterable[psutil.Process]) -> None:
    # psutil compares start times, so a process that reuses the ID is not killed.
    family = list(family)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, _GRACE)


def free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def require_free(port: int) -> None:
    """Refuse a port that is in use.

    Raises
    ------
    StudyError
    """
    # gRPC would share the port with another server, and each gets half of the clients.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            raise StudyError(
                f"Port {port} of this machine is in use; end the program that uses it, "
                "or provision the study with another port."
            ) from None

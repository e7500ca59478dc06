"""Kits of a server and its clients on this machine, and the commands that use them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol, TypeVar

import psutil

from hyfdca.errors import StudyError
from hyfdca.flare.processes import require_free
from hyfdca.kits.all_local import provision_all

ROOT = Path(__file__).parents[2]
# Seconds in tests are those of an idle machine. Waits end as soon as possible, so
# patience costs time only if a test fails.
PATIENCE = float(os.environ.get("HYFDCA_TEST_PATIENCE", "6"))
# Below the ports that systems give to connections; workers of xdist start apart.
_PORTS = count(20_000 + 16 * os.getpid() % 12_000)

_STUDY = """\
[study]
name = "echo"
loss = "hinge"
l2 = 1.0
"""


def provision(folder: Path, names: list[str], port: int) -> None:
    """Make kits of a server and of clients, as for trials on one machine."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    entries = [f'[[clients]]\nname = "{name}"\n' for name in names]
    study = folder.with_name(f"{folder.name}.toml")
    server = f"[server]\nport = {port}\n"
    study.write_text("\n".join([_STUDY, server, *entries]), encoding="utf-8")
    provision_all(study, folder)


def own_port() -> int:
    """Return a port that no other test takes before it is used."""
    for port in _PORTS:
        with contextlib.suppress(StudyError):
            require_free(port)
            return port
    raise AssertionError("there are always more ports")


class Command:
    """A command in its own process, and its output."""

    def __init__(self, kit: Path, words: Sequence[str]) -> None:
        self.kit, self._said = kit, kit / f"said-{time.monotonic_ns()}"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(  # noqa: S603  # our own command
                words,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
            )

    @property
    def said(self) -> str:
        """All output so far."""
        return self._said.read_text(encoding="utf-8")

    def says(self, words: str, timeout: float = 40.0) -> None:
        """Wait until the output contains something."""
        wait_until(lambda: words in self.said, timeout, f"{words!r} in:\n{self.said}")

    def ends(self, timeout: float = 40.0) -> int:
        """Wait until it ends; return its exit code."""
        is_over = lambda: self.process.poll() is not None  # noqa: E731
        wait_until(is_over, timeout, f"the end of:\n{self.said}")
        return self.process.wait()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill it, so that it cannot end anything cleanly."""
        self.process.kill()
        self.process.wait()

    def family(self, words: str) -> list[psutil.Process]:
        """Return the processes it started whose command line contains some words."""
        return [
            child
            for child in psutil.Process(self.process.pid).children(recursive=True)
            if words in " ".join(child.cmdline())
        ]

    def close(self) -> None:
        """End it, if it is still running."""
        if self.process.poll() is None:
            self.interrupt()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


class Parties:
    """A server and its clients on this machine."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder, self.names = folder, names
        self._commands: list[Command] = []

    def server(self, script: str, quorum: int = 0) -> Command:
        """Start the server with a script of ``flare_study``."""
        kit = self.folder / "server"
        (kit / "script").write_text(script, encoding="utf-8")
        return self._started("server", kit, str(quorum))

    def client(self, name: str, text: str = "a table") -> Command:
        """Start a client with some table."""
        kit = self.folder / name
        table = kit / "table.csv"
        table.write_text(text, encoding="utf-8")
        return self._started("client", kit, str(table))

    def _started(self, kind: str, kit: Path, given: str) -> Command:
        words = [
            sys.executable,
            "-m",
            "tests.flare.flare_command",
            kind,
            str(kit),
            given,
        ]
        self._commands.append(Command(kit, words))
        return self._commands[-1]

    def close(self) -> None:
        """End all commands."""
        for command in self._commands:
            command.close()

    def processes(self) -> list[str]:
        """Return the command lines of all processes that use the kits."""
        return processes_of(self.folder)

    def logs(self) -> str:
        """Return the end of every log, for tests that fail."""
        return logs_of(self.folder)


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of all processes that name a folder."""
    lines = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(folder) in line:
            lines.append(line)
    return lines


def logs_of(folder: Path) -> str:
    """Return the end of every log of the kits in a folder."""
    return "\n".join(
        f"== {path}\n{path.read_text(encoding='utf-8', errors='replace')[-3000:]}"
        for path in sorted(folder.glob("*/log/*.log"))
    )


class Started(Protocol):
    """Kits whose processes a test started."""

    def logs(self) -> str:
        """Return the end of every log."""

    def close(self) -> None:
        """End what was started."""


T = TypeVar("T", bound=Started)


@contextmanager
def ended(made: T, folder: Path) -> Iterator[T]:
    """Yield kits below a folder; show their logs on failure, and leave no process."""
    try:
        yield made
    except BaseException:
        sys.stderr.write(made.logs())
        raise
    finally:
        made.close()
    wait_until(lambda: not processes_of(folder), 10.0, f"left: {processes_of(folder)}")


@contextmanager
def parties(kits: Path, folder: Path, names: list[str]) -> Iterator[Parties]:
    """Yield fresh copies of kits for tests; end everything they started."""
    # With a space: NVFlare's own commands do not quote.
    home = folder / "two words"
    shutil.copytree(kits, home)
    with ended(Parties(home, names), home) as made:
        yield made


def wait_until(holds: Callable[[], object], timeout: float, what: str = "") -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + timeout * PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"still not so after {timeout} s: {what}"
        time.sleep(0.1)

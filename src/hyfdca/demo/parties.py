"""The hospitals of the demonstration, each a ``hyfdca client`` process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hyfdca.demo.in_process import HOSPITALS
from hyfdca.errors import StudyError

_LOOK_EVERY = 0.5  # seconds
_LEAVE_WITHIN = 20.0  # seconds, when the study is finished
_GRACE = 10.0  # seconds to end after being asked to


class HospitalProcess:
    """One hospital's command, and its output."""

    def __init__(self, kit: Path, data: Path) -> None:
        self._said = kit / "said"
        guard = [sys.executable, "-P", "-m", "hyfdca.flare.guarded", str(os.getpid())]
        command = ["hyfdca", "client", "--kit", str(kit), "--data", str(data)]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                [*guard, *command],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that Ctrl-C reaches only us
            )

    @property
    def failure(self) -> str | None:
        """The last line of output, if the process has failed."""
        if self._process.poll() in (None, 0):
            return None
        lines = self._said.read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "A hospital's process ended."

    def wait(self) -> None:
        """Wait a limited time for the process to end by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_WITHIN)

    def ask_to_end(self) -> None:
        """Ask the process to end cleanly."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def end(self) -> None:
        """Wait for the process to end, then kill it."""
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class HospitalProcesses:
    """All hospitals, watched: if one fails, so does the demonstration."""

    def __init__(self, members: list[HospitalProcess]) -> None:
        self._members = members
        self._is_over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    @property
    def failure(self) -> str | None:
        """The last line of output of the first hospital that has failed."""
        return next((m.failure for m in self._members if m.failure), None)

    def wait(self) -> None:
        """Wait a limited time until all have received the model and ended."""
        for member in self._members:
            member.wait()

    def close(self) -> None:
        """End the processes that are still running."""
        self._is_over.set()
        self._watcher.join()
        for member in self._members:
            member.ask_to_end()
        for member in self._members:
            member.end()

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_EVERY):
            if self.failure:
                # The main thread is in the server's loop, which Ctrl-C interrupts.
                os.kill(os.getpid(), signal.SIGINT)
                return


@contextmanager
def hospitals(kits: Path, folder: Path) -> Iterator[HospitalProcesses]:
    """Start every hospital with its kit and its table; end all of them on exit.

    Raises
    ------
    StudyError
        If one of them cannot take part.
    """
    members: list[HospitalProcess] = []
    present = HospitalProcesses(members)
    try:
        for hospital in HOSPITALS:
            table = folder.resolve() / f"{hospital.name}.csv"
            members.append(HospitalProcess(kits / hospital.name, table))
        yield present
    except KeyboardInterrupt:
        if present.failure:
            raise StudyError(present.failure) from None
        raise
    finally:
        present.close()

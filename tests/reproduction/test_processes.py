"""The processes of a study end in order."""

from __future__ import annotations

import signal
import subprocess
import sys

from hyfdca.reproduction.processes import Workers

SCRIPT = """
import os, time
from hyfdca.reproduction.processes import Workers

if __name__ == "__main__":
    with Workers(2) as workers:
        first, second = (workers.submit(os.getpid).result() for _ in range(2))
        slow = [workers.submit(time.sleep, 300) for _ in range(3)]
        print("running", flush=True)
        slow[0].result()
"""


def test_sigterm_ends_the_processes_in_order():
    """Nothing is waited for, nothing leaks, and the exit code is that of SIGTERM."""
    command = [sys.executable, "-c", SCRIPT]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.terminate()
        _, errors = process.communicate(timeout=400)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors == ""


def test_the_handler_is_there_in_the_context_alone():
    """Afterwards SIGTERM does what it did before."""
    before = signal.getsignal(signal.SIGTERM)
    with Workers(1):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before

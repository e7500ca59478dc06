from __future__ import annotations

import subprocess
import sys

import psutil

from tests.flare.flare_parties import wait_until

# Starts a guarded process that would run for ever, prints its number, and waits.
_STARTER = """
import os, subprocess, sys
guard = [sys.executable, "-m", "hyfdca.flare.guarded", str(os.getpid())]
child = subprocess.Popen(
    [*guard, "http.server", "0", "--bind", "localhost"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
)
print(child.pid, flush=True)
child.wait()
"""


def test_a_guarded_process_ends_with_the_one_that_started_it() -> None:
    """It ends even if the parent is killed and cannot stop its children."""
    with subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-c", _STARTER], stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        child = psutil.Process(int(starter.stdout.readline()))
        assert child.is_running()
        starter.kill()
    wait_until(lambda: not child.is_running(), 10.0, "the guarded process ends")


def test_a_guarded_process_of_somebody_else_ends_at_once() -> None:
    """Its parent was gone before the first check."""
    command = [sys.executable, "-m", "hyfdca.flare.guarded", "1", "http.server", "0"]
    done = subprocess.run(command, capture_output=True, timeout=400, check=False)  # noqa: S603
    assert done.returncode != 0

"""The memory of a server and its clients between processes, round by round."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil

from hyfdca.flare.processes import free_port
from hyfdca.flare.status import read_status
from hyfdca.kits.all_local import provision_all
from hyfdca.maths.seeds import stream

NEEDS = ()
NAMES = ("a", "b", "c")
N_ROWS, N_COLUMNS, N_ROUNDS = 4_000, 20, 2_000
EVERY = 100  # rounds between two lines
# What the job processes run, by words of their command lines.
_JOBS = {"server": "server.runner_process", "client": "client.worker_process"}
_STUDY = """\
[study]
name = "hosting"
tol = 0.0
max_rounds = {n_rounds}
uncovered = "zero"
id_column = "id"
label_column = "y"

[algorithm]
name = "hyfdca"

[server]
port = {port}
"""


def run(_: Path | None) -> None:
    """Print the memory of every party's job after some numbers of rounds."""
    with TemporaryDirectory() as home:
        folder = Path(home)
        kits = _kits(folder)
        print(
            f"{len(NAMES)} clients of {N_ROWS:,} rows by {N_COLUMNS} columns, each in "
            "its own processes, every round kept on disk; MB of the job processes"
        )
        print(f"{'round':>6} {'server':>8}", *(f"{name:>8}" for name in NAMES))
        with _started(kits, folder) as commands:
            _watch(kits / "server" / "state", commands)


def _kits(folder: Path) -> Path:
    entries = "".join(f'\n[[clients]]\nname = "{name}"\n' for name in NAMES)
    study = folder / "study.toml"
    head = _STUDY.format(n_rounds=N_ROUNDS, port=free_port())
    study.write_text(head + entries, encoding="utf-8")
    for rank, name in enumerate(NAMES):
        _write_table(folder / f"{name}.csv", rank)
    provision_all(study, folder / "kits")
    return folder / "kits"


def _write_table(path: Path, client: int) -> None:
    """Write a client's rows, of which it shares half with the next, and columns."""
    rows = (np.arange(N_ROWS) + client * N_ROWS // 2) % (N_ROWS * len(NAMES) // 2)
    values = stream(0, "hosting", str(client)).normal(size=(N_ROWS, N_COLUMNS))
    names = [f"x{client}.{column}" for column in range(N_COLUMNS)]
    lines = [",".join(["id", *names, "y"])]
    lines += [
        ",".join([f"p{row}", *map(str, own), "ill" if row % 3 else "well"])
        for row, own in zip(rows.tolist(), values.tolist(), strict=True)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


@contextmanager
def _started(kits: Path, folder: Path) -> Iterator[list[psutil.Popen]]:
    """Start the server's command, then those of the clients; end them all."""
    words = [["server", "--kit", str(kits / "server")]]
    words += [
        ["client", "--kit", str(kits / n), "--data", str(folder / f"{n}.csv")]
        for n in NAMES
    ]
    command = [sys.executable, "-m", "hyfdca"]
    commands = [
        psutil.Popen([*command, *given], stdout=subprocess.DEVNULL) for given in words
    ]
    try:
        yield commands
    finally:
        for one in commands:
            one.terminate()
        psutil.wait_procs(commands, 30.0)


def _watch(state: Path, commands: list[psutil.Popen]) -> None:
    due = 0
    while commands[0].is_running() and commands[0].status() != psutil.STATUS_ZOMBIE:
        status = read_status(state)
        number = status.round if status else 0
        if number > due or (number == 1 and not due):
            sizes = [f"{_megabytes(one):>8.0f}" for one in commands]
            print(f"{number:>6}", *sizes, flush=True)
            due = EVERY * (1 + number // EVERY)
        time.sleep(0.05)


def _megabytes(command: psutil.Popen) -> float:
    """Return the resident size of the job that a command has running."""
    for process in command.children(recursive=True):
        if any(job in " ".join(process.cmdline()) for job in _JOBS.values()):
            return float(process.memory_info().rss) / 1e6
    return 0.0

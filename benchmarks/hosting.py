"""The memory of a server that keeps every round, after many of them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.child import resident, run_apart
from hyfdca.data.tables import Table, stored_densely
from hyfdca.maths.seeds import stream
from hyfdca.runtime.faulty import Faults, FaultyNetwork
from hyfdca.runtime.store import Archive, FolderStore
from hyfdca.study.file import Client, Study, StudyFile
from hyfdca.study.local import local_clients
from hyfdca.study.plan import plan_of
from hyfdca.study.presence import Presence
from hyfdca.study.resume import ResumableStudy

NEEDS = ()
N_CLIENTS, N_ROWS, N_COLUMNS = 4, 20_000, 20
ROUNDS = (100, 200, 400, 800)


def run(_: Path | None) -> None:
    """Print the memory after some numbers of rounds."""
    run_apart(_host)


def _host() -> None:
    clients = [Client(name=f"client {k}") for k in range(N_CLIENTS)]
    study = Study(name="hosting", tol=0.0, max_rounds=ROUNDS[-1], uncovered="zero")
    plan = plan_of(StudyFile(study, clients, {"name": "hyfdca"}), bytes(32))
    with TemporaryDirectory() as folder:
        stores = [FolderStore(Path(folder) / name) for name in plan.names]
        members = local_clients(plan, [_table(k) for k in range(N_CLIENTS)], stores)
        network = FaultyNetwork(members.__getitem__, N_CLIENTS, Faults(), 0)
        archive = Archive(FolderStore(Path(folder) / "server"))
        hosted = ResumableStudy(plan, network, Presence(plan, network), archive).ready()
        print(
            f"{N_CLIENTS} clients of {N_ROWS:,} rows by {N_COLUMNS} columns in one "
            "process, every round kept on disk"
        )
        print(f"at the start: {_megabytes()}")
        for report in hosted.runner.rounds():
            if report.round_number in ROUNDS:
                print(f"after {report.round_number} rounds: {_megabytes()}", flush=True)


def _megabytes() -> str:
    return f"{1000 * resident():.0f} MB"


def _table(client: int) -> Table:
    """Return a client's rows, of which it shares half with the next, and columns."""
    rows = (np.arange(N_ROWS) + client * N_ROWS // 2) % (N_ROWS * N_CLIENTS // 2)
    values = stream(0, "hosting", str(client)).normal(size=(N_ROWS, N_COLUMNS))
    return Table(
        tuple([f"patient-{row}" for row in rows.tolist()]),
        tuple(f"x{client}.{column}" for column in range(N_COLUMNS)),
        stored_densely(values),
        tuple(["ill" if row % 3 else "well" for row in rows.tolist()]),
    )

"""The time and memory that aligning 10 clients of 1,000,000 IDs each takes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.child import peak, run_apart
from hyfdca.arrays import IntArray
from hyfdca.data.tables import Table, stored_densely
from hyfdca.maths.seeds import stream
from hyfdca.protocol.server_session import ServerSession
from hyfdca.study.file import Client, Study, StudyFile
from hyfdca.study.local.study import local_clients, local_driver
from hyfdca.study.plan import plan_of
from hyfdca.study.server import StudyServer

NEEDS = ()
N_CLIENTS, N_ROWS, N_COLUMNS = 10, 1_000_000, 4
N_SAMPLES, N_FEATURES = 3_000_000, 10  # from which each client's are drawn


def run(_: Path | None) -> None:
    """Print the time and peak memory of the whole protocol, all parties together."""
    run_apart(_align)


def _align() -> None:
    tables = [_table(client) for client in range(N_CLIENTS)]
    print(
        f"{N_CLIENTS} clients of {N_ROWS:,} IDs by {N_COLUMNS} of {N_FEATURES} "
        f"features, with labels: peak {peak():.2f} GB"
    )
    started = time.perf_counter()
    clients = [Client(name=f"client {k}", data="") for k in range(N_CLIENTS)]
    plan = plan_of(
        StudyFile(Study(name="alignment", uncovered="zero"), clients), bytes(32)
    )
    members = local_clients(plan, tables)
    session = ServerSession(plan.token)
    convener = StudyServer(plan, lambda stage: local_driver(members, stage), session)
    convener.agree()
    samples = convener.align().layout.samples
    seconds, traffic = time.perf_counter() - started, convener.traffic
    n_groups = max(len(member.aligned.own.owns) for member in members)
    print(
        f"{samples.n_items:,} samples, {(samples.counts > 1).sum():,} of them shared, "
        f"in up to {n_groups} owner groups a client"
    )
    print(
        f"{traffic.round_trips:g} round trips, {traffic.bytes_up / 1e6:.0f} MB up and "
        f"{traffic.bytes_down / 1e6:.0f} MB down"
    )
    print(f"aligned in {seconds:.1f} s (under 30)")
    print(f"peak memory: {peak():.2f} GB (under 4)")


def _table(client: int) -> Table:
    """Return a client's table with its own rows and columns, in its own order."""
    random = stream(0, "alignment", str(client))
    rows = random.choice(N_SAMPLES, N_ROWS, replace=False)
    columns = random.choice(N_FEATURES, N_COLUMNS, replace=False)
    return Table(
        tuple([f"patient-{row:08d}" for row in rows]),
        tuple(f"x{column}" for column in columns),
        stored_densely(_values(rows[:, None], columns[None, :])),
        tuple(["ill" if row % 3 else "well" for row in rows]),
    )


def _values(row: IntArray, column: IntArray) -> np.ndarray:
    """Return the same number for the same cell at all holders; some are zero."""
    return (row * 2_654_435_761 + column * 40_503) % 1009 / 8.0

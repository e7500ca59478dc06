"""The time and memory that aligning 10 clients of 1,000,000 IDs each takes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.child import peak, run_apart
from hyfdca.axis import IntArray
from hyfdca.consortium import Member, align
from hyfdca.crypto.schemes import Encryption
from hyfdca.protocol.alignment_messages import AlignmentSettings
from hyfdca.runtimes.driver import Traffic
from hyfdca.secrecy import fresh_secrecy
from hyfdca.seeds import stream
from hyfdca.tables import Table, stored_densely

N_CLIENTS, N_ROWS, N_COLUMNS = 10, 1_000_000, 4
N_SAMPLES, N_FEATURES = 3_000_000, 10  # from which each client's are drawn


def run(_: Path) -> None:
    """Print the time and peak memory of the whole protocol, all parties together."""
    run_apart(_align)


def _align() -> None:
    members = [_member(client) for client in range(N_CLIENTS)]
    print(
        f"{N_CLIENTS} clients of {N_ROWS:,} IDs by {N_COLUMNS} of {N_FEATURES} "
        f"features, with labels: peak {peak():.2f} GB"
    )
    traffic = Traffic()
    started = time.perf_counter()
    secrecy = fresh_secrecy(Encryption(), len(members))
    settings = AlignmentSettings("classification")
    consortium = align(members, settings, secrecy, traffic)
    seconds = time.perf_counter() - started
    samples = consortium.alignment.layout.samples
    n_groups = max(len(table.own.owns) for table in consortium.tables)
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


def _member(client: int) -> Member:
    """Return a client with its own rows and columns, in an order of its own."""
    random = stream(0, "alignment", str(client))
    rows = random.choice(N_SAMPLES, N_ROWS, replace=False)
    columns = random.choice(N_FEATURES, N_COLUMNS, replace=False)
    table = Table(
        tuple([f"patient-{row:08d}" for row in rows]),
        tuple(f"x{column}" for column in columns),
        stored_densely(_values(rows[:, None], columns[None, :])),
        tuple(["ill" if row % 3 else "well" for row in rows]),
    )
    return Member(f"client {client}", table)


def _values(row: IntArray, column: IntArray) -> np.ndarray:
    """Return the same number for the same cell, whoever holds it; some are zero."""
    return (row * 2_654_435_761 + column * 40_503) % 1009 / 8.0

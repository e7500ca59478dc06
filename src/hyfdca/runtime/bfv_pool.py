"""Processes that seal and open BFV blocks, so that all cores work on encryption.

They start when there is enough to do for the first time, receive keys through a
pipe, share memory for blocks with this process, and end with it.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyfdca.crypto.schemes.bfv_blocks import FULL, BfvBlocks, BfvParameters
from hyfdca.crypto.schemes.bfv_worker import (
    FAILED,
    LETTERS,
    MESSAGE,
    MOST_BLOCKS,
    receive,
    send,
    shared_arrays,
    shared_size,
)

_FEW = 16  # fewer blocks than this are not worth several processes

# By default glibc returns large pieces of memory to the system at once, and requests
# them again for every ciphertext. Without that, SEAL is a third faster.
_KEPT = str(1 << 30)
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": _KEPT, "MALLOC_TRIM_THRESHOLD_": _KEPT}


class Worker:
    """One process, the pipes to it and the memory shared with it."""

    def __init__(self, parameters: BfvParameters) -> None:
        # Memory without a name: reachable only through its file number.
        file_number = os.memfd_create("blocks")
        os.ftruncate(file_number, shared_size(parameters))
        self._parameters = parameters
        memory = mmap.mmap(file_number, shared_size(parameters))
        self._shared = shared_arrays(memory, parameters)
        # -P: a process that has the key imports nothing from the current folder.
        command = [sys.executable, "-P", "-m", "hyfdca.crypto.schemes.bfv_worker"]
        self._process = subprocess.Popen(  # noqa: S603  # our own module
            [*command, str(file_number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **_MEMORY},
            pass_fds=[file_number],
        )
        os.close(file_number)
        assert self._process.stdin is not None  # noqa: S101  # for the type checker
        assert self._process.stdout is not None  # noqa: S101
        self._asked, self._answers = self._process.stdin, self._process.stdout
        send(self._asked, b"f" if parameters == FULL else b"c", 0)

    def work(
        self, what: str, rows: NDArray[Any], out: NDArray[Any], seed: bytes
    ) -> None:
        """Seal or open some blocks by one key in the process, into ``out``."""
        numbers, room = self._shared
        sealed = room[: len(rows) * self._parameters.block_bytes]
        sealed = sealed.reshape(len(rows), -1)
        both: list[NDArray[Any]] = [numbers[: len(rows)], sealed]
        given, made = both if what == "seal" else reversed(both)
        given[:] = rows
        send(self._asked, LETTERS[what], len(rows), seed)
        letter, count = MESSAGE.unpack(receive(self._answers, MESSAGE.size))
        if letter == FAILED:
            raise ValueError(receive(self._answers, count).decode())
        out[:] = made

    def close(self) -> None:
        """Let the process end."""
        for pipe in (self._asked, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()


class BfvWorkers:
    """Several processes that get keys with the blocks; these go to any free process."""

    def __init__(self, parameters: BfvParameters, n_workers: int) -> None:
        self._parameters, self._n_workers = parameters, n_workers
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"BfvWorkers({self._n_workers} processes)"

    def is_worth(self, n_blocks: int) -> bool:
        """Return whether several processes pay for that many blocks."""
        can_share = hasattr(os, "memfd_create")  # Linux
        return can_share and self._n_workers > 1 and n_blocks >= _FEW

    def work(
        self, what: str, rows: NDArray[Any], seeds: Sequence[bytes]
    ) -> NDArray[Any]:
        """Seal or open blocks in the processes, each by the key of its seed."""
        parameters, n_blocks = self._parameters, len(rows)
        out: NDArray[Any] = (
            np.empty((n_blocks, parameters.block_bytes), np.uint8)
            if what == "seal"
            else np.empty((n_blocks, parameters.ring_degree), np.int64)
        )
        free, threads = self._started

        def chunk(some: slice) -> None:
            worker, seed = free.get(), seeds[some.start]
            try:
                worker.work(what, rows[some], out[some], seed)
            except (OSError, EOFError):
                # Its process is gone. It stays in the queue, where it fails at once.
                here = BfvBlocks(parameters, seed)
                done = here.seal if what == "seal" else here.open
                out[some] = done(rows[some])
            finally:
                free.put(worker)

        list(threads.map(chunk, _chunks(seeds)))
        return out

    @property
    def _started(self) -> tuple[queue.SimpleQueue[Worker], ThreadPoolExecutor]:
        with self._lock:
            return self._processes

    @cached_property
    def _processes(self) -> tuple[queue.SimpleQueue[Worker], ThreadPoolExecutor]:
        # One more than cores, so that no core waits while blocks are handed over.
        n_processes = self._n_workers + 1
        workers = [Worker(self._parameters) for _ in range(n_processes)]
        free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in workers:
            free.put(worker)
        threads = ThreadPoolExecutor(n_processes)
        weakref.finalize(self, _end, workers, threads)
        return free, threads


def _chunks(seeds: Sequence[bytes]) -> Iterator[slice]:
    """Return runs of blocks with the same key, as many as a process takes at a time."""
    start = 0
    for _, run in itertools.groupby(seeds):
        end = start + len(list(run))
        for first in range(start, end, MOST_BLOCKS):
            yield slice(first, min(first + MOST_BLOCKS, end))
        start = end


def _end(workers: list[Worker], threads: ThreadPoolExecutor) -> None:
    threads.shutdown(wait=False)
    for worker in workers:
        worker.close()


class Workforce:
    """Hands out the same processes to all users of the same parameters."""

    def __init__(self, n_workers: int) -> None:
        self._n_workers = n_workers
        self._hired: dict[BfvParameters, BfvWorkers] = {}
        self._lock = threading.Lock()

    def __call__(self, parameters: BfvParameters) -> BfvWorkers:
        """Return the workers for these parameters."""
        with self._lock:
            if parameters not in self._hired:
                self._hired[parameters] = BfvWorkers(parameters, self._n_workers)
            return self._hired[parameters]

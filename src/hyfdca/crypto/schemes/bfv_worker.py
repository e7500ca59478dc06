"""A process that seals and opens BFV blocks for the one that started it.

SEAL's calls hold Python's lock, so only processes use several cores. Blocks are in
memory that both processes share and nobody else can reach. Through the pipe goes a
letter for the parameters, then requests: a letter, a count and the seed of the key (not
on the command line, not in the environment, not in a file). The answer is the same
letter and count, or ``x`` and a message.
"""

from __future__ import annotations

import contextlib
import mmap
import resource
import signal
import struct
import sys
from dataclasses import dataclass, field
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hyfdca.crypto.schemes.bfv_blocks import (
    COMPACT,
    FULL,
    SEED_BYTES,
    BfvBlocks,
    BfvParameters,
)

MOST_BLOCKS = 8  # at a time
MESSAGE = struct.Struct("<cQ")  # letter, number of blocks or bytes
FAILED = b"x"
PROFILES = {b"f": FULL, b"c": COMPACT}
LETTERS = {"seal": b"s", "open": b"o"}


class Shared(NamedTuple):
    """Room for numbers and for ciphertexts, in memory that two processes share."""

    numbers: NDArray[np.int64]
    sealed: NDArray[np.uint8]


def shared_size(parameters: BfvParameters) -> int:
    """Return the bytes of shared memory."""
    numbers = MOST_BLOCKS * parameters.ring_degree * 8
    return numbers + parameters.room(MOST_BLOCKS)


def shared_arrays(memory: mmap.mmap, parameters: BfvParameters) -> Shared:
    """Return shared memory as the arrays that are in it."""
    shape = (MOST_BLOCKS, parameters.ring_degree)
    numbers = np.frombuffer(memory, np.int64, shape[0] * shape[1])
    sealed = np.frombuffer(memory, np.uint8, offset=numbers.nbytes)
    return Shared(numbers.reshape(shape), sealed)


def receive(pipe: IO[bytes], size: int) -> bytes:
    """Read exactly this many bytes from a pipe."""
    parts = []
    while size:
        part = pipe.read(size)
        if not part:
            raise EOFError("the other side of the pipe is gone")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def send(pipe: IO[bytes], letter: bytes, count: int, content: bytes = b"") -> None:
    """Write a message to a pipe."""
    left = memoryview(MESSAGE.pack(letter, count) + content)
    while left:
        left = left[pipe.write(left) :]


@dataclass
class WorkerLoop:
    """Answers requests about blocks in shared memory."""

    parameters: BfvParameters
    shared: Shared
    keyed: dict[bytes, BfvBlocks] = field(default_factory=dict)

    def answer(self, letter: bytes, count: int, seed: bytes) -> None:
        """Seal or open the first blocks in shared memory by the key of a seed."""
        numbers, sealed = self.shared
        if count > MOST_BLOCKS:
            raise ValueError(f"there is room for {MOST_BLOCKS} blocks, not {count}")
        if seed not in self.keyed:
            self.keyed[seed] = BfvBlocks(self.parameters, seed)
        if letter == LETTERS["seal"]:
            self.keyed[seed].seal_into(sealed, numbers[:count])
            return
        size = self.parameters.block_bytes
        rows = sealed[: count * size].reshape(count, size)
        self.keyed[seed].open_into(numbers[:count], rows)

    def serve(self, asked: IO[bytes], answers: IO[bytes]) -> None:
        """Answer until the pipe is closed."""
        while True:
            letter, count = MESSAGE.unpack(receive(asked, MESSAGE.size))
            seed = receive(asked, SEED_BYTES)
            try:
                self.answer(letter, count, seed)
                send(answers, letter, count)
            except ValueError as error:
                text = str(error).encode()
                send(answers, FAILED, len(text), text)


def begin(asked: IO[bytes], file_number: int) -> WorkerLoop:
    """Take parameters from the pipe, and the memory by its file number."""
    letter, _ = MESSAGE.unpack(receive(asked, MESSAGE.size))
    parameters = PROFILES[letter]
    memory = mmap.mmap(file_number, shared_size(parameters))
    return WorkerLoop(parameters, shared_arrays(memory, parameters))


def main() -> None:
    """Serve the process that started this one."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would have the key
    # Ctrl-C reaches all processes of a terminal; the one we serve decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (
        open(0, "rb", buffering=0) as asked,
        open(1, "wb", buffering=0) as answers,
        contextlib.suppress(EOFError, BrokenPipeError),
    ):
        begin(asked, int(sys.argv[1])).serve(asked, answers)


if __name__ == "__main__":
    main()

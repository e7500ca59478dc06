"""A process that seals and opens BFV blocks, asked through its standard input.

SEAL's calls hold Python's lock, so only processes use several cores. The key comes
through the pipe: not on the command line, not in the environment, not in a file.

A request is a letter, a count and the blocks; the answer is a letter and the blocks,
or ``x`` and a message. The first request is the parameters and the key.
"""

from __future__ import annotations

import contextlib
import resource
import struct
from typing import IO

import numpy as np
from numpy.typing import NDArray

from hyfdca.crypto.bfv_blocks import COMPACT, FULL, BfvBlocks

REQUEST = struct.Struct("<cQ")  # letter, number of blocks or bytes
FAILED = b"x"
PROFILES = {b"f": FULL, b"c": COMPACT}
LETTERS = {"seal": b"s", "open": b"o"}


def receive(pipe: IO[bytes], room: NDArray[np.uint8]) -> None:
    """Fill an array from a pipe."""
    view = room.data
    while view:
        n_read = pipe.readinto(view)  # type: ignore[attr-defined]
        if not n_read:
            raise EOFError("the other side of the pipe is gone")
        view = view[n_read:]


def send(
    pipe: IO[bytes], letter: bytes, count: int, content: NDArray[np.uint8]
) -> None:
    """Write a message to a pipe."""
    for view in (memoryview(REQUEST.pack(letter, count)), content.data):
        left = view
        while left:
            left = left[pipe.write(left) :]


def _answer(
    blocks: BfvBlocks, letter: bytes, count: int, pipe: IO[bytes]
) -> NDArray[np.uint8]:
    parameters = blocks.parameters
    if letter == LETTERS["seal"]:
        numbers = np.empty((count, parameters.ring_degree), np.int64)
        receive(pipe, numbers.reshape(-1).view(np.uint8))
        return blocks.seal(numbers).reshape(-1)
    sealed = np.empty((count, parameters.block_bytes), np.uint8)
    receive(pipe, sealed.reshape(-1))
    return blocks.open(sealed).reshape(-1).view(np.uint8)


def serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the pipe is closed."""
    header = np.empty(REQUEST.size, np.uint8)
    receive(asked, header)
    letter, size = REQUEST.unpack(header.tobytes())
    key = np.empty(size, np.uint8)
    receive(asked, key)
    blocks = BfvBlocks(PROFILES[letter], key.tobytes())
    while True:
        receive(asked, header)
        letter, count = REQUEST.unpack(header.tobytes())
        try:
            send(answers, letter, count, _answer(blocks, letter, count, asked))
        except ValueError as error:
            text = np.frombuffer(str(error).encode(), np.uint8)
            send(answers, FAILED, len(text), text)


def main() -> None:
    """Serve the process that started this one."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would have the key
    with (
        open(0, "rb", buffering=0) as asked,
        open(1, "wb", buffering=0) as answers,
        contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt),
    ):
        serve(asked, answers)


if __name__ == "__main__":
    main()

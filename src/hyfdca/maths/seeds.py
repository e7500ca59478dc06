"""Named randomness: one independent stream for each name, regardless of order."""

from __future__ import annotations

import zlib

import numpy as np


def stream(base_seed: int, *names: str | int) -> np.random.Generator:
    """Return the random stream of a name, the same in every run and process.

    Parameters
    ----------
    base_seed : int
        The study's seed, not negative.
    names : str or int
        The purpose of the randomness, such as ``"draw", round_number, client``.
    """
    # The kind distinguishes a text from the number that is its checksum.
    words = [
        (1, zlib.crc32(n.encode())) if isinstance(n, str) else (0, n) for n in names
    ]
    key = tuple(number for word in words for number in word)
    return np.random.default_rng(np.random.SeedSequence(base_seed, spawn_key=key))

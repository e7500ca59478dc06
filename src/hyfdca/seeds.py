"""Named randomness: one independent stream for each name, whatever the order."""

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
        What the randomness is for, such as ``"draw", round_number, client``.
    """
    words = [zlib.crc32(n.encode()) if isinstance(n, str) else n for n in names]
    # The length keeps ("a", 0) and ("a",) apart.
    return np.random.default_rng([base_seed, len(words), *words])

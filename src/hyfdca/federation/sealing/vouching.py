"""Checks an opener of totals by a second client, for a few bytes per vector.

A sealed number is m + pad modulo 2^64 (``crypto/schemes/stream.py``). So the server,
which has the sum S of sealed numbers, and the opener, which reports M, state together
what the pads add up to: S - M. The senders know their pads. They show a *witness* few
random combinations of them, Σ_j s_j pad_j, whose coefficients s come from a seed that
the server draws and sends to everybody but the opener:

* each sender but the opener seals its combinations, its *tags*, to the witness;
* the opener seals its own part so that the witness knows its pads, too;
* the witness reports the sum of all combinations of pads, and nothing else;
* the server compares it with the same combinations of S - M.

The opener does not know s, so another M passes by chance alone. The chance is 2^-64
times the largest power of two that divides all errors, for each of the tags: less than
2^-20 for errors as large as a sum can be at all, and far less for others.

The witness learns nothing of the totals, since it has neither S nor M. The server
learns a combination of all pads, which it can compute from S and M anyway.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.stream_sums import WordArray

N_TAGS = 4
SEED_BYTES = 16

_CHUNK = 1 << 16  # words whose coefficients are made at a time


def combinations(words: WordArray, rows: IntArray, seed: bytes) -> IntArray:
    """Return the combinations of words modulo 2^64, (1, N_TAGS).

    Parameters
    ----------
    words : array (rows, width)
    rows : array of int
        Numbers of the rows among those of the sum.
    """
    found, width = np.zeros((1, N_TAGS), np.uint64), words.shape[1]
    n_rows = max(1, _CHUNK // max(1, width))
    for row in range(0, len(rows), n_rows):
        first = rows[row : row + n_rows].astype(np.int64)[:, None] * width
        for column in range(0, width, _CHUNK):
            some = words[row : row + n_rows, column : column + _CHUNK]
            for tag in range(N_TAGS):
                factors = _coefficients(first + column, some.shape[1], tag, seed)
                found[:, tag] += (factors * some).sum(dtype=np.uint64)
    return found.view(np.int64)


def _coefficients(first: IntArray, width: int, tag: int, seed: bytes) -> WordArray:
    """Return the coefficients of words of some rows, (rows, width): an AES-CTR stream.

    They do not depend on which other rows the caller has. Only blocks with these words
    are made, however far into the stream they are.

    Parameters
    ----------
    first : array (rows, 1)
        The place of each row's first word in the stream.
    """
    blocks = first // 2 + np.arange(width // 2 + 1)  # of two words each
    counters = np.stack([np.full_like(blocks, tag), blocks], axis=-1).astype(">u8")
    # Counter mode from any place: the encryption of each block's number.
    cipher = Cipher(algorithms.AES(seed), modes.ECB()).encryptor()  # noqa: S305
    stream = np.frombuffer(cipher.update(counters.tobytes()), np.uint64)
    found: WordArray = np.take_along_axis(
        stream.reshape(len(first), 2 * blocks.shape[1]),
        first % 2 + np.arange(width),
        axis=1,
    )
    return found

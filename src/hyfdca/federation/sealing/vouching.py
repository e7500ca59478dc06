"""How an opener of totals is checked by a second client, for a few bytes per vector.

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


def combinations(words: WordArray, rows: IntArray, seed: bytes) -> IntArray:
    """Return the combinations of words modulo 2^64, (1, N_TAGS).

    Parameters
    ----------
    words : array (rows, width)
    rows : array of int
        Numbers of the rows among those of the sum.
    """
    found = np.zeros((1, N_TAGS), np.uint64)
    for tag in range(N_TAGS):
        factors = _coefficients(rows, words.shape[1], tag, seed)
        found[0, tag] = (factors * words).sum(dtype=np.uint64)
    return found.view(np.int64)


def _coefficients(rows: IntArray, width: int, tag: int, seed: bytes) -> WordArray:
    """Return the coefficients of some rows, (rows, width): words of an AES-CTR stream.

    A row's coefficients do not depend on which other rows the caller has. Only blocks
    with words of these rows are made, whatever their numbers are.
    """
    first = rows.astype(np.int64)[:, None] * width
    blocks = first // 2 + np.arange(width // 2 + 1)  # of two words each
    counters = np.stack([np.full_like(blocks, tag), blocks], axis=-1).astype(">u8")
    # Counter mode without a start: the encryption of each block's number.
    cipher = Cipher(algorithms.AES(seed), modes.ECB()).encryptor()  # noqa: S305
    stream = np.frombuffer(cipher.update(counters.tobytes()), np.uint64)
    found: WordArray = np.take_along_axis(
        stream.reshape(len(rows), 2 * blocks.shape[1]),
        first % 2 + np.arange(width),
        axis=1,
    )
    return found

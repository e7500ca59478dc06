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
    n_rows, width = int(rows.max(initial=-1)) + 1, words.shape[1]
    found = np.zeros((1, N_TAGS), np.uint64)
    for tag in range(N_TAGS):
        # A row's coefficients do not depend on which other rows the caller has.
        counter = modes.CTR(tag.to_bytes(8) + bytes(8))
        stream = Cipher(algorithms.AES(seed), counter).encryptor()
        keystream = stream.update(bytes(8 * n_rows * width))
        factors = np.frombuffer(keystream, np.uint64).reshape(n_rows, width)
        found[0, tag] = (factors[rows] * words).sum(dtype=np.uint64)
    return found.view(np.int64)

"""Keyed pseudonyms of IDs, and keyed tokens of their labels and cells.

Server-aided matching with a keyed hash (Kamara, Mohassel, Raykova and Sadeghian 2014):
all clients have the keys, the server has none and sees which pseudonyms are equal.
IDs and names are taken as they are: the readers of tables make them NFC and trim them.

Tokens are a PRF of two blocks of 16 bytes, the CBC-MAC with AES-256, cut to 8 bytes;
all messages have that one length, for which CBC-MAC is a PRF.

| token of | first block   | second block                              |
|----------|---------------|-------------------------------------------|
| label    | row pseudonym | 16-byte digest of the label's text, with  |
|          |               | the weight and the offset if there are    |
| cell     | row pseudonym | 8-byte digest of the name, float64 bits   |
| start    | row pseudonym | 8-byte digest of a column group, bits of  |
|          |               | no cell                                   |

The cell of a category has an 8-byte digest of its level instead of float64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hyfdca.arrays import FloatArray, IntArray, TokenArray
from hyfdca.crypto.schemes.base import raw_bytes

KEY_BYTES = 32
PSEUDONYM_BYTES = 16
TOKEN_BYTES = 8

# Instead of a token: a row without a label, and one that the weight 0 leaves out.
NO_LABEL = np.uint64(0)
NO_WEIGHT = np.uint64(1)
_RESERVED = np.uint64(2)

_CHUNK = 4096
_WORD = np.dtype("<u8")
_SAMPLE = b"hyfdca sample id"  # what is hashed, kept apart by ``person``
_FEATURE = b"hyfdca feature"
_LABEL = b"hyfdca label"
_NAME = b"hyfdca cell name"
_CLASS = b"hyfdca class"
_LEVEL = b"hyfdca level"
_FORM = b"hyfdca id form"  # and the number of the form
_FOLD = b"hyfdca fold"
_GROUP = b"hyfdca cells of"
_MISSING = np.uint64(0x7FF8_0000_0000_0000)  # one NaN for all
_NO_CELL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)  # bits that no cell has: NaN is the above


@dataclass(frozen=True, repr=False)
class AlignmentKeys:
    """The keys of one study's alignment, three different ones; without a repr."""

    samples: bytes
    labels: bytes
    cells: bytes

    def __post_init__(self) -> None:
        keys = {self.samples, self.labels, self.cells}
        if len(keys) < 3 or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(
                f"The alignment needs three different keys of {KEY_BYTES} bytes each."
            )


def sample_pseudonyms(ids: Sequence[str], keys: AlignmentKeys) -> TokenArray:
    """Return the pseudonyms of normalised IDs, (n, 2)."""
    return _digests(ids, PSEUDONYM_BYTES, _SAMPLE, keys.samples).reshape(-1, 2)


def form_pseudonyms(
    texts: Iterable[str], number: int, keys: AlignmentKeys
) -> TokenArray:
    """Return pseudonyms of IDs in another form, (n, 2): each once, in random order.

    Forms of different numbers have unrelated pseudonyms. They are sorted, which is
    random under a keyed hash, so that they do not show which row they are of.
    """
    person = _FORM + b"%02d" % number
    words = _digests(set(texts), PSEUDONYM_BYTES, person, keys.samples).reshape(-1, 2)
    return words[np.lexsort(words.T)]


def folds_of(ids: Sequence[str], n_folds: int, salt: str) -> IntArray:
    """Return the fold of each row, from its normalised ID and the study's salt.

    Every holder computes the same fold, and so does the next study with that salt.
    """
    key = blake2b(salt.encode(errors="surrogatepass"), digest_size=KEY_BYTES).digest()
    words = _digests(ids, TOKEN_BYTES, _FOLD, key)
    return (words % np.uint64(n_folds)).astype(np.int64)


def feature_pseudonyms(names: Sequence[str], keys: AlignmentKeys) -> TokenArray:
    """Return the pseudonyms of normalised feature names, (n, 2)."""
    return _digests(names, PSEUDONYM_BYTES, _FEATURE, keys.samples).reshape(-1, 2)


def class_pseudonyms(names: Iterable[str], keys: AlignmentKeys) -> TokenArray:
    """Return the pseudonyms of names of classes, (n, 2): each once, in random order."""
    words = _digests(set(names), PSEUDONYM_BYTES, _CLASS, keys.samples).reshape(-1, 2)
    return words[np.lexsort(words.T)]


def level_pseudonyms(
    column: str, levels: Sequence[str], keys: AlignmentKeys
) -> TokenArray:
    """Return the pseudonyms of a column's levels, (n, 2), unique to the column."""
    # The length tells where the name ends.
    texts = [f"{len(column)} {column}{level}" for level in levels]
    return _digests(texts, PSEUDONYM_BYTES, _LEVEL, keys.samples).reshape(-1, 2)


def name_digests(names: Sequence[str]) -> TokenArray:
    """Return digests of names that are not secret, (n, 2)."""
    return _digests(names, PSEUDONYM_BYTES, _FEATURE).reshape(-1, 2)


def label_tokens(
    pseudonyms: TokenArray, labels: Sequence[str], keys: AlignmentKeys
) -> TokenArray:
    """Return a token of each (row, label), (n,); none is ``NO_LABEL`` or ``NO_WEIGHT``.

    Parameters
    ----------
    labels : sequence of str
        The text of everything that belongs to a row besides its cells.
    """
    place = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    digests = _digests(place, PSEUDONYM_BYTES, _LABEL).reshape(-1, 2)
    own = np.fromiter(map(place.__getitem__, labels), np.int64, len(labels))
    tokens = _prf(keys.labels, pseudonyms, digests[own])
    return np.where(tokens > NO_WEIGHT, tokens, tokens + _RESERVED)


def feature_words(names: Sequence[str]) -> TokenArray:
    """Return the digests of feature names that go into tokens of cells, (n,)."""
    return _digests(names, TOKEN_BYTES, _NAME)


def number_words(values: FloatArray) -> TokenArray:
    """Return the bits of numbers that go into tokens of cells, (n,).

    0.0 and -0.0 are the same number, and so are all missing ones.
    """
    bits = (values + 0.0).astype("<f8").view(_WORD)
    return np.where(np.isnan(values), _MISSING, bits)


def level_words(levels: Sequence[str]) -> TokenArray:
    """Return the digests of levels that go into tokens of cells, (n,)."""
    return _digests(levels, TOKEN_BYTES, _LEVEL)


def cell_tokens(
    pseudonyms: TokenArray, words: TokenArray, values: TokenArray, keys: AlignmentKeys
) -> TokenArray:
    """Return a token of each cell: its row, feature and value, as words; by cell."""
    return _prf(keys.cells, pseudonyms, np.column_stack([words, values]))


def group_digests(
    groups: IntArray, items: TokenArray, about: str, key: bytes
) -> TokenArray:
    """Return a digest of each group, (groups, 2): of all its items, in their order.

    Whoever holds a group has the same; without the key nobody can look for two groups
    that have the same.

    Parameters
    ----------
    about : str
        What the digest is for.
    """
    state = blake2b(key=key, digest_size=PSEUDONYM_BYTES, person=_GROUP)
    state.update(b"%d " % len(about) + about.encode())
    ordered, digests = items[np.argsort(groups, kind="stable")], []
    sizes = np.bincount(groups)
    for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
        of_group = state.copy()
        of_group.update(ordered[start : start + size].astype(_WORD).tobytes())
        digests.append(of_group.digest())
    return np.frombuffer(b"".join(digests), dtype=_WORD).reshape(-1, 2)


def start_tokens(
    pseudonyms: TokenArray, word: np.uint64, keys: AlignmentKeys
) -> TokenArray:
    """Return a token for each row that no cell has.

    Added to a row's tokens of the cells of a column group, it hides whether there are
    any, and what sums over other groups differ by.

    Parameters
    ----------
    word : uint64
        Of the digest of the column group.
    """
    start = np.broadcast_to(np.array([word, _NO_CELL], _WORD), pseudonyms.shape)
    return _prf(keys.cells, pseudonyms, start)


def _digests(
    texts: Iterable[str], size: int, person: bytes, key: bytes = b""
) -> TokenArray:
    """Return digests one after the other, as words of 8 bytes."""
    # Copying the keyed state saves one block of hashing per ID.
    copy = blake2b(key=key, digest_size=size, person=person).copy
    parts, rest = [], iter(texts)
    while some := list(islice(rest, _CHUNK)):  # a million digests are 64 MB
        digests = []
        for text in some:
            state = copy()
            state.update(text.encode(errors="surrogatepass"))
            digests.append(state.digest())
        parts.append(b"".join(digests))
    return np.frombuffer(b"".join(parts), dtype=_WORD)


def _prf(key: bytes, first: TokenArray, second: TokenArray) -> TokenArray:
    """Return the CBC-MAC of two blocks each, cut to 8 bytes."""
    state = _encrypted(key, first) ^ second
    return np.ascontiguousarray(_encrypted(key, state)[:, 0])


def _encrypted(key: bytes, blocks: TokenArray) -> TokenArray:
    """Return blocks of 16 bytes encrypted one by one."""
    # ECB is AES itself on many blocks; the chaining is in ``_prf``.
    cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305
    payload = cipher.encryptor().update(raw_bytes(blocks.astype(_WORD, copy=False)))
    return np.frombuffer(payload, dtype=_WORD).reshape(-1, 2)

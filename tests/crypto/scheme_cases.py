"""Both halves of every scheme of the table, and sums of tables made with them."""

from __future__ import annotations

from functools import cache
from secrets import token_bytes
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hyfdca.crypto.schemes import paillier_keys
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.base import Adder, Sealer
from hyfdca.crypto.schemes.paillier_keys import MODULUS_BITS, TEST_BITS, SecretKey
from hyfdca.crypto.schemes.registry import (
    Adders,
    Encryption,
    Sealers,
    new_keys,
    public_parameters,
)
from tests.support.set_keys import sealer_of, sealers_of
from tests.support.thoroughness import examples

EVERYWHERE = slice(None)


class Subject(NamedTuple):
    """Both halves of a scheme, and its keys."""

    name: str
    encryption: Encryption
    keys: dict[str, bytes]
    sealers: Sealers
    sealer: Sealer
    seed: bytes
    adder: Adder


SUBJECTS = {
    "none": ("none", Encryption()),
    "stream": ("stream", Encryption("stream")),
    "bfv": ("bfv", Encryption("bfv")),
    "bfv-compact": ("bfv", Encryption("bfv", "compact")),
    "paillier": ("paillier", Encryption("paillier")),
    "paillier-compact": ("paillier", Encryption("paillier", "compact")),
    "paillier-single": ("paillier-single", Encryption("paillier-single")),
}
REAL = {
    f"{name}-{bits}": (name, Encryption(name, paillier_bits=bits))
    for name in ("paillier", "paillier-single")
    for bits in MODULUS_BITS
}


def fresh(name: str) -> Subject:
    """Return a scheme with new keys, small ones for Paillier in fast tests."""
    scheme, encryption = {**SUBJECTS, **REAL}[name]
    with pytest.MonkeyPatch.context() as patch:
        keys = new_keys(encryption) if name in REAL or "paillier" not in name else None
        if keys is None:
            patch.setattr(paillier_keys, "MODULUS_BITS", (TEST_BITS,))
            key = SecretKey.generate(TEST_BITS, for_tests=True)
            keys = {"paillier": key.to_bytes(), "stream": b""}
        sealers = sealers_of(encryption, keys)
        seed = token_bytes(32)
        sealer = sealer_of(encryption, keys, scheme, seed)
        adders = Adders(encryption, public_parameters(keys))
        return Subject(
            name, encryption, keys, sealers, sealer, seed, adders.named(scheme)
        )


subject_named = cache(fresh)

FAST = pytest.mark.parametrize("name", SUBJECTS)
SEALED = pytest.mark.parametrize("name", [name for name in SUBJECTS if name != "none"])
PACKED = ["bfv", "bfv-compact", "paillier", "paillier-compact", "paillier-single"]
FEW = settings(max_examples=examples(20))


def shape_of(subject, arrangement, width, items=None):
    """Return the units and their width that a server expects."""
    if subject.adder.n_slots is None:
        return (arrangement.n_items if items is None else len(items), width)
    blocks = arrangement.blocks(width, subject.adder.n_slots)
    return (len(blocks.covering(items)), 1)


def added(subject, arrangement, *tables):
    """Return the bytes of the sum of sealed tables."""
    adder, width = subject.adder, tables[0].shape[1]
    shape = shape_of(subject, arrangement, width)
    total = adder.zeros(shape)
    for table in tables:
        payload = subject.sealer.seal(table, arrangement)
        adder.add(total, EVERYWHERE, adder.load(on_the_wire(payload), shape))
    return on_the_wire(adder.dump(total))


def on_the_wire(payload):
    """Return bytes as they come out of a message: read-only and anywhere."""
    return memoryview(b"?" + bytes(payload))[1:]


@st.composite
def tables(draw, bits, n_tables=2, max_items=9):
    """Draw an arrangement and tables whose sums stay at or below 2**bits."""
    n_items, width = draw(st.integers(0, max_items)), draw(st.integers(1, 3))
    groups = draw(arrays(np.int64, n_items, elements=st.integers(0, 3)))
    largest = 2**bits // n_tables
    numbers = st.integers(-largest, largest) | st.sampled_from([-largest, largest, -1])
    shape = (n_items, width)
    drawn = [draw(arrays(np.int64, shape, elements=numbers)) for _ in range(n_tables)]
    return Arrangement(groups), drawn

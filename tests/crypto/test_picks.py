"""Which scheme seals what: by bytes, from those that a study allows."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.registry import (
    SCHEMES,
    Adders,
    Encryption,
    Use,
)
from tests.support.set_keys import sealers_of


@pytest.mark.parametrize(
    ("encryption", "names"),
    [
        (Encryption(), ("none",)),
        (Encryption("stream"), ("stream",)),
        (Encryption("bfv"), ("bfv", "stream")),
        (Encryption("bfv", small_vectors="same"), ("bfv",)),
        (Encryption("paillier"), ("paillier",)),
        (Encryption("paillier-single"), ("paillier-single",)),
    ],
    ids=lambda value: (
        value.scheme + value.small_vectors
        if value != () and hasattr(value, "scheme")
        else ""
    ),
)
def test_a_client_takes_the_schemes_of_its_study_alone(encryption, names):
    """Any other name is refused, none at all first of all."""
    keys = {"none": b"", "stream": bytes(32), "bfv": b"", "paillier": b""}
    sealers = sealers_of(encryption, keys)
    assert encryption.names == names
    for name in {*SCHEMES, "", "NONE", "plain"} - set(names):
        with pytest.raises(ValueError, match="does not allow"):
            sealers.check(name)


@pytest.mark.parametrize(
    ("n_items", "share", "n_summands", "expected"),
    [
        (4096, 1.0, 3, "bfv"),
        (2000, 1.0, 3, "bfv"),
        (100, 1.0, 3, "stream"),
        (100_000, 1.0, 3, "bfv"),
        (100_000, 1e-3, 3, "stream"),
        (100_000, 1.0, 10_001, "stream"),
    ],
)
def test_blocks_are_used_where_they_fill(n_items, share, n_summands, expected):
    """Short vectors, few drawn samples and too long sums go number by number."""
    use = Use(Arrangement.together(n_items), 1, share, n_summands)
    public = {"bfv": b"", "stream": b""}
    assert Adders(Encryption("bfv"), public).pick(use) == expected
    same = Adders(Encryption("bfv", small_vectors="same"), public)
    if n_summands > 10_000:
        with pytest.raises(ValueError, match="can add 10,000 vectors"):
            same.pick(use)
    else:
        assert same.pick(use) == "bfv"


def test_tiny_owner_groups_go_number_by_number():
    """A block a group would be nearly empty."""
    use = Use(Arrangement(np.arange(4096) // 10), 1)
    adders = Adders(Encryption("bfv"), {"bfv": b"", "stream": b""})
    assert adders.pick(use) == "stream"

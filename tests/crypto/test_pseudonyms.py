"""Pseudonyms and tokens: equal for equal things under one key, and nothing else."""

from __future__ import annotations

import hashlib
import unicodedata

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import example, given
from hypothesis import strategies as st

from hyfdca.crypto.keys.pseudonyms import (
    AlignmentKeys,
    cell_tokens,
    feature_pseudonyms,
    feature_words,
    group_digests,
    label_tokens,
    level_pseudonyms,
    level_words,
    name_digests,
    number_words,
    sample_pseudonyms,
    start_tokens,
)
from hyfdca.data.tables import normalised

KEYS = AlignmentKeys(b"s" * 32, b"l" * 32, b"c" * 32)
OTHER = AlignmentKeys(b"S" * 32, b"L" * 32, b"C" * 32)
TEXTS = st.lists(st.text().map(normalised), unique=True, max_size=20)


def distinct(tokens):
    return {row.tobytes() for row in tokens}


@given(TEXTS)
def test_pseudonyms_are_a_keyed_hash(ids):
    """A pseudonym is BLAKE2b of the ID's UTF-8 under the key, as two words."""
    found = sample_pseudonyms(ids, KEYS)
    assert found.shape == (len(ids), 2)
    assert found.dtype == np.uint64
    for text, own in zip(ids, found, strict=True):
        expected = hashlib.blake2b(
            text.encode(), key=KEYS.samples, digest_size=16, person=b"hyfdca sample id"
        )
        assert own.tobytes() == expected.digest()
    assert len(distinct(found)) == len(ids)


@given(TEXTS)
def test_pseudonyms_do_not_link(ids):
    """Another study's pseudonyms and a feature of the same name are all different."""
    own = distinct(sample_pseudonyms(ids, KEYS))
    for others in (
        sample_pseudonyms(ids, OTHER),
        feature_pseudonyms(ids, KEYS),
        name_digests(ids),
    ):
        assert own.isdisjoint(distinct(others))


@given(st.text())
def test_ids_are_normalised_once(text):
    """What the reader of tables makes of an ID stays so, whatever form it came in."""
    forms = [text, f" {text}\t", unicodedata.normalize("NFD", text), normalised(text)]
    assert len(distinct(sample_pseudonyms(list(map(normalised, forms)), KEYS))) == 1


def test_label_tokens():
    """Tokens agree where ID and label do, and not where the two only join up alike."""
    rows = sample_pseudonyms(["a", "ab", "a", "b"], KEYS)
    tokens = label_tokens(rows, ["bc", "c", "bc", "bc"], KEYS)
    assert tokens[0] == tokens[2]
    assert len(set(tokens.tolist())) == 3
    others = label_tokens(rows, ["bc", "c", "bc", "bc"], OTHER)
    assert not set(tokens.tolist()) & set(others.tolist())


VALUES = st.floats(allow_nan=True, allow_infinity=False)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=20))
@example([(0.0, -0.0), (np.nan, -np.nan), (np.nan, 0.0)])
def test_cell_tokens(pairs):
    """Tokens of two cells are equal if and only if the values are, or both missing."""
    first, second = np.array(pairs).T
    rows = sample_pseudonyms(["a"] * len(pairs), KEYS)
    words = feature_words(["f"] * len(pairs))
    tokens, others = (
        cell_tokens(rows, words, number_words(values), KEYS)
        for values in (first, second)
    )
    equal = tokens == others
    expected = (first == second) | (np.isnan(first) & np.isnan(second))
    np.testing.assert_array_equal(equal, expected)


def test_cell_tokens_are_of_row_feature_and_value():
    """The same value elsewhere has another token; none is that of a row's start."""
    rows = sample_pseudonyms(["a", "b"], KEYS).repeat(2, axis=0)
    words = np.tile(feature_words(["f", "g"]), 2)
    values = number_words(np.array([0.0, 0.0, -0.0, np.nan]))
    tokens = [
        *cell_tokens(rows, words, values, KEYS),
        *start_tokens(rows, *words[:1], KEYS)[1:3],
    ]
    assert len(set(tokens)) == 6
    assert len(set(tokens) & set(cell_tokens(rows, words, values, OTHER))) == 0


def test_digests_of_groups():
    """They are of all items of a group in their order, of the purpose and the key."""
    words = feature_words(["a", "b", "c"])
    groups, key = np.array([1, 0, 1]), KEYS.cells
    digests = group_digests(groups, words, "row", key)
    alone = group_digests(np.array([0, 0]), words[[0, 2]], "row", key)
    assert np.array_equal(digests[1], alone[0])
    assert len(group_digests(np.empty(0, np.int64), words[:0], "row", key)) == 0
    others = [
        group_digests(np.array([0, 0]), words[[2, 0]], "row", key),
        group_digests(groups, words, "column", key),
        group_digests(groups, words, "row", OTHER.cells),
    ]
    assert len(distinct(np.concatenate([digests, *others]))) == 7


def test_cell_tokens_are_a_cbc_mac():
    """A token is the beginning of AES-CBC's last block over row, feature and value."""
    rows, words = sample_pseudonyms(["a"], KEYS), feature_words(["f"])
    [token] = cell_tokens(rows, words, number_words(np.array([1.5])), KEYS)
    cipher = Cipher(algorithms.AES(KEYS.cells), modes.CBC(bytes(16))).encryptor()
    blocks = rows.tobytes() + words.tobytes() + np.array([1.5]).tobytes()
    assert cipher.update(blocks)[16:24] == token.tobytes()


def test_level_pseudonyms():
    """Levels differ by name, column and key, and not where the two join up alike."""
    own = level_pseudonyms("ward", ["ICU", "", "1 ICU"], KEYS)
    others = (
        level_pseudonyms("war", ["dICU"], KEYS),
        level_pseudonyms("ward", ["ICU"], OTHER),
        sample_pseudonyms(["4 wardICU"], KEYS),
    )
    assert len(distinct(np.concatenate([own, *others]))) == 6
    assert distinct(level_pseudonyms("ward", ["ICU"], KEYS)) < distinct(own)


def test_cells_of_categories_are_compared_by_name():
    """The token of a cell is that of its level's name, and of no number."""
    rows, words = sample_pseudonyms(["a"] * 3, KEYS), feature_words(["f"] * 3)
    tokens = cell_tokens(rows, words, level_words(["x", "x", "y"]), KEYS)
    assert tokens[0] == tokens[1] != tokens[2]


def test_nothing_has_no_tokens():
    """No rows give no tokens."""
    none = sample_pseudonyms([], KEYS)
    assert none.shape == (0, 2)
    assert label_tokens(none, [], KEYS).shape == (0,)
    nothing = number_words(np.empty(0))
    assert cell_tokens(none, feature_words([]), nothing, KEYS).shape == (0,)


def test_keys():
    """Keys are three different ones of 32 bytes, and are not shown."""
    assert "s" * 5 not in repr(KEYS)
    with pytest.raises(ValueError, match="three different keys"):
        AlignmentKeys(b"s" * 32, b"s" * 32, b"c" * 32)
    with pytest.raises(ValueError, match="32 bytes"):
        AlignmentKeys(b"s" * 32, b"l" * 16, b"c" * 32)

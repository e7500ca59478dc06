"""Paillier: exact sums in every slot, fresh randomness, and nothing wrong accepted."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hyfdca.crypto.schemes.paillier import (
    CAPACITY,
    LARGEST_SUM,
    PaillierAddition,
    PaillierCipher,
)
from hyfdca.crypto.schemes.paillier_keys import PublicKey, SecretKey
from hyfdca.maths.seeds import stream

KEY = SecretKey.generate(512, for_tests=True)
N_PACKED = 7  # slots of 64 bits that fit below half of 512 bits
HALF = LARGEST_SUM // 2


def halves(packed=True, key=KEY, limit=LARGEST_SUM):
    """Return a client's and the server's half of the scheme."""
    cipher = PaillierCipher(key, packed=packed, limit=limit)
    return cipher, PaillierAddition(key.public, packed=packed)


PACKED = halves()
BOTH = pytest.mark.parametrize(
    ("cipher", "addition"), [PACKED, halves(packed=False)], ids=["packed", "unpacked"]
)


def pairs(n_slots):
    """Draw two tables whose sums stay in their slots, and often just so."""
    numbers = st.integers(-HALF, HALF) | st.sampled_from([-HALF, HALF, -1, 0, 1])
    table = arrays(np.int64, (2, n_slots), elements=numbers)
    return st.tuples(table, table)


def added(addition, *sealed):
    """Return the sum of sealed tables, as a server finds it."""
    total = addition.zeros(len(sealed[0]))
    for blocks in sealed:
        addition.add(total, np.arange(len(blocks)), addition.load(blocks))
    return addition.dump(total)


def decrypted(key, block):
    """Return what a block holds by the definition, in Python's own arithmetic."""
    n = int(key.p) * int(key.q)
    order = math.lcm(int(key.p) - 1, int(key.q) - 1)
    ciphertext = int.from_bytes(block.tobytes(), "little")
    message = (pow(ciphertext, order, n * n) - 1) // n * pow(order, -1, n) % n
    return message - n if message > n // 2 else message


def encrypted(key, message):
    """Return a block made by the definition, in Python's own arithmetic."""
    n = int(key.p) * int(key.q)
    number = pow(1 + n, message % n, n * n) * pow(12345, n, n * n) % (n * n)
    return np.frombuffer(number.to_bytes(key.public.bits // 4, "little"), np.uint8)


def packed_number(row):
    return sum(int(number) << (64 * slot) for slot, number in enumerate(row))


@given(pairs(N_PACKED))
def test_packed_sums_are_exact(tables):
    """Opening the sum of two sealed tables gives the sum of the tables."""
    cipher, addition = PACKED
    total = added(addition, *map(cipher.seal, tables))
    np.testing.assert_array_equal(cipher.open(total), sum(tables))


@given(pairs(1))
def test_unpacked_sums_are_exact(tables):
    """Sums are also exact with one number per block."""
    cipher, addition = halves(packed=False)
    total = added(addition, *map(cipher.seal, tables))
    np.testing.assert_array_equal(cipher.open(total), sum(tables))


@pytest.mark.parametrize("low", [-LARGEST_SUM, -1, 0, 1, LARGEST_SUM])
@pytest.mark.parametrize("high", [-LARGEST_SUM, -1, 0, 1, LARGEST_SUM])
def test_neighbours_do_not_touch(low, high):
    """The extremes next to each other, in every slot, stay what they are."""
    cipher, _ = PACKED
    numbers = np.array([[low, high] * 4, [high, low] * 4])[:, :N_PACKED]
    np.testing.assert_array_equal(cipher.open(cipher.seal(numbers)), numbers)


@BOTH
@pytest.mark.parametrize("sign", [-1, 1])
def test_ten_thousand_summands_at_the_bound(cipher, addition, sign):
    """Ten thousand numbers, as large as they may be, add up exactly."""
    n_summands = 10_000
    row = np.full((1, cipher.n_slots), sign * (LARGEST_SUM // n_summands))
    row[:, 1::2] *= -1
    sealed = cipher.seal(row)
    total, loaded = addition.zeros(1), addition.load(sealed)
    for _ in range(n_summands):
        addition.add(total, np.arange(1), loaded)
    opened = cipher.open(addition.dump(total))
    np.testing.assert_array_equal(opened, n_summands * row)
    assert n_summands <= CAPACITY


@BOTH
def test_an_empty_table(cipher, addition):
    """No rows give no blocks, and conversely."""
    nothing = cipher.seal(np.empty((0, cipher.n_slots), np.int64))
    assert nothing.shape == (0, cipher.block_bytes)
    assert cipher.open(added(addition, nothing, nothing)).shape == (0, cipher.n_slots)


@BOTH
def test_equal_numbers_seal_differently(cipher, addition):
    """No two blocks are alike, be it in one call or in two, pooled or not."""
    cipher.pool.fill(5)
    zeros = np.zeros((4, cipher.n_slots), np.int64)
    sealed = np.concatenate([cipher.seal(zeros), cipher.seal(zeros)])
    assert len(np.unique(sealed, axis=0)) == 8


@given(arrays(np.int64, (1, N_PACKED), elements=st.integers(-LARGEST_SUM, LARGEST_SUM)))
def test_the_definition_opens_what_was_sealed(numbers):
    """Textbook decryption finds the number whose digits are the slots."""
    cipher, _ = PACKED
    assert decrypted(KEY, cipher.seal(numbers)[0]) == packed_number(numbers[0])


@given(arrays(np.int64, (1, N_PACKED), elements=st.integers(-LARGEST_SUM, LARGEST_SUM)))
def test_what_the_definition_seals_is_opened(numbers):
    """Textbook encryption is understood, so the two agree in both directions."""
    cipher, addition = PACKED
    blocks = encrypted(KEY, packed_number(numbers[0]))[None]
    addition.load(blocks)
    np.testing.assert_array_equal(cipher.open(blocks), numbers)


@pytest.mark.parametrize("packed", [False, True])
def test_phe_agrees(packed):
    """An independent library opens our sums and we open its ciphertexts."""
    reason = "phe is not installed; it is in the extra hyfdca[bench]"
    phe = pytest.importorskip("phe", reason=reason)
    public = phe.PaillierPublicKey(int(KEY.p * KEY.q))
    secret = phe.PaillierPrivateKey(public, int(KEY.p), int(KEY.q))
    cipher, addition = halves(packed)
    numbers = stream(3, "phe").integers(-HALF, HALF, (2, 1, cipher.n_slots))
    total = added(addition, *map(cipher.seal, numbers))
    found = secret.raw_decrypt(int.from_bytes(total.tobytes(), "little"))
    expected = packed_number(numbers.sum(axis=0)[0])
    assert found == expected % public.n
    theirs = public.raw_encrypt(expected % public.n)
    row = np.frombuffer(theirs.to_bytes(cipher.block_bytes, "little"), np.uint8)
    np.testing.assert_array_equal(cipher.open(row[None]), numbers.sum(axis=0))


@BOTH
def test_numbers_beyond_the_slot_are_refused(cipher, addition):
    """The one number of int64 that has no negative is refused, never wrapped."""
    numbers = np.zeros((2, cipher.n_slots), np.int64)
    numbers[1, -1] = -(2**63)
    with pytest.raises(ValueError, match="exceeds"):
        cipher.seal(numbers)


@pytest.mark.parametrize("packed", [False, True])
def test_sums_beyond_the_limit_are_refused(packed):
    """By default nothing above the grid's 2**58 is sealed, and no such sum opened."""
    cipher = PaillierCipher(KEY, packed=packed)
    addition = PaillierAddition(KEY.public, packed=packed)
    most = np.full((1, cipher.n_slots), 2**58)
    sealed = cipher.seal(most)
    np.testing.assert_array_equal(cipher.open(sealed), most)
    with pytest.raises(ValueError, match="exceeds"):
        cipher.seal(most + 1)
    with pytest.raises(ValueError, match="exceeds"):
        cipher.open(added(addition, sealed, sealed))


def test_a_last_slot_that_overflows_is_noticed():
    """Beyond the last slot there is room to see that a sum outgrew it."""
    cipher, addition = PACKED
    for sign in (-1, 1):
        sealed = cipher.seal(np.full((1, N_PACKED), sign * LARGEST_SUM))
        with pytest.raises(ValueError, match="outgrew its slot"):
            cipher.open(added(addition, sealed, sealed))


@pytest.mark.parametrize("limit", [0, -1, 2**63])
def test_limits_that_do_not_fit(limit):
    """A limit must be positive and fit its slot."""
    with pytest.raises(ValueError, match="a slot holds"):
        PaillierCipher(KEY, limit=limit)


@BOTH
@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (np.zeros((2, 3)), "expected rows of"),
        (np.zeros(7, np.int64), "expected rows of"),
        (np.zeros((2, 0), np.int64), "expected rows of"),
        (None, "whole numbers"),
    ],
)
def test_numbers_of_another_kind(cipher, addition, numbers, message):
    """Only int64 rows as wide as a block are sealed."""
    with pytest.raises(ValueError, match=message):
        cipher.seal(np.zeros((1, cipher.n_slots)) if numbers is None else numbers)


@BOTH
def test_another_key_opens_nothing(cipher, addition):
    """What was sealed with one key cannot be opened, nor misread, with another."""
    other = SecretKey.generate(512, for_tests=True)
    blocks = cipher.seal(np.ones((4, cipher.n_slots), np.int64))
    stranger = PaillierCipher(other, packed=cipher.n_slots > 1)
    for block in blocks:
        with pytest.raises(ValueError, match="block"):
            stranger.open(block[None])


@BOTH
def test_damaged_blocks_are_noticed(cipher, addition):
    """A flipped bit, wherever it is, makes a block that cannot be opened."""
    block = cipher.seal(np.full((1, cipher.n_slots), -5))
    for bit in stream(1, "flips").integers(0, 8 * cipher.block_bytes, 40):
        damaged = block.copy()
        damaged[0, bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(ValueError, match="block"):
            cipher.open(damaged)


def _not_ciphertexts():
    n = int(KEY.p * KEY.q)
    return {
        "zero": 0,
        "n squared": n * n,
        "all ones": 2**1024 - 1,
        "n": n,
        "a multiple of p": int(KEY.p) * 17,
        "a multiple of q": int(KEY.q) ** 3,
    }


@BOTH
@pytest.mark.parametrize("name", _not_ciphertexts())
def test_what_is_no_ciphertext_is_refused(cipher, addition, name):
    """Both halves refuse a row that no sealing can have made, among good ones."""
    blocks = cipher.seal(np.ones((3, cipher.n_slots), np.int64))
    number = _not_ciphertexts()[name]
    blocks[1] = np.frombuffer(number.to_bytes(cipher.block_bytes, "little"), np.uint8)
    for reader in (cipher.open, addition.load):
        with pytest.raises(ValueError, match="is not a ciphertext"):
            reader(blocks)


@BOTH
def test_rows_of_another_length(cipher, addition):
    """Truncated, flat or wider rows are refused by both halves."""
    blocks = cipher.seal(np.ones((2, cipher.n_slots), np.int64))
    wrong = [
        blocks[:, :-1],
        blocks[0],
        blocks.astype(np.int64),
        np.hstack([blocks] * 2),
    ]
    for rows in wrong:
        for reader in (cipher.open, addition.load):
            with pytest.raises(ValueError, match="expected blocks of 128 bytes"):
                reader(rows)


def test_read_only_rows_are_read():
    """Rows that came off the wire are opened, checked and added as they are."""
    cipher, addition = PACKED
    numbers = np.arange(2 * N_PACKED).reshape(2, N_PACKED)
    payload = cipher.seal(numbers).tobytes()
    rows = np.frombuffer(payload, np.uint8).reshape(2, -1)
    np.testing.assert_array_equal(cipher.open(added(addition, rows, rows)), 2 * numbers)


def test_threads_share_a_pool():
    """Blocks sealed side by side from one pool are all different."""
    cipher, _ = halves()
    cipher.pool.fill(30)
    sealed = []
    zeros = np.zeros((20, N_PACKED), np.int64)
    threads = [
        threading.Thread(target=lambda: sealed.append(cipher.seal(zeros)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(np.unique(np.concatenate(sealed), axis=0)) == 80


@pytest.mark.parametrize("packed", [False, True])
def test_slots_and_sizes(packed):
    """At 2048 bits 31 slots fit, at 3072 bits 47, and a block is twice as long."""
    for bits, n_slots in ((2048, 31), (3072, 47)):
        addition = PaillierAddition(_modulus_of(bits), packed=packed)
        assert addition.n_slots == (n_slots if packed else 1)
        assert addition.block_bytes == bits // 4


def _modulus_of(bits):
    """Return an odd composite number that could be a modulus, for its length."""
    number = 2 ** (bits - 1) + 1
    while True:
        number += 2
        try:
            return PublicKey.from_bytes(number.to_bytes(bits // 8, "little"))
        except ValueError:
            continue


def test_representations_keep_secrets():
    """Neither the halves nor the keys show more than a fingerprint."""
    cipher, addition = PACKED
    for shown in (cipher, addition, KEY, KEY.public, cipher.pool):
        text = repr(shown)
        for secret in (KEY.p, KEY.q, KEY.p * KEY.q):
            assert str(secret)[:12] not in text
            assert f"{secret:x}"[:12] not in text
    assert KEY.public.fingerprint in repr(cipher)
    assert KEY.public.fingerprint in repr(addition)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [2048, 3072])
@pytest.mark.parametrize("packed", [False, True])
def test_real_sizes(bits, packed):
    """With real keys sums are exact, by our arithmetic and by the definition."""
    key = SecretKey.generate(bits)
    cipher, addition = halves(packed, key)
    third = LARGEST_SUM // 3
    numbers = stream(bits, "real").integers(-third, third, (3, 2, cipher.n_slots))
    numbers[:, 0] = np.where(np.arange(cipher.n_slots) % 2, -third, third)
    total = added(addition, *map(cipher.seal, numbers))
    np.testing.assert_array_equal(cipher.open(total), numbers.sum(axis=0))
    assert decrypted(key, total[0]) == packed_number(numbers.sum(axis=0)[0])
    total[0, 0] ^= 1
    with pytest.raises(ValueError, match="block"):
        cipher.open(total)

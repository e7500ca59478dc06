"""BFV: the server's own additions against SEAL's, and the process that seals."""

from __future__ import annotations

import io
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import seal
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.crypto import bfv_worker
from hyfdca.crypto.bfv import BfvAddition, BfvCipher
from hyfdca.crypto.bfv_blocks import (
    COMPACT,
    FULL,
    BfvBlocks,
    BfvParameters,
    new_secret_key,
)
from hyfdca.crypto.schemes import SUM_BITS
from hyfdca.seeds import stream

PROFILES = {"full": FULL, "compact": COMPACT}
LETTERS = {"full": b"f", "compact": b"c"}
BOTH = pytest.mark.parametrize("profile", PROFILES)


@cache
def key_of(profile):
    """Return a key of these parameters, made once."""
    return new_secret_key(PROFILES[profile])


@cache
def blocks_of(profile):
    """Return what seals and opens in this process."""
    return BfvBlocks(PROFILES[profile], key_of(profile))


def numbers_for(profile, n_blocks, seed=0, share=1):
    """Return random numbers up to a share of what sums may be."""
    largest = 2 ** SUM_BITS[profile] // share
    random = stream(seed, "bfv")
    return random.integers(-largest, largest, (n_blocks, 4096), endpoint=True)


def words_of(profile, block):
    """Return the residues of a block, each byte by byte."""
    n_bytes = PROFILES[profile].residue_bytes
    rows = block.reshape(-1, n_bytes).astype(np.uint64)
    return (rows << (8 * np.arange(n_bytes, dtype=np.uint64))).sum(
        axis=1, dtype=np.uint64
    )


def in_seal(profile, context, block):
    """Return a block as a ciphertext of SEAL's."""
    header = blocks_of(profile)._header
    return context.from_cipher_str(header + words_of(profile, block).tobytes())


@BOTH
def test_adding_residues_is_what_seal_does(profile):
    """The server's sums are those of SEAL's Evaluator, bit for bit."""
    parameters, blocks = PROFILES[profile], blocks_of(profile)
    context = parameters.context()
    evaluator, addition = seal.Evaluator(context), BfvAddition(parameters)
    sealed = blocks.seal(numbers_for(profile, 6, share=6))
    total = addition.zeros(2)
    total[:] = addition.load(sealed[:2])
    expected = [in_seal(profile, context, block) for block in sealed[:2]]
    for part in (sealed[2:4], sealed[4:]):
        # In the other order, so that places are looked at.
        addition.add(total, np.array([1, 0]), addition.load(part))
        for place, block in zip((1, 0), part, strict=True):
            evaluator.add_inplace(expected[place], in_seal(profile, context, block))
    for row, ciphertext in zip(addition.dump(total), expected, strict=True):
        written = ciphertext.to_string()
        residues = np.frombuffer(written, np.uint64, offset=len(blocks._header))
        np.testing.assert_array_equal(words_of(profile, row), residues)


@BOTH
def test_a_block_is_its_residues_without_zero_bytes(profile):
    """Loading gives SEAL's residues, dumping gives the bytes back."""
    parameters = PROFILES[profile]
    addition = BfvAddition(parameters)
    sealed = blocks_of(profile).seal(numbers_for(profile, 3))
    loaded = addition.load(sealed)
    for row, block in zip(loaded, sealed, strict=True):
        np.testing.assert_array_equal(row, words_of(profile, block))
    np.testing.assert_array_equal(addition.dump(loaded), sealed)
    assert sealed.shape[1] == parameters.block_bytes
    assert parameters.block_bytes == {"full": 24, "compact": 16}[profile] * 4096
    assert addition.load(sealed[:0]).shape == (0, parameters.n_residues)


@BOTH
@pytest.mark.parametrize("above", [0, 1, "most"])
@pytest.mark.parametrize("place", [0, 4095, 4096, 8191, -1])
def test_a_residue_that_is_not_below_its_prime_is_refused(profile, above, place):
    """At either end of each run of residues, by the server and by clients."""
    parameters = PROFILES[profile]
    addition, blocks = BfvAddition(parameters), blocks_of(profile)
    sealed = blocks.seal(numbers_for(profile, 2))
    run = place % parameters.n_residues // 4096
    prime = parameters.primes[run % len(parameters.primes)]
    n_bytes = parameters.residue_bytes

    def with_residue(value):
        spoilt = sealed.copy()
        residues = spoilt[1].reshape(-1, n_bytes)
        residues[place] = np.frombuffer(value.to_bytes(n_bytes, "little"), np.uint8)
        return spoilt

    largest = addition.load(with_residue(prime - 1))
    assert int(largest[1, place]) == prime - 1
    wrong = with_residue(2 ** (8 * n_bytes) - 1 if above == "most" else prime + above)
    with pytest.raises(ValueError, match="below its prime"):
        addition.load(wrong)
    with pytest.raises(ValueError, match="no ciphertext"):
        blocks.open(wrong)


@settings(max_examples=10)
@given(st.data())
def test_sums_of_residues_stay_below_their_primes(data):
    """Whatever two residues are added, the sum is that of whole numbers."""
    parameters = data.draw(st.sampled_from([FULL, COMPACT]))
    addition = BfvAddition(parameters)
    random = np.random.Generator(np.random.PCG64(data.draw(st.integers(0, 99))))
    primes = np.repeat(
        np.tile(np.array(parameters.primes, np.uint64), 2), parameters.ring_degree
    )
    ours, theirs = (random.integers(0, primes, dtype=np.uint64) for _ in range(2))
    ours[::7], theirs[::5] = primes[::7] - np.uint64(1), primes[::5] - np.uint64(1)
    total = ours[None].copy()
    addition.add(total, np.array([0]), theirs[None])
    expected = (ours.astype(object) + theirs.astype(object)) % primes.astype(object)
    assert total[0].tolist() == expected.tolist()


@BOTH
def test_noise_of_a_full_sum_leaves_room(profile):
    """At its capacity a sum of one ciphertext, the worst, has noise to spare."""
    parameters, blocks = PROFILES[profile], blocks_of(profile)
    addition = BfvAddition(parameters)
    numbers = numbers_for(profile, 1, share=parameters.capacity)
    vector = addition.load(blocks.seal(numbers))
    total = addition.zeros(1)
    for _ in range(parameters.capacity):
        addition.add(total, np.array([0]), vector)
    summed = addition.dump(total)
    np.testing.assert_array_equal(blocks.open(summed), parameters.capacity * numbers)
    context = parameters.context()
    decryptor = seal.Decryptor(context, context.from_secret_str(key_of(profile)))
    budget = decryptor.invariant_noise_budget(in_seal(profile, context, summed[0]))
    assert budget >= 1


@BOTH
def test_plaintexts_have_room_for_the_grid(profile):
    """Sums up to the bits of the study stay below half of the plaintext modulus."""
    assert 2 ** SUM_BITS[profile] < PROFILES[profile].plaintext_modulus // 2
    half = PROFILES[profile].plaintext_modulus // 2
    cipher = BfvCipher(PROFILES[profile], key_of(profile))
    numbers = np.zeros((1, 4096), np.int64)
    numbers[0, :2] = [half - 1, 1 - half]
    np.testing.assert_array_equal(cipher.open(cipher.seal(numbers)), numbers)
    for wrong in (half, -half, 2**62):
        numbers[0, 3] = wrong
        with pytest.raises(ValueError, match="what a slot can hold"):
            cipher.seal(numbers)


def test_parameters_that_are_not_secure_are_refused():
    """SEAL checks 128 bits of security, and who asks is told."""
    weak = BfvParameters(4096, (1152921504606830593,) * 2, (), 17592186028033, 1)
    with pytest.raises(ValueError, match="SEAL refuses"):
        weak.context()
    larger = BfvParameters(
        4096, (*FULL.primes, *COMPACT.primes), (), FULL.plaintext_modulus, 1
    )
    with pytest.raises(ValueError, match="SEAL refuses"):
        larger.context()


@BOTH
@pytest.mark.parametrize("spoil", [lambda k: k[:-9], lambda k: b"", lambda k: k[::-1]])
def test_what_is_no_key_is_refused_without_showing_it(profile, spoil):
    """The error does not quote what it was given."""
    wrong = spoil(key_of(profile))
    with pytest.raises(ValueError, match=r"^this is no secret key") as raised:
        BfvBlocks(PROFILES[profile], wrong)
    assert raised.value.__cause__ is None
    assert len(str(raised.value)) < 60


def test_a_key_of_other_parameters_is_refused():
    """The two profiles cannot be mixed up."""
    with pytest.raises(ValueError, match="no secret key"):
        BfvBlocks(FULL, key_of("compact"))


# The process


class Trickle(io.BytesIO):
    """A pipe that gives and takes little at a time."""

    def readinto(self, room):
        """Read at most a page."""
        return super().readinto(memoryview(room)[:4000])

    def write(self, content):
        """Write at most a page."""
        return super().write(memoryview(content)[:4000])


def asked(*requests):
    """Return requests as they are written to the pipe."""
    pipe = io.BytesIO()
    for letter, count, content in requests:
        array = np.frombuffer(content, np.uint8)
        bfv_worker.send(pipe, letter, count, array)
    return pipe.getvalue()


def answered(content, sizes):
    """Return the answers: letter, count, bytes; ``sizes`` are of a block, by letter."""
    answers, start = [], 0
    while start < len(content):
        letter, count = bfv_worker.REQUEST.unpack_from(content, start)
        start += bfv_worker.REQUEST.size
        size = count * sizes[letter]
        answers.append((letter, count, content[start : start + size]))
        start += size
    return answers


def conversation(profile, *requests):
    """Have a worker in this process answer, until there is nothing more."""
    key = key_of(profile)
    first = (LETTERS[profile], len(key), key)
    answers = Trickle()
    with pytest.raises(EOFError):
        bfv_worker.serve(Trickle(asked(first, *requests)), answers)
    sizes = {b"s": PROFILES[profile].block_bytes, b"o": 8 * 4096, b"x": 1}
    return answered(answers.getvalue(), sizes)


@BOTH
def test_a_worker_seals_and_opens_as_this_process_does(profile):
    """What one seals the other opens, in both directions, and none is no block."""
    parameters, blocks = PROFILES[profile], blocks_of(profile)
    numbers = numbers_for(profile, 2)
    here = blocks.seal(numbers)
    sealed, nothing, opened = conversation(
        profile,
        (b"s", 2, numbers.tobytes()),
        (b"s", 0, b""),
        (b"o", 2, here.tobytes()),
    )
    assert sealed[:2] == (b"s", 2)
    rows = np.frombuffer(sealed[2], np.uint8).reshape(2, parameters.block_bytes)
    np.testing.assert_array_equal(blocks.open(rows), numbers)
    assert nothing == (b"s", 0, b"")
    assert opened[:2] == (b"o", 2)
    np.testing.assert_array_equal(
        np.frombuffer(opened[2], np.int64).reshape(2, 4096), numbers
    )


@BOTH
def test_a_worker_says_what_is_wrong_and_goes_on(profile):
    """Blocks that do not open, numbers that do not fit: a message, then the next."""
    parameters = PROFILES[profile]
    numbers = numbers_for(profile, 1)
    garbage = bytes([255]) * parameters.block_bytes
    too_large = np.full((1, 4096), 2**62).tobytes()
    wrong, larger, right = conversation(
        profile,
        (b"o", 1, garbage),
        (b"s", 1, too_large),
        (b"s", 1, numbers.tobytes()),
    )
    assert wrong[0] == larger[0] == bfv_worker.FAILED
    assert b"no ciphertext" in wrong[2]
    rows = np.frombuffer(right[2], np.uint8).reshape(1, -1)
    np.testing.assert_array_equal(blocks_of(profile).open(rows), numbers)


@pytest.mark.parametrize("size", [0, 5, 9, 100])
def test_a_worker_ends_when_its_pipe_does(size):
    """Also in the middle of a request."""
    key = key_of("compact")
    started = asked((b"c", len(key), key))
    request = asked((b"s", 1, numbers_for("compact", 1).tobytes()))[:size]
    with pytest.raises(EOFError):
        bfv_worker.serve(io.BytesIO(started + request), io.BytesIO())
    with pytest.raises(EOFError):
        bfv_worker.serve(io.BytesIO(started[:size]), io.BytesIO())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@BOTH
def test_a_worker_process_keeps_the_key_to_itself(profile):
    """Neither its command line nor its environment nor its words show it."""
    key, numbers = key_of(profile), numbers_for(profile, 2)
    command = [sys.executable, "-m", "hyfdca.crypto.bfv_worker"]
    with subprocess.Popen(  # noqa: S603  # ourselves
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        requests = asked((LETTERS[profile], len(key), key))
        requests += asked((b"s", 2, numbers.tobytes()))
        process.stdin.write(requests)
        answer = np.empty(
            bfv_worker.REQUEST.size + 2 * PROFILES[profile].block_bytes, np.uint8
        )
        bfv_worker.receive(process.stdout, answer)
        of_process = Path(f"/proc/{process.pid}")
        seen = (of_process / "cmdline").read_bytes()
        seen += (of_process / "environ").read_bytes()
        left, errors = process.communicate()
    assert process.returncode == 0
    assert left == errors == b""
    pieces = [key[start : start + 8] for start in range(0, len(key) - 8, 8)]
    telling = [piece for piece in pieces if len(set(piece)) > 4]
    assert telling
    assert not any(piece in seen for piece in telling)
    assert not any(piece.hex().encode() in seen for piece in telling)
    rows = answer[bfv_worker.REQUEST.size :].reshape(2, -1)
    np.testing.assert_array_equal(blocks_of(profile).open(rows), numbers)


def test_a_cipher_has_its_work_done_where_it_is_told():
    """Many blocks may be sealed and opened elsewhere, with the same result."""
    blocks, done = blocks_of("compact"), []

    class Elsewhere:
        here = blocks

        def is_worth(self, n_blocks):
            return n_blocks >= 3

        def work(self, what, rows):
            done.append((what, len(rows)))
            return blocks.seal(rows) if what == "seal" else blocks.open(rows)

    cipher = BfvCipher(COMPACT, key_of("compact"), Elsewhere())
    for n_blocks in (3, 2):
        numbers = numbers_for("compact", n_blocks)
        np.testing.assert_array_equal(cipher.open(cipher.seal(numbers)), numbers)
    assert done == [("seal", 3), ("open", 3)]
    assert repr(cipher) == "BfvCipher(a secret key)"

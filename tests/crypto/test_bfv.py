"""BFV: the server's own additions against SEAL's, and the process that seals."""

from __future__ import annotations

import io
import mmap
import subprocess
import sys
import tempfile
from functools import cache

import numpy as np
import pytest
import seal
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.crypto.schemes import bfv_worker
from hyfdca.crypto.schemes.bfv import BfvAddition, BfvCipher
from hyfdca.crypto.schemes.bfv_blocks import (
    COMPACT,
    FULL,
    BfvBlocks,
    BfvParameters,
    _secret_key,
    _signs,
)
from hyfdca.crypto.schemes.registry import SUM_BITS
from hyfdca.maths.seeds import stream

PROFILES = {"full": FULL, "compact": COMPACT}
LETTERS = {"full": b"f", "compact": b"c"}
BOTH = pytest.mark.parametrize("profile", PROFILES)


SEED = bytes(range(32))
OF_ONE = np.zeros(1, np.int64)  # the owner group of one block


def seed_of(group):
    """Return the seed of an owner group's key."""
    return bytes([group]) * 32


@cache
def blocks_of(profile):
    """Return what seals and opens in this process."""
    return BfvBlocks(PROFILES[profile], SEED)


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
    """Server and clients refuse it at either end of each run of residues."""
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
    with pytest.raises(ValueError, match="not a ciphertext"):
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
    context = blocks._context
    decryptor = seal.Decryptor(
        context, blocks._context.from_secret_str(_secret_key(parameters, SEED))
    )
    budget = decryptor.invariant_noise_budget(in_seal(profile, context, summed[0]))
    assert budget >= 1


@BOTH
def test_plaintexts_have_room_for_the_grid(profile):
    """Sums up to the bits of the study stay below half of the plaintext modulus."""
    assert 2 ** SUM_BITS[profile] < PROFILES[profile].plaintext_modulus // 2
    half = PROFILES[profile].plaintext_modulus // 2
    cipher = BfvCipher(PROFILES[profile], seed_of)
    numbers = np.zeros((1, 4096), np.int64)
    numbers[0, :2] = [half - 1, 1 - half]
    np.testing.assert_array_equal(
        cipher.open(cipher.seal(numbers, OF_ONE), OF_ONE), numbers
    )
    for wrong in (half, -half, 2**62):
        numbers[0, 3] = wrong
        with pytest.raises(ValueError, match="what a slot can hold"):
            cipher.seal(numbers, OF_ONE)


def test_parameters_that_are_not_secure_are_refused():
    """SEAL checks for 128 bits of security, and reports it."""
    weak = BfvParameters(4096, (1152921504606830593,) * 2, (), 17592186028033, 1)
    with pytest.raises(ValueError, match="SEAL refuses"):
        weak.context()
    larger = BfvParameters(
        4096, (*FULL.primes, *COMPACT.primes), (), FULL.plaintext_modulus, 1
    )
    with pytest.raises(ValueError, match="SEAL refuses"):
        larger.context()


@BOTH
@pytest.mark.parametrize("size", [0, 31, 33])
def test_what_is_no_seed_is_refused_without_showing_it(profile, size):
    """The error does not quote what it was given."""
    with pytest.raises(ValueError, match=r"^a key of BFV follows from 32 bytes$"):
        BfvBlocks(PROFILES[profile], b"s" * size)


@BOTH
def test_a_seed_gives_a_key_as_seal_makes_them(profile):
    """Coefficients are -1, 0 and 1 alike; the same seed gives the same key."""
    parameters = PROFILES[profile]
    signs = np.bincount(_signs(SEED, 4096), minlength=3)
    assert signs.sum() == 4096
    assert np.all(np.abs(signs - 4096 / 3) < 150)  # five standard deviations
    own = seal.KeyGenerator(parameters.context()).secret_key().to_string()
    made = _secret_key(parameters, SEED)
    assert len(made) == len(own)
    assert made == _secret_key(parameters, SEED)
    assert made != _secret_key(parameters, seed_of(1))


@BOTH
def test_a_group_has_a_key_of_its_own(profile):
    """Blocks open with the key of their group, and are noise with that of another."""
    cipher, groups = BfvCipher(PROFILES[profile], seed_of), np.array([1, 1, 4])
    numbers = numbers_for(profile, 3)
    sealed = cipher.seal(numbers, groups)
    np.testing.assert_array_equal(cipher.open(sealed, groups), numbers)
    wrong = cipher.open(sealed, np.array([4, 1, 1]))
    np.testing.assert_array_equal(wrong[1], numbers[1])
    assert not np.any(wrong[[0, 2]] == numbers[[0, 2]])


# The process


class Trickle(io.BytesIO):
    """A pipe that gives and takes little at a time."""

    def read(self, size=-1):
        """Read at most some bytes."""
        return super().read(min(size, 5))

    def write(self, content):
        """Write at most some bytes."""
        return super().write(memoryview(content)[:5])


def worker_of(profile):
    """Return a worker that shares memory with this process, being in it."""
    parameters = PROFILES[profile]
    memory = mmap.mmap(-1, bfv_worker.shared_size(parameters))
    shared = bfv_worker.shared_arrays(memory, parameters)
    return bfv_worker.WorkerLoop(parameters, shared)


def asked(*requests):
    """Return requests as they are written to the pipe."""
    return b"".join(bfv_worker.MESSAGE.pack(*request) + SEED for request in requests)


def conversation(worker, *requests):
    """Let a worker in this process answer until the requests end."""
    answers = Trickle()
    with pytest.raises(EOFError):
        worker.serve(Trickle(asked(*requests)), answers)
    found, content = [], io.BytesIO(answers.getvalue())
    while header := content.read(bfv_worker.MESSAGE.size):
        letter, count = bfv_worker.MESSAGE.unpack(header)
        is_failed = letter == bfv_worker.FAILED
        found.append((letter, content.read(count) if is_failed else count))
    return found


@BOTH
@pytest.mark.parametrize("n_blocks", [0, 1, bfv_worker.MOST_BLOCKS])
def test_a_worker_seals_and_opens_as_this_process_does(profile, n_blocks):
    """What one seals the other opens, in both directions, even no blocks at all."""
    worker, blocks = worker_of(profile), blocks_of(profile)
    numbers, size = numbers_for(profile, n_blocks), PROFILES[profile].block_bytes
    worker.shared.numbers[:n_blocks] = numbers
    assert conversation(worker, (b"s", n_blocks)) == [(b"s", n_blocks)]
    sealed = worker.shared.sealed[: n_blocks * size].reshape(n_blocks, size)
    np.testing.assert_array_equal(blocks.open(sealed), numbers)
    sealed[:] = blocks.seal(numbers)
    worker.shared.numbers[:] = 0
    assert conversation(worker, (b"o", n_blocks)) == [(b"o", n_blocks)]
    np.testing.assert_array_equal(worker.shared.numbers[:n_blocks], numbers)


@BOTH
def test_a_worker_says_what_is_wrong_and_continues(profile):
    """Blocks that do not open, numbers that do not fit: a message, then the next."""
    worker = worker_of(profile)
    worker.shared.numbers[:] = 2**62
    worker.shared.sealed[:] = 255
    most = bfv_worker.MOST_BLOCKS
    wrong, larger, many = conversation(worker, (b"o", 1), (b"s", 1), (b"s", most + 1))
    assert wrong[0] == larger[0] == many[0] == bfv_worker.FAILED
    assert b"not a ciphertext" in wrong[1]
    assert b"there is room for 8 blocks, not 9" in many[1]
    worker.shared.numbers[:1] = numbers_for(profile, 1)
    assert conversation(worker, (b"s", 1)) == [(b"s", 1)]


@pytest.mark.parametrize("size", [0, 5, 100])
def test_a_worker_ends_when_its_pipe_does(size):
    """It also ends in the middle of a request or of its key."""
    with pytest.raises(EOFError):
        worker_of("compact").serve(io.BytesIO(asked((b"s", 1))[:size]), io.BytesIO())
    with pytest.raises(EOFError):
        bfv_worker.begin(io.BytesIO(asked((b"c", 0))[:size][:5]), -1)


@BOTH
def test_a_worker_takes_its_parameters_from_the_pipe(profile):
    """Parameters and shared memory make a worker; keys come with the requests."""
    parameters = PROFILES[profile]
    with tempfile.TemporaryFile() as file:
        file.truncate(bfv_worker.shared_size(parameters))
        pipe = Trickle(bfv_worker.MESSAGE.pack(LETTERS[profile], 0))
        worker = bfv_worker.begin(pipe, file.fileno())
        worker.shared.numbers[:2] = numbers = numbers_for(profile, 2)
        worker.answer(b"s", 2, SEED)
    sealed = worker.shared.sealed[: 2 * parameters.block_bytes].reshape(2, -1)
    np.testing.assert_array_equal(blocks_of(profile).open(sealed), numbers)


def test_a_cipher_can_have_its_work_done_elsewhere():
    """Many blocks may be sealed and opened elsewhere, with the same result."""
    here, done = BfvCipher(COMPACT, seed_of), []

    class Elsewhere:
        def is_worth(self, n_blocks):
            return n_blocks >= 3

        def work(self, what, rows, seeds):
            done.append((what, len(rows), seeds))
            groups = np.array([seed[0] for seed in seeds])
            return (here.seal if what == "seal" else here.open)(rows, groups)

    cipher = BfvCipher(COMPACT, seed_of, Elsewhere())
    for groups in (np.array([2, 2, 5]), np.array([2, 5])):
        numbers = numbers_for("compact", len(groups))
        opened = cipher.open(cipher.seal(numbers, groups), groups)
        np.testing.assert_array_equal(opened, numbers)
    seeds = [seed_of(2), seed_of(2), seed_of(5)]
    assert done == [("seal", 3, seeds), ("open", 3, seeds)]
    assert repr(cipher) == "BfvCipher(secret keys)"


def test_without_its_library_there_is_a_sentence():
    """It does not exist for some processors."""
    code = "import sys; sys.modules['seal'] = None; import hyfdca.crypto.schemes.bfv"
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    assert ended.returncode
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("hyfdca.errors.StudyError: ")
    assert 'set encryption = "stream"' in last

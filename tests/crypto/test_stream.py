"""Pads that never repeat, and lists of contributors that are always right."""

from __future__ import annotations

import hmac
import itertools
import struct
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.registry import Encryption, new_keys
from hyfdca.crypto.schemes.stream import StreamSealer
from hyfdca.crypto.schemes.stream_sums import StreamAdder
from tests.support.holding_strategies import subsets
from tests.support.set_keys import OneKey, sealer_of
from tests.support.thoroughness import examples

KEY = bytes(range(32))
MASK = 2**64 - 1

GROUPS = st.lists(st.integers(0, 3) | st.just(2**31 - 2), max_size=8)


def pad_of(key, nonce, place):
    """Return a pad by its definition, one block of the cipher by itself."""
    identity, number = nonce[:16], int.from_bytes(nonce[16:], "little")
    # HKDF-Expand (RFC 5869) of 32 bytes is one HMAC.
    own_key = hmac.digest(key, b"pads of " + identity + b"\1", "sha256")
    encryptor = Cipher(algorithms.AES(own_key), modes.ECB()).encryptor()  # noqa: S305
    block = encryptor.update(struct.pack(">QQ", number, place // 2))
    return struct.unpack("<QQ", block)[place % 2]


def places_of(groups, width, items=None):
    """Return the place of each number, (items, width): group, rank in it, column."""
    seen = Counter()
    places = []
    for group in groups:
        first = (group << 32) + seen[group] * width
        places.append([first + column for column in range(width)])
        seen[group] += 1
    return places if items is None else [places[item] for item in items]


def pads_of(payload, numbers):
    """Return the pads that a sealer has added, (items, width)."""
    words = np.frombuffer(bytes(payload)[24:], np.uint64).reshape(numbers.shape)
    return (words - numbers.view(np.uint64)).tolist()


# Pads


class KeyOfGroup:
    """A key for each owner group."""

    by_group = True

    def of(self, group, sealer=b""):
        """Return the key of a group."""
        return group.to_bytes(4, "little") + KEY[4:]


@pytest.mark.parametrize("keys", [OneKey(KEY), KeyOfGroup()], ids=["one", "by group"])
@given(groups=GROUPS, width=st.integers(1, 3), data=st.data())
def test_pads_are_blocks_of_the_cipher(keys, groups, width, data):
    """All at once or one by one, of all items or some, each pad is as defined."""
    arrangement = Arrangement(np.array(groups, np.int64))
    sealer = StreamSealer(keys)
    for items in (None, data.draw(subsets(len(groups)))):
        given_items = None if items is None else np.array(items, np.int64)
        places = places_of(groups, width, items)
        elements = st.integers(-(2**63), 2**63 - 1)
        shape = (len(places), width)
        numbers = data.draw(arrays(np.int64, shape, elements=elements))
        payload = sealer.seal(numbers, arrangement, given_items)
        nonce = bytes(payload[:24])
        expected = [
            [pad_of(keys.of(place >> 32), nonce, place) for place in row]
            for row in places
        ]
        assert pads_of(payload, numbers) == expected


@pytest.mark.parametrize("n_items", [1, 2, 3, 1001])
@pytest.mark.parametrize("group", [0, 1, 2**31 - 2])
def test_a_run_of_pads_is_the_same_as_single_ones(n_items, group):
    """Items of one group are sealed in counter mode, by numbers in single blocks."""
    arrangement = Arrangement(np.full(n_items, group))
    numbers = np.zeros((n_items, 3), np.int64)
    sealer, other = StreamSealer(OneKey(KEY)), StreamSealer(OneKey(KEY))
    other._identity = sealer._identity
    in_a_run = sealer.seal(numbers, arrangement)
    one_by_one = other.seal(numbers, arrangement, np.arange(n_items))
    assert bytes(in_a_run) == bytes(one_by_one)


@st.composite
def seals(draw):
    """Draw who seals what, in which order, now and then starting anew."""
    steps = st.tuples(
        st.integers(0, 2),
        st.sampled_from(["all", "some", "resume"]),
        st.lists(st.integers(0, 2), min_size=1, max_size=5),
        st.integers(1, 3),
    )
    return draw(st.lists(steps, min_size=2, max_size=12))


@given(seals())
def test_no_pad_is_ever_used_twice(steps):
    """Neither by one client, nor by several, nor after they have started again."""
    keys = new_keys(Encryption("stream"))

    def start():
        return sealer_of(Encryption("stream"), keys, "stream")

    sealers = [start() for _ in range(3)]
    used, pads, identities = [], [], {s._identity for s in sealers}
    n_started = 3
    for who, what, groups, width in steps:
        if what == "resume":
            sealers[who] = start()
            identities.add(sealers[who]._identity)
            n_started += 1
        items = [*range(0, len(groups), 2)] if what == "some" else None
        places = places_of(groups, width, items)
        numbers = np.zeros((len(places), width), np.int64)
        payload = sealers[who].seal(
            numbers,
            Arrangement(np.array(groups)),
            None if items is None else np.array(items),
        )
        nonce = bytes(payload[:24])
        used += [(nonce, place) for place in itertools.chain(*places)]
        pads += itertools.chain(*pads_of(payload, numbers))
    assert len(used) == len(set(used))
    assert len(pads) == len(set(pads))
    assert len(identities) == n_started


def test_a_thousand_vectors_have_a_thousand_numbers():
    """A sealer counts its vectors, also empty ones."""
    sealer = StreamSealer(OneKey(KEY))
    nothing = np.empty((0, 1), np.int64)
    nonces = [bytes(sealer.seal(nothing, Arrangement.together(0))) for _ in range(1000)]
    assert len(set(nonces)) == 1000
    assert {len(nonce) for nonce in nonces} == {24}
    assert len({nonce[:16] for nonce in nonces}) == 1


def test_opening_uses_no_number_of_a_sealer():
    """Who opens a sum of its own and goes on sealing does not come back to it."""
    sealer, adder = StreamSealer(OneKey(KEY)), StreamAdder()
    table, anywhere = np.ones((3, 1), np.int64), Arrangement.together(3)
    first = sealer.seal(table, anywhere)
    total = adder.dump(adder.load(first, (3, 1)))
    for _ in range(3):
        np.testing.assert_array_equal(sealer.open(total, 1, anywhere), table)
    assert bytes(sealer.seal(table, anywhere)[:24]) != bytes(first[:24])


# Contributors


def listed(payload, n_items, width):
    """Return the nonces of each row of a sum, by reading the bytes one by one."""
    content = bytes(payload)
    n_nonces, n_runs, depth = struct.unpack_from("<III", content)
    start = 12
    nonces = [content[start + 24 * j :][:24] for j in range(n_nonces)]
    start += 24 * n_nonces
    lengths = struct.unpack_from(f"<{n_runs}I", content, start)
    start += 4 * n_runs
    rows = []
    for run, length in enumerate(lengths):
        ids = struct.unpack_from(f"<{depth}I", content, start + 4 * depth * run)
        rows += [Counter(nonces[i - 1] for i in ids if i)] * length
    assert len(content) == start + 4 * depth * n_runs + 8 * n_items * width
    assert len(rows) == n_items
    return rows, nonces


class Model:
    """A sum of five rows beside what it should be: numbers, and who is in them."""

    def __init__(self, width):
        self.sealer, self.adder = StreamSealer(OneKey(KEY)), StreamAdder()
        self.arrangement = Arrangement(np.array([0, 0, 1, 1, 1]))
        self.total = self.adder.zeros((5, width))
        self.sums = np.zeros((5, width), np.int64)
        self.rows = [Counter() for _ in range(5)]

    def sealed(self, numbers, items):
        """Return a part and what it is listed as."""
        payload = self.sealer.seal(numbers, self.arrangement, items)
        vector = self.adder.load(payload, numbers.shape)
        return vector, Counter([bytes(payload[:24])])

    def add(self, numbers, items):
        """Add to some rows."""
        vector, nonce = self.sealed(numbers, items)
        self.adder.add(self.total, items, vector)
        self.sums[items] += numbers
        for item in items.tolist():
            self.rows[item] = self.rows[item] + nonce

    def put(self, numbers, items):
        """Replace some rows."""
        vector, nonce = self.sealed(numbers, items)
        self.adder.put(self.total, items, vector)
        self.sums[items] = numbers
        for item in items.tolist():
            self.rows[item] = nonce

    def keep(self, numbers, items):
        """Go on with some rows alone, in a new sum."""
        part = self.adder.take(self.total, items)
        self.total = self.adder.zeros(self.sums.shape)
        self.adder.add(self.total, items, part)
        for item in set(range(5)) - set(items.tolist()):
            self.sums[item], self.rows[item] = 0, Counter()

    def forget(self, numbers, items):
        """Drop nonces that are not in use."""
        self.total._forget()


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "put", "keep", "forget"]), subsets(5)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=examples(100))
@given(operations=OPERATIONS, width=st.integers(1, 2), seed=st.integers(0, 9))
def test_contributors_are_known_after_anything(operations, width, seed):
    """After any sequence of it the list is that of a plain model, and sums open."""
    random = np.random.Generator(np.random.PCG64(seed))
    model = Model(width)
    for what, chosen in operations:
        numbers = random.integers(-(2**57), 2**57, (len(chosen), width))
        getattr(model, what)(numbers, np.array(chosen, np.int64))
    everything = model.adder.dump(model.total)
    found, nonces = listed(everything, 5, width)
    assert found == model.rows
    assert set(nonces) == set().union(*model.rows)  # and no others
    opened = model.sealer.open(everything, width, model.arrangement)
    np.testing.assert_array_equal(opened, model.sums)
    for chosen in ([0, 2, 4], [3], []):
        items = np.array(chosen, np.int64)
        part = model.adder.dump(model.adder.take(model.total, items))
        assert listed(part, len(chosen), width)[0] == [model.rows[i] for i in chosen]
        opened = StreamSealer(OneKey(KEY)).open(part, width, model.arrangement, items)
        np.testing.assert_array_equal(opened, model.sums[items])


@pytest.mark.parametrize("n_items", [3, 100])
def test_the_table_of_nonces_stays_short(n_items):
    """A thousand parts put one over the other leave what is still in use."""
    sealer, adder = StreamSealer(OneKey(KEY)), StreamAdder()
    arrangement = Arrangement.together(n_items)
    total = adder.zeros((n_items, 1))
    longest = widest = 0
    for turn in range(1000):
        items = np.array([turn % n_items])
        numbers = np.array([[turn]])
        vector = adder.load(sealer.seal(numbers, arrangement, items), (1, 1))
        adder.put(total, items, vector)
        longest = max(longest, len(total.nonces))
        widest = max(widest, total.ids.shape[1])
    assert longest <= 64 + 2 * n_items + 1
    assert widest == 1
    expected = 1000 - n_items + (np.arange(n_items) - 1000) % n_items
    opened = sealer.open(adder.dump(total), 1, arrangement)
    np.testing.assert_array_equal(opened[:, 0], expected)


def test_neighbours_with_the_same_contributors_are_listed_once():
    """A sum of whole vectors takes little more than its words."""
    sealer, adder = StreamSealer(OneKey(KEY)), StreamAdder()
    numbers, anywhere = np.ones((1000, 1), np.int64), Arrangement.together(1000)
    total = adder.zeros((1000, 1))
    for _ in range(5):
        payload = sealer.seal(numbers, anywhere)
        adder.add(total, slice(None), adder.load(payload, (1000, 1)))
    assert len(adder.dump(total)) == 8 * 1000 + 12 + 5 * 24 + 4 + 5 * 4


# Hostile sums


def a_sum(
    n_nonces=1, lengths=(3,), ids=((1,),), n_words=3, header=None, nonces=None
) -> bytes:
    """Return a sum as it is written, any part of it as one likes."""
    depth = len(ids[0]) if ids else 0
    header = header or (n_nonces, len(lengths), depth)
    flat = [i for row in ids for i in row]
    return (
        struct.pack("<III", *header)
        + (bytes(24 * n_nonces) if nonces is None else nonces)
        + struct.pack(f"<{len(lengths)}I", *lengths)
        + struct.pack(f"<{len(flat)}I", *flat)
        + bytes(8 * n_words)
    )


HUGE = 2**32 - 1

HOSTILE = {
    "nothing": b"",
    "half a header": bytes(7),
    "many nonces": a_sum(header=(HUGE, 1, 1)),
    "many runs": a_sum(header=(1, HUGE, 1)),
    "many ids": a_sum(header=(1, 1, HUGE)),
    "many of all": a_sum(header=(HUGE, HUGE, HUGE)),
    "no runs": a_sum(lengths=(), ids=(), header=(1, 0, HUGE)),
    "too few rows": a_sum(lengths=(2,)),
    "too many rows": a_sum(lengths=(4,)),
    "a huge run": a_sum(lengths=(HUGE,)),
    "runs that wrap": a_sum(lengths=(HUGE, 4), ids=((1,), (1,))),
    "an id beyond": a_sum(ids=((2,),)),
    "a huge id": a_sum(ids=((HUGE,),)),
    "an id beyond in a run of none": a_sum(lengths=(3, 0), ids=((1,), (9,))),
    "too few words": a_sum(n_words=2),
    "too many words": a_sum(n_words=4),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_sum_is_refused_and_costs_nothing(name):
    """Sizes are compared with the bytes there are before anything is made of them."""
    sealer = StreamSealer(OneKey(KEY))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"than it says|do not fit"):
            sealer.open(memoryview(HOSTILE[name]), 1, Arrangement.together(3))
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def _nonces(n_identities: int, n_vectors: int = 1) -> bytes:
    """Return nonces of some sealers, each with some vectors."""
    each = itertools.product(range(n_identities), range(n_vectors))
    return b"".join(struct.pack("<QQQ", sealer, 7, vector) for sealer, vector in each)


@pytest.mark.parametrize(
    ("n_identities", "n_vectors", "is_possible"),
    [(4, 1, True), (4, 5, True), (4, 6, False), (80, 1, False)],
    ids=["everybody", "before resealing", "never resealed", "strangers"],
)
def test_a_sum_names_no_more_contributors_than_there_are(
    n_identities, n_vectors, is_possible
):
    """Each pad takes time, so those of a sum that no study has are not computed."""
    n_nonces = n_identities * n_vectors
    content = a_sum(
        n_nonces, ids=(range(1, n_nonces + 1),), nonces=_nonces(n_identities, n_vectors)
    )
    sealer = StreamSealer(OneKey(KEY), n_clients=4)
    if is_possible:
        assert sealer.open(memoryview(content), 1, Arrangement.together(3)).size == 3
        return
    with pytest.raises(ValueError, match="more contributors than the study has"):
        sealer.open(memoryview(content), 1, Arrangement.together(3))


def test_the_sum_that_hostile_ones_are_made_of_opens():
    """They are refused for what was changed."""
    opened = StreamSealer(OneKey(KEY)).open(
        memoryview(a_sum()), 1, Arrangement.together(3)
    )
    assert opened.shape == (3, 1)


def test_a_sum_of_no_rows():
    """Who has no items gets none, whatever the list says of depths."""
    sealer = StreamSealer(OneKey(KEY))
    empty = a_sum(lengths=(), ids=(), n_words=0, header=(0, 0, HUGE), nonces=b"")
    opened = sealer.open(memoryview(empty), 2, Arrangement.together(0))
    assert opened.shape == (0, 2)


@given(st.binary(max_size=120), st.integers(0, 4))
def test_anything_is_a_sum_or_a_value_error(payload, n_items):
    """Bytes of an enemy never end in anything else."""
    try:
        opened = StreamSealer(OneKey(KEY)).open(
            memoryview(payload), 1, Arrangement.together(n_items)
        )
    except ValueError:
        return
    assert opened.shape == (n_items, 1)


@pytest.mark.parametrize("size", [0, 8, 23, 24, 47, 49, 56])
def test_a_part_of_another_size_is_refused(size):
    """A client's vector is a nonce and its words, no more and no less."""
    with pytest.raises(ValueError, match="3 numbers of 8 bytes"):
        StreamAdder().load(memoryview(bytes(size)), (3, 1))


@pytest.mark.parametrize("is_zero", [True, False])
def test_numbers_that_nobody_sealed_are_refused(is_zero):
    """A server cannot choose what a client opens; where nobody added, there is 0."""
    words = bytes(16) if is_zero else b"\1" + bytes(15)
    head = struct.pack("<III", 0, 1, 0) + struct.pack("<I", 2)
    payload, sealer = memoryview(head + words), StreamSealer(OneKey(KEY))
    if is_zero:
        assert not sealer.open(payload, 1, Arrangement.together(2)).any()
        return
    with pytest.raises(ValueError, match="no contributor"):
        sealer.open(payload, 1, Arrangement.together(2))

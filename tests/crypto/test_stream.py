"""Pads that never repeat, and lists of contributors that are always right."""

from __future__ import annotations

import hmac
import itertools
import struct
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
    """Draw who seals what, in which order, with occasional restarts."""
    steps = st.tuples(
        st.integers(0, 2),
        st.sampled_from(["all", "some", "resume"]),
        st.lists(st.integers(0, 2), min_size=1, max_size=5),
        st.integers(1, 3),
    )
    return draw(st.lists(steps, min_size=2, max_size=12))


@given(seals())
def test_no_pad_is_ever_used_twice(steps):
    """Pads are unique for one client, to several, and after restarts."""
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
    """A client that opens its own sum and continues sealing does not reuse its pads."""
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
    n_nonces, n_runs, depth, *widths = struct.unpack_from("<IIIBB", content)
    of_length, of_id = ({1: "B", 2: "H", 4: "I"}[width] for width in widths)
    start = 14
    nonces = [content[start + 24 * j :][:24] for j in range(n_nonces)]
    start += 24 * n_nonces
    lengths = struct.unpack_from(f"<{n_runs}{of_length}", content, start)
    start += widths[0] * n_runs
    rows = []
    for run, length in enumerate(lengths):
        place = start + widths[1] * depth * run
        ids = struct.unpack_from(f"<{depth}{of_id}", content, place)
        rows += [Counter(nonces[i - 1] for i in ids if i)] * length
    assert len(content) == start + widths[1] * depth * n_runs + 8 * n_items * width
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
        """Continue with only some rows, in a new sum."""
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
    assert len(adder.dump(total)) == 8 * 1000 + 14 + 5 * 24 + 2 + 5 * 1


@pytest.mark.parametrize(("n_parts", "n_rows"), [(255, 255), (256, 256), (3, 65536)])
def test_lists_of_contributors_take_as_few_bytes_as_they_fit_in(n_parts, n_rows):
    """The last number of one and of two bytes, and the first of the next, are kept."""
    sealer, adder = StreamSealer(OneKey(KEY)), StreamAdder()
    arrangement, total = Arrangement.together(n_rows + 1), adder.zeros((n_rows + 1, 1))
    last = np.array([n_rows])
    everything = sealer.seal(np.ones((n_rows + 1, 1), np.int64), arrangement)
    adder.add(total, slice(None), adder.load(everything, (n_rows + 1, 1)))
    for _ in range(n_parts - 1):
        payload = sealer.seal(np.ones((1, 1), np.int64), arrangement, last)
        adder.add(total, last, adder.load(payload, (1, 1)))
    written = adder.dump(total)
    of_length = 1 if n_rows < 256 else 2 if n_rows < 65536 else 4
    of_id = 1 if n_parts < 256 else 2
    table = 24 * n_parts + 2 * (of_length + n_parts * of_id)
    assert len(written) == 14 + table + 8 * (n_rows + 1)
    assert listed(written, n_rows + 1, 1)[0][-1].total() == n_parts
    if n_parts <= 16:  # more are refused
        opened = sealer.open(written, 1, arrangement)
        assert opened[:, 0].tolist() == [1] * n_rows + [n_parts]

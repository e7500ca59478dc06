"""What reaches a client, on the bytes: its own samples and features, nothing else."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyfdca.algorithms.aggregation import CachedSum, RunningSum
from hyfdca.algorithms.buckets import owner_groups
from hyfdca.algorithms.spaces import space_of
from hyfdca.axis import Axis
from hyfdca.crypto.arrangement import Arrangement
from hyfdca.crypto.schemes import Adders, Encryption, Sealers, public_parameters
from hyfdca.participation import cyclic
from hyfdca.partition import from_holdings
from hyfdca.protocol import bundle_messages as b
from hyfdca.protocol import messages as m
from hyfdca.seeds import stream
from hyfdca.training import Training
from tests.holdings import overlapping_holdings, subsets
from tests.sealed_runs import ENCRYPTIONS, keys_of
from tests.small_runs import make_training
from tests.wires import Said, listen

pytestmark = pytest.mark.usefixtures("small_paillier")

N_SAMPLES, N_FEATURES = 9, 5

# A fixture that is the same for all examples may be shared by them.
FEW = settings(
    max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SOME = settings(FEW, max_examples=12)
MANY = settings(FEW, max_examples=40)

METHODS = {
    "drawn": {"step": "paper", "local_steps": 2, "refresh": "drawn"},
    "all": {"step": "safe", "local_steps": 2, "refresh": "all"},
    "search": {"step": "line_search", "local_fraction": 0.5},
    "bundle": {"algorithm": "bundle"},
}


class Vector(NamedTuple):
    """A sealed vector as a client got it: of which of its items, how wide."""

    kind: str
    rows: list[int]  # positions among the client's samples or features
    is_apart: bool  # the rows are a vector of their own
    width: int
    sealed: m.Sealed


# The fields of requests that have sealed vectors, and what these are by.
_KINDS = {
    "norms": "samples",
    "margins": "samples",
    "duals": "samples",
    "direction": "samples",
    "sums": "samples",
    "weights": "features",
    "image": "features",
    "slopes": "features",
}


def _sealed_in(value: Any) -> Iterator[m.Sealed]:
    """Return every sealed vector inside of a message, wherever it is."""
    if isinstance(value, m.Sealed):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _sealed_in(part)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _sealed_in(getattr(value, name))


def _vectors(run: Training, said: Said) -> Iterator[Vector]:
    """Return the vectors by sample and by feature of a request."""
    request, layout = said.request, run.layout
    sizes = {
        "samples": len(layout.samples.items[said.client]),
        "features": len(layout.features.items[said.client]),
    }
    for name in request.__struct_fields__:
        value = getattr(request, name)
        sealed = list(_sealed_in(value))
        if not sealed or name == "totals":
            continue
        kind = _KINDS[name]  # or it has vectors that this does not look at
        rows = list(range(sizes[kind]))
        width = 1 if name == "norms" else run.clients[0].problem.n_outputs
        width *= getattr(request, "n_planes", 1)
        if isinstance(request, b.VisitPlanesRequest | b.AdoptVisitRequest):
            yield from _of_buckets(run, said, value)
            continue
        rows = _asked(run, said, rows) if kind == "samples" else rows
        for vector in sealed:
            yield Vector(kind, rows, False, width, vector)


def _of_buckets(run: Training, said: Said, value: list[m.Sums]) -> Iterator[Vector]:
    """Return the vectors by sample of some buckets."""
    half = run.clients[said.client]
    width = half.problem.n_outputs * getattr(said.request, "n_planes", 1)
    buckets = np.frombuffer(said.request.buckets, np.uint32)
    for bucket, sums in zip(buckets, value, strict=True):
        rows = np.flatnonzero(half.buckets == bucket).tolist()
        for vector in sums:
            yield Vector("samples", rows, True, width, vector)


def _asked(run: Training, said: Said, rows: list[int]) -> list[int]:
    """Return the positions of the samples that a request is about."""
    request = said.request
    for name in ("positions", "drawn"):
        if getattr(request, name, None) is not None:
            return np.frombuffer(getattr(request, name), np.uint32).tolist()
    if isinstance(request, m.LossesRequest):
        held = [set(items.tolist()) for items in run.layout.samples.items]
        own = run.layout.samples.items[said.client].tolist()
        ranks = [k for k, labelled in enumerate(run.layout.labelled) if labelled]
        counts = [min(k for k in ranks if i in held[k]) == said.client for i in own]
        return [row for row, is_counted in zip(rows, counts, strict=True) if is_counted]
    return rows


def _owners(axis: Axis, client: int) -> list[tuple[int, ...]]:
    """Return who holds each item of a client."""
    held = [set(items.tolist()) for items in axis.items]
    return [
        tuple(k for k, items in enumerate(held) if item in items)
        for item in axis.items[client].tolist()
    ]


def _blocks(
    owners: list[tuple[int, ...]],
    rows: list[int],
    width: int,
    n_slots: int,
    numbers_of_groups: dict[tuple[int, ...], int],
) -> list[dict[int, tuple[int, int]]]:
    """Return, by brute force, the blocks that a client may get for some rows.

    A block is a map from slots to the row and the column of the number in it. Groups
    are in the order of their numbers.
    """
    blocks = []
    for group in sorted(set(owners), key=numbers_of_groups.__getitem__):
        numbers = [
            (row, column)
            for row, others in enumerate(owners)
            if others == group
            for column in range(width)
        ]
        for first in range(0, len(numbers), n_slots):
            block = dict(enumerate(numbers[first : first + n_slots]))
            if {row for row, _ in block.values()} & set(rows):
                blocks.append(block)
    return blocks


def _check_packed(cipher, vector, owners, groups, plain):
    """Open the blocks that a client got and look at every slot."""
    rows = vector.rows
    numbers_of_groups = dict(zip(owners, groups.tolist(), strict=True))
    if vector.is_apart:
        owners, rows = [owners[row] for row in rows], list(range(len(rows)))
    n_slots = cipher.n_slots
    blocks = _blocks(owners, rows, vector.width, n_slots, numbers_of_groups)
    payload = bytes(vector.sealed.payload)
    n_bits = len(blocks) // 8 + 1
    is_there = np.unpackbits(np.frombuffer(payload[:n_bits], np.uint8))
    content = np.frombuffer(payload[n_bits:], np.uint8)
    there = [block for block, bit in zip(blocks, is_there, strict=False) if bit]
    # The bit after them says how many blocks there could be.
    assert is_there[len(blocks) :].tolist() == [1] + [0] * (7 - len(blocks) % 8)
    opened = cipher.open(content.reshape(len(there), cipher.block_bytes))
    numbers = dict.fromkeys(itertools.product(rows, range(vector.width)), 0)
    for block, slots in zip(there, opened.tolist(), strict=True):
        for slot, number in enumerate(slots):
            if slot not in block:
                assert number == 0, "a slot of no sample or feature of this client"
            elif block[slot] in numbers:
                numbers[block[slot]] = number
    assert list(numbers.values()) == plain


def _check_stream(run, vector, owners, plain, items, client):
    """Read the list of contributors and subtract their pads."""
    payload = bytes(vector.sealed.payload)
    n_nonces, n_runs, depth = struct.unpack_from("<III", payload)
    n_numbers = len(vector.rows) * vector.width
    starts = np.cumsum([12, 24 * n_nonces, 4 * n_runs, 4 * n_runs * depth])
    assert len(payload) == starts[-1] + 8 * n_numbers
    lengths = np.frombuffer(payload, np.uint32, n_runs, starts[1])
    assert lengths.sum() == len(vector.rows)
    ids = np.frombuffer(payload, np.uint32, n_runs * depth, starts[2])
    of_rows = np.repeat(ids.reshape(n_runs, depth), lengths, axis=0)
    sealers = [half._schemes._made["stream"] for half in run.clients]
    rank_of = {sealer._identity: k for k, sealer in enumerate(sealers)}
    nonces = [payload[12 + 24 * j :][:24] for j in range(n_nonces)]
    for row, contributors in zip(vector.rows, of_rows.tolist(), strict=True):
        found = [rank_of[nonces[j - 1][:16]] for j in contributors if j]
        assert set(found) <= set(owners[row])
    assert set(ids.tolist()) - {0} == set(range(1, n_nonces + 1))
    opened = sealers[client].open(memoryview(payload), vector.width, *items)
    assert opened.reshape(-1).tolist() == plain


def _check_vector(run, said, vector, plain):
    half = run.clients[said.client]
    layout = run.layout
    axis = layout.samples if vector.kind == "samples" else layout.features
    owners = _owners(axis, said.client)
    n_numbers = len(vector.rows) * vector.width
    assert len(plain.payload) == 8 * n_numbers
    expected = np.frombuffer(plain.payload, np.int64).tolist()
    scheme = run.server.coordinator.vaults.picks[vector.kind].scheme
    if scheme == "none":
        assert bytes(vector.sealed.payload) == bytes(plain.payload)
        return
    if scheme != "stream":
        cipher = half.sealer(vector.kind)._cipher
        vaults = run.server.coordinator.vaults
        is_samples = vector.kind == "samples"
        groups = vaults.sample_groups if is_samples else vaults.feature_groups
        own_groups = groups[axis.items[said.client]]
        _check_packed(cipher, vector, owners, own_groups, expected)
        return
    own = half._samples if vector.kind == "samples" else half._features
    rows = np.array(vector.rows, np.int64)
    items = (own.restricted(rows), None) if vector.is_apart else (own, rows)
    _check_stream(run, vector, owners, expected, items, said.client)


# What else is told in arrays: of each sample or feature held or asked for, or of
# planes and buckets, which are no secret.
_BY_SAMPLE = {"sample_groups", "sample_holders", "label_holders", "buckets", "factors"}
_BY_FEATURE = {"feature_groups", "feature_holders"}
_OF_NOBODY = {"numbers", "kept", "units", "plane_weights", "mixture", "point_of"}
_POSITIONS = {"positions", "drawn"}


def _check_arrays(run, said):
    """Look at the arrays that a request has in the clear."""
    request = said.request
    n_held = len(run.layout.samples.items[said.client])
    n_features = len(run.layout.features.items[said.client])
    is_visit = isinstance(
        request, b.VisitRequest | b.VisitPlanesRequest | b.AdoptVisitRequest
    )
    for name in request.__struct_fields__:
        value = getattr(request, name)
        if not isinstance(value, memoryview) or name in _OF_NOBODY:
            continue
        if name in _POSITIONS:
            assert max(np.frombuffer(value, np.uint32), default=-1) < n_held
        elif name == "divisors":
            assert len(value) == 4 * len(_asked(run, said, list(range(n_held))))
        elif name == "buckets" and is_visit:
            n_buckets = run.clients[said.client].n_buckets
            assert max(np.frombuffer(value, np.uint32), default=-1) < n_buckets
        elif name in _BY_SAMPLE:
            assert len(value) == n_held * (8 if name == "factors" else 4)
        elif name in _BY_FEATURE:
            assert len(value) == n_features * 4
        else:
            # Weights in the clear are of the open profile alone.
            assert run.settings.profile == "open"
            assert name in ("weights", "points")
            n_points = len(value) // max(8 * n_features, 1)
            assert len(value) == 8 * n_features * n_points


def _margins_in(said: Said) -> list[m.Sealed]:
    return list(_sealed_in(getattr(said.request, "margins", None)))


def _check_run(run, twin):
    heard, expected = listen(run)[0], listen(twin)[0]
    weights = run.finish()
    assert weights.tobytes() == twin.finish().tobytes()
    assert len(heard) == len(expected)
    n_vectors = 0
    for said, plain in zip(heard, expected, strict=True):
        assert (said.client, said.phase) == (plain.client, plain.phase)
        vectors = list(_vectors(run, said)), list(_vectors(twin, plain))
        for vector, in_plain in zip(*vectors, strict=True):
            assert vector.rows == in_plain.rows
            _check_vector(run, said, vector, in_plain.sealed)
            n_vectors += 1
        _check_arrays(run, said)
        if not run.layout.labelled[said.client]:
            margins = [v for v in vectors[0] if v.sealed in _margins_in(said)]
            assert not any(vector.rows for vector in margins)
    assert n_vectors > 0
    for client, features in enumerate(run.layout.features.items):
        foreign = np.delete(weights, features, axis=0)
        needles = [struct.pack("<d", w) for w in foreign.ravel() if w]
        told = b"".join(said.payload for said in heard if said.client == client)
        assert not any(needle in told for needle in needles)


@st.composite
def consortia(draw):
    """Draw holdings, and who has labels so that every sample has one."""
    holdings = draw(overlapping_holdings(N_SAMPLES, N_FEATURES, max_clients=3))
    labelled = [draw(st.booleans()) for _ in holdings]
    covered = {
        i
        for (rows, _), has in zip(holdings, labelled, strict=True)
        if has
        for i in rows
    }
    if len(covered) < N_SAMPLES:
        labelled = [True] * len(holdings)
    return holdings, labelled


def _run(consortium, method, profile, encryption):
    holdings, labelled = consortium
    random = stream(5, "layout privacy")
    X = sp.csr_array(random.normal(size=(N_SAMPLES, N_FEATURES)))
    y = np.where(random.random((N_SAMPLES, 1)) < 0.5, 1.0, -1.0)
    turns = [[0], list(range(len(holdings)))]
    return make_training(
        X,
        y,
        from_holdings(N_SAMPLES, N_FEATURES, holdings),
        labelled=labelled,
        bias=1.0,
        profile=profile,
        participation=None if method == "search" else cyclic(turns),
        max_rounds=4,
        measure_every=2,
        encryption=encryption,
        keys=keys_of(encryption),
        **METHODS[method],
    )


def _check(consortium, name, method, profile):
    encryption = ENCRYPTIONS[name]
    bare = Encryption("none", encryption.precision)
    _check_run(
        _run(consortium, method, profile, encryption),
        _run(consortium, method, profile, bare),
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("name", "profile"),
    [("stream", "sealed"), ("paillier", "sealed"), ("paillier", "open")],
)
@SOME
@given(consortium=consortia())
def test_a_client_gets_its_own_samples_and_features_alone(
    name, profile, method, consortium
):
    """No slot, row or array of any message is of an item that it does not hold."""
    _check(consortium, name, method, profile)


@pytest.mark.parametrize("method", METHODS)
@FEW
@given(consortium=consortia())
def test_blocks_of_bfv_have_their_clients_own_numbers_alone(method, consortium):
    """Every one of the 4,096 slots is of an item that the client holds, or zero."""
    _check(consortium, "bfv-compact", method, "sealed")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("name", ["stream", "paillier", "bfv"])
@MANY
@given(consortium=consortia())
def test_of_many_consortia_no_client_gets_more(name, profile, method, consortium):
    """The same for many more holdings."""
    _check(consortium, name, method, profile)


# Sums by themselves, every number of which says whose it is


def _marker(item: int, column: int, width: int) -> int:
    """Return a number that, times any small count, tells item, column and count."""
    return 1000 * (item * width + column + 1) + 1


def _told(number: int, width: int) -> tuple[int, int, int]:
    """Return the item, the column and how many parts a sum of markers has."""
    count = number % 1000
    place = (number // count - 1) // 1000 - 1
    return place // width, place % width, count


def _marked(kind, axis, width, sealer, adder):
    """Return the sum to which every client has given a marker a number."""
    groups = owner_groups(axis)
    total = kind(space_of(axis, groups, width, adder))
    for client, items in enumerate(axis.items):
        numbers = [[_marker(i, c, width) for c in range(width)] for i in items.tolist()]
        table = np.array(numbers, np.int64).reshape(-1, width)
        sealed = sealer.seal(table, Arrangement(groups[items]))
        take_part = total.put if kind is CachedSum else total.add
        take_part(client, m.Sealed(0, sealed), None)
    return total


@pytest.mark.parametrize("kind", [CachedSum, RunningSum])
@pytest.mark.parametrize(
    "name", ["paillier", pytest.param("bfv-compact", marks=pytest.mark.slow)]
)
@settings(MANY, max_examples=60)
@given(
    holdings=st.lists(subsets(30), min_size=1, max_size=5),
    width=st.integers(1, 10),
    data=st.data(),
)
def test_blocks_that_are_taken_for_a_client(name, kind, holdings, width, data):
    """Every number in them is a sum of all parts of an item that the client holds."""
    encryption = ENCRYPTIONS[name]
    keys = keys_of(encryption)
    sealer = Sealers(encryption, keys).named(encryption.scheme)
    adder = Adders(encryption, public_parameters(keys)).named(encryption.scheme)
    axis = Axis(30, tuple(np.array(items, np.int64) for items in holdings))
    total = _marked(kind, axis, width, sealer, adder)
    client = data.draw(st.sampled_from(range(len(holdings))))
    n_held = len(holdings[client])
    positions = np.array(data.draw(subsets(n_held)), np.int64)
    for rows in (None, positions):
        asked = range(n_held) if rows is None else rows.tolist()
        if not asked:
            assert not any(len(t.payload) > 1 for t in total.take(client, rows))
            continue
        [taken] = total.take(client, rows)
        owners = _owners(axis, client)
        cipher = sealer._cipher
        groups = dict.fromkeys(owners, 0)  # how many blocks, in whatever order
        n_blocks = len(_blocks(owners, list(asked), width, cipher.n_slots, groups))
        content = np.frombuffer(taken.payload, np.uint8)[n_blocks // 8 + 1 :]
        opened = cipher.open(content.reshape(n_blocks, cipher.block_bytes))
        told = [_told(n, width) for n in opened.ravel().tolist() if n]
        assert len(told) == len(set(told))
        for item, column, count in told:
            assert item in holdings[client]
            assert column < width
            assert count == sum(item in items for items in holdings)
        wanted = {(holdings[client][p], c) for p in asked for c in range(width)}
        assert wanted <= {(item, column) for item, column, _ in told}

"""Witnesses of totals: what they say, by whole numbers, and what they refuse."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hyfdca.federation.messages import OpenRequest
from hyfdca.federation.sealing import vouching
from hyfdca.federation.sealing.vouching import N_TAGS, combinations
from hyfdca.protocol.codec import RemoteProtocolError
from tests.support.small_runs import run_round, set_up
from tests.support.wrong_requests import make_run

SEED = bytes(range(16))


@pytest.mark.parametrize("chunk", [2, 11, 1000])
@pytest.mark.parametrize("width", [1, 5, 6])
def test_combinations_are_sums_modulo_two_to_the_64(width, chunk, monkeypatch):
    """They add up words times a key stream for each tag, by places in the whole sum."""
    monkeypatch.setattr(vouching, "_CHUNK", chunk)
    random = np.random.Generator(np.random.PCG64(1))
    words = random.integers(0, 2**64, (3, width), np.uint64)
    rows = np.array([0, 2, 6])
    found = combinations(words, rows, SEED)
    assert found.shape == (1, N_TAGS)
    blocks = Cipher(algorithms.AES(SEED), modes.ECB()).encryptor()  # noqa: S305
    for tag in range(N_TAGS):
        counters = [(tag << 64) + number for number in range(22)]
        stream = b"".join(blocks.update(c.to_bytes(16, "big")) for c in counters)
        factors = np.frombuffer(stream, "<u8")[: 7 * width].reshape(7, width)
        expected = sum(
            int(factors[row, column]) * int(words[place, column])
            for place, row in enumerate(rows)
            for column in range(width)
        )
        assert int(found[0, tag]) % 2**64 == expected % 2**64


def test_combinations_of_parts_add_up_to_those_of_the_sum():
    """It holds for any rows of the parts."""
    words = np.random.Generator(np.random.PCG64(2)).integers(
        0, 2**64, (5, 3), np.uint64
    )
    parts = [np.array([0, 1]), np.array([2]), np.array([3, 4])]
    found = sum(combinations(words[rows], rows, SEED) for rows in parts)
    assert np.array_equal(found, combinations(words, np.arange(5), SEED))


def test_the_number_of_a_row_costs_nothing():
    """A server that lies about how many rows there are wastes no memory."""
    words = np.ones((1, 100), np.uint64)
    tracemalloc.start()
    found = combinations(words, np.array([999_999]), SEED)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert found.any()
    nothing = combinations(words[:0], np.empty(0, np.int64), SEED)
    assert not nothing.any()


def listening(run, phase):
    """Note the requests of a phase, by client."""
    asked = {}
    for rank, session in run.driver._clients.items():
        honest = session.handlers[phase]

        def handler(request, rank=rank, honest=honest):
            asked[rank] = request
            return honest(request)

        session.handlers = {**session.handlers, phase: handler}
    return asked


@pytest.fixture
def asked():
    """Return a run after a round, and what opener and witness were asked."""
    run = set_up(make_run("stream", "bundle"))
    found = listening(run, "open planes")
    run_round(run)
    return run, found


def test_only_the_opener_gets_totals_and_only_its_witness_the_seed(asked):
    """Otherwise the opener could choose totals that pass."""
    _, requests = asked
    assert set(requests) == {0, 1}
    assert requests[0].totals
    assert requests[0].seed == b""
    assert requests[1].totals == []
    assert len(requests[1].seed) == 16


def test_the_opener_is_never_sent_the_seed():
    """Not with the requests for its own parts either; all others are."""
    run = set_up(make_run("stream", "bundle"))
    found = {phase: listening(run, phase) for phase in ("planes", "gram", "search")}
    run_round(run)
    for phase, requests in found.items():
        for rank, request in requests.items():
            grid = request.offsets_grid if phase == "planes" else request.grid
            assert (grid.opener, grid.witness) == (0, 1)
            assert bool(grid.seed) == (rank != 0)


def fields_of(request):
    return {name: getattr(request, name) for name in OpenRequest.__struct_fields__}


def test_a_witness_vouches_once_for_each_vector(asked):
    """Combinations with several seeds would give the opener's part away."""
    run, requests = asked
    vouch = run.parties[1].open_totals
    fields = fields_of(requests[1])
    nonce = next(filter(None, fields["nonces"]))
    later = nonce[:16] + (2**40).to_bytes(8, "little")
    of_witness = bytes([1, 0, 0, 0]) + nonce[4:16] + (2**40).to_bytes(8, "little")
    n_totals = len(fields["nonces"])
    wrong = {
        "another seed": {"seed": bytes(16)},
        "the same twice": {"nonces": (later,) * n_totals},
        "its own vector": {"nonces": (of_witness, *[b""] * (n_totals - 1))},
        "its own opener": {"opener": 1},
        "no nonce": {"nonces": (b"1234", *[b""] * (n_totals - 1))},
        "too few tags": {"tags": ()},
        "totals": {"totals": requests[0].totals},
    }
    again = vouch(requests[1])  # the same request may come again after a failure
    assert bytes(again.tags) == bytes(vouch(requests[1]).tags)
    for changed in wrong.values():
        with pytest.raises(RemoteProtocolError, match=r"witness|tags"):
            vouch(OpenRequest(**{**fields, **changed}))


@pytest.mark.parametrize("size", [2**17 + 5_000, 99_999_999])
def test_a_witness_computes_no_more_pads_than_it_has_sealed(asked, size):
    """A request of few bytes could otherwise ask for a hundred million of them."""
    run, requests = asked
    sent = fields_of(requests[1])
    new = sent["nonces"][0][:16] + (2**40).to_bytes(8, "little")
    one = {"tags": ([],), "nonces": (new,), "rows": (None,), "shapes": [(1, size)]}
    tracemalloc.start()
    with pytest.raises(RemoteProtocolError, match="sealed fewer totals than these"):
        run.parties[1].open_totals(OpenRequest(**{**sent, **one}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    few = {**one, "shapes": [(1, 1000)]}  # as in the phases that have no Gram entries
    assert run.parties[1].open_totals(OpenRequest(**{**sent, **few}))


def test_new_planes_open_to_their_offsets_and_gram_entries(asked):
    """Opener and witness refuse other totals in their place."""
    run, requests = asked
    for rank, request in requests.items():
        answer = run.clients[rank].handlers["open planes"]
        (n_buckets, width), gram = request.shapes
        for shapes in (
            [(n_buckets, width + 1), gram],
            [(n_buckets, width), (1, gram[1] + 1)],
            [gram],
        ):
            with pytest.raises(RemoteProtocolError, match="not those of the phase"):
                answer(OpenRequest(**{**fields_of(request), "shapes": shapes}))
        assert answer(request)

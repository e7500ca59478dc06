"""What simulated rounds seal and open is what clients do; sizes are those of msgpack.

``test_bulk.py`` compares bytes and round trips.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pytest

from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.holdings.participation import bernoulli, cyclic
from hyfdca.holdings.partition import grid
from hyfdca.maths.losses import make_loss
from hyfdca.training.bulk.counts import OPENED, SEALED, SEALED_DRAWN
from hyfdca.training.bulk.dual_ascent import BulkDualAscent
from hyfdca.training.bulk.local_sgd import BulkLocalSgd
from hyfdca.training.bulk.message_sizes import binary_size, integer_size
from hyfdca.training.bulk.stacked import stacked
from tests.support.small_runs import (
    PROFILES,
    classification,
    make_training,
    run_round,
    set_up,
)
from tests.training.bulk.test_bulk import (
    DUAL,
    L2,
    PRIMAL,
    SEED,
    SPLITS,
    X,
    Y,
    presences,
)

N_ROUNDS = 8
EDGES = [0, 1, 31, 127, 128, 255, 256, 65535, 65536, 100_000]


class Watched:
    """A sealer that counts the numbers it seals and opens."""

    is_packed = False

    def __init__(self, sealer, counts):
        self._sealer, self._counts = sealer, counts

    def seal(self, numbers, *others):
        """Seal."""
        self._counts["sealed"] += numbers.size
        return self._sealer.seal(numbers, *others)

    def open(self, *given):
        """Open."""
        numbers = self._sealer.open(*given)
        self._counts["opened"] += numbers.size
        return numbers


@pytest.fixture
def watch(monkeypatch):
    """Return a function that has clients count what they seal and open by an axis."""

    def watch(run, axis):
        counts = {id(party.sealing): Counter() for party in run.parties}
        sealer = Sealing.sealer

        def watched(sealing, asked, *openers):
            found = sealer(sealing, asked, *openers)
            is_wanted = asked.axis == axis
            return Watched(found, counts[id(sealing)]) if is_wanted else found

        monkeypatch.setattr(Sealing, "sealer", watched)
        return list(counts.values())

    return watch


def check(bulk, run, presence, counts):
    """Compare what each client seals and opens in each round, and the traffic."""
    for number in range(1, N_ROUNDS + 1):
        for count in counts:
            count.clear()
        participants = list(presence.of_round(number))
        traffic = run_round(run, participants)
        found = bulk.round()
        assert found.traffic == traffic
        for name, column in (("sealed", SEALED), ("opened", OPENED)):
            expected = np.array([count[name] for count in counts])
            own = found.per_client[:, column]
            np.testing.assert_array_equal(own, expected[found.participants])
            assert found.totals[column] == expected.sum()
            assert found.busiest[column] == expected.max()


def training(split, algorithm, presence, profile="open"):
    """Return a training by messages that is set up."""
    return set_up(
        make_training(
            X,
            Y,
            SPLITS[split],
            algorithm=algorithm,
            l2=L2,
            participation=presence,
            profile=profile,
            seed=SEED,
        )
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("presence", list(presences(2)))
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", DUAL)
def test_dual_ascent_seals_and_opens_what_clients_do(name, split, presence, watch):
    """Numbers by sample: duals that were missed, margins, changes, duals."""
    presence = presences(SPLITS[split].n_clients)[presence]
    if presence.is_complete and name == "safe":
        presence = bernoulli(SPLITS[split].n_clients, 0.7, seed=1)  # it needs absence
    run = training(split, DUAL[name], presence)
    blocks = stacked(X, Y[:, 0], SPLITS[split], by="samples")
    bulk = BulkDualAscent(blocks, make_loss("hinge"), L2, DUAL[name], presence, SEED)
    check(bulk, run, presence, watch(run, "samples"))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("presence", list(presences(2)))
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", PRIMAL)
def test_local_steps_seal_and_open_what_clients_do(name, split, presence, watch):
    """Numbers by feature: the mean weights, and the client's own."""
    presence = presences(SPLITS[split].n_clients)[presence]
    run = training(split, PRIMAL[name], presence, "sealed")
    blocks = stacked(X, Y[:, 0], SPLITS[split], by="clients")
    bulk = BulkLocalSgd(blocks, make_loss("hinge"), L2, PRIMAL[name], presence, SEED)
    check(bulk, run, presence, watch(run, "features"))


@pytest.mark.parametrize("size", EDGES)
def test_sizes_are_those_of_msgpack(size):
    """The test covers bytes with their length, and whole numbers."""
    sizes = np.array([size])
    assert binary_size(sizes) == len(msgspec.msgpack.encode(bytes(size)))
    assert integer_size(sizes) == len(msgspec.msgpack.encode(size))


@pytest.mark.parametrize("name", ["drawn", "fedavg"])
def test_profiles_have_the_same_bytes_without_encryption(name):
    """One formula covers both."""
    presence = presences(6)["half"]
    runs = [
        training("grid", {**DUAL, **PRIMAL}[name], presence, profile)
        for profile in PROFILES
    ]
    for number in range(1, N_ROUNDS + 1):
        ours, theirs = (run_round(run, presence.of_round(number)) for run in runs)
        assert ours == theirs


def test_long_vectors_are_counted_to_the_byte():
    """Lengths of 2^16 bytes and more take more bytes themselves."""
    n_samples, n_features = 9000, 3
    X, y = classification(n_samples, n_features)
    split, presence = grid(n_samples, n_features, (1, 3)), cyclic([[0, 1], [1, 2]])
    method = Hyfdca(step="paper", local_fraction=0.99, refresh="drawn")
    run = make_training(
        X, y, split, algorithm=method, l2=L2, participation=presence, seed=SEED
    )
    set_up(run)
    blocks = stacked(X, y[:, 0], split, by="samples")
    bulk = BulkDualAscent(blocks, make_loss("hinge"), L2, method, presence, SEED)
    for number in range(1, 4):
        assert bulk.round().traffic == run_round(run, presence.of_round(number))


@pytest.mark.parametrize("split", ["grid", "dealt"])
def test_the_paper_counts_the_margins_of_drawn_samples(split):
    """Where all margins are sent, the paper's count is that of sending these alone."""
    blocks = stacked(X, Y[:, 0], SPLITS[split], by="samples")
    presence = bernoulli(SPLITS[split].n_clients, 0.7, seed=1)
    every, drawn = (
        BulkDualAscent(
            blocks,
            make_loss("hinge"),
            L2,
            Hyfdca(step="paper", refresh=refresh, local_fraction=0.2),
            presence,
            SEED,
        )
        for refresh in ("all", "drawn")
    )
    for _ in range(N_ROUNDS):
        ours, papers = every.round(), drawn.round()
        expected = papers.per_client[:, SEALED]
        np.testing.assert_array_equal(ours.per_client[:, SEALED_DRAWN], expected)
        np.testing.assert_array_equal(papers.per_client[:, SEALED_DRAWN], expected)
        assert ours.totals[SEALED] > expected.sum()

"""The time of rounds, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.bench import crypto
from hyfdca.reproduction.clock import (
    NO_ENCRYPTION,
    PAPER_PAILLIER,
    EncryptionCosts,
    RoundClock,
    RoundCounts,
    paper_clock,
    rounds_within,
    slowest,
)

# Two rounds; the third client is absent in the first, and the first in the second.
CLIENT_SECONDS = np.array([[0.2, 0.5, 0.0], [0.0, 0.1, 0.3]])
COUNTS = RoundCounts(
    computation=slowest(CLIENT_SECONDS),
    encrypted=np.array([10, 0]),
    decrypted=np.array([20, 1]),
    added=np.array([100, 0]),
)


def test_the_slowest_client_counts():
    """Clients compute side by side."""
    assert slowest(CLIENT_SECONDS).tolist() == [0.5, 0.3]


def test_the_paper_s_clock_by_hand():
    """4.5 round trips of 0.2575 s, and Paillier at the published times."""
    waiting = 1.15875  # 4.5 * 0.2575
    # 10 * 18.882 ms + 20 * 18.865 ms + 100 * 0.054 ms = 571.52 ms
    expected = [0.5 + waiting + 0.57152, 0.3 + waiting + 0.018865]
    clock = paper_clock("hyfdca")
    assert clock.round_seconds(COUNTS) == pytest.approx(expected, rel=1e-14)
    total = [expected[0], expected[0] + expected[1]]
    assert clock.elapsed(COUNTS) == pytest.approx(total, rel=1e-14)


@pytest.mark.parametrize("method", ["fedavg", "hyfem"])
def test_rivals_make_one_round_trip_and_do_not_encrypt(method):
    """Whatever is counted."""
    for latency in (0.0, 0.8):
        expected = [0.5 + latency, 0.3 + latency]
        clock = paper_clock(method, latency)
        unencrypted = RoundCounts.unencrypted(COUNTS.computation)
        assert clock.round_seconds(COUNTS).tolist() == expected
        assert clock.round_seconds(unencrypted).tolist() == expected


def test_nothing_but_computation():
    """Without latency and encryption a round takes what its slowest client takes."""
    clock = RoundClock(4.5, 0.0, NO_ENCRYPTION)
    assert np.array_equal(clock.round_seconds(COUNTS), COUNTS.computation)


def test_measured_costs():
    """The figures of ``hyfdca bench crypto``, in seconds instead of nanoseconds."""
    cost = crypto.Cost(encrypt_ns=2e9, decrypt_ns=5e8, add_ns=250.0, bytes=16.0)
    measured = EncryptionCosts.measured("bfv", cost)
    assert measured == EncryptionCosts("bfv", 2.0, 0.5, 2.5e-7)
    clock = RoundClock(0.0, 0.0, measured)
    # 0.5 + 10 * 2 + 20 * 0.5 + 100 * 2.5e-7 and 0.3 + 0.5
    assert clock.round_seconds(COUNTS) == pytest.approx([30.500025, 0.8], rel=1e-14)


def test_the_published_costs_are_those_of_the_benchmark():
    """Two folders that do not import each other have the same three figures."""
    ours = EncryptionCosts.measured("", crypto.Cost(**crypto.PAPER, bytes=0.0))
    assert ours == EncryptionCosts(
        "", PAPER_PAILLIER.encrypt, PAPER_PAILLIER.decrypt, PAPER_PAILLIER.add
    )


@pytest.mark.parametrize(
    ("seconds", "n_rounds"), [(0.5, 0), (2.6, 2), (4.0, 3), (9, 3)]
)
def test_rounds_that_end_within_a_time(seconds, n_rounds):
    """Rounds that end after 1, 2.5 and 4 seconds."""
    assert rounds_within(np.array([1.0, 2.5, 4.0]), seconds) == n_rounds

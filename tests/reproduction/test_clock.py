"""The time of runs, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from hyfdca.bench import crypto
from hyfdca.reproduction.clock import (
    NO_ENCRYPTION,
    PAPER_PAILLIER,
    EncryptionCosts,
    RunClock,
    clock_of,
)

# Totals at the start, after one round and after two.
RUN = SimpleNamespace(
    rounds=np.array([0, 1, 2]),
    seconds=np.array([0.0, 0.5, 0.8]),
    sealed=np.array([0, 15, 15]),
    sealed_drawn=np.array([0, 10, 10]),
    opened=np.array([0, 20, 21]),
    busiest_sealed=np.array([0, 4, 4]),
    busiest_opened=np.array([0, 6, 7]),
)


def test_the_paper_s_clock_by_hand():
    """4.5 round trips of 0.2575 s, and Paillier at the published times for all."""
    waiting = 1.15875  # 4.5 * 0.2575
    # 10 * 18.882 ms + 20 * 18.865 ms + 10 * 0.054 ms = 566.66 ms
    first = 0.5 + waiting + 0.56666
    expected = [0.0, first, 0.8 + 2 * waiting + 0.56666 + 0.018865]
    assert clock_of("hyfdca").elapsed(RUN) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("method", ["fedavg", "hyfem"])
def test_rivals_make_one_round_trip_and_do_not_encrypt(method):
    """It holds for every way of counting."""
    for latency in (0.0, 0.8):
        expected = [0.0, 0.5 + latency, 0.8 + 2 * latency]
        elapsed = clock_of(method, latency=latency).elapsed(RUN)
        assert elapsed == pytest.approx(expected, rel=1e-14)


def test_nothing_but_computation():
    """Without latency and encryption a round takes what its slowest client takes."""
    assert np.array_equal(RunClock(0.0, NO_ENCRYPTION).elapsed(RUN), RUN.seconds)


def test_clients_encrypt_side_by_side():
    """Measured costs, in seconds instead of nanoseconds, of the busiest client."""
    cost = crypto.Cost(encrypt_ns=2e9, decrypt_ns=5e8, add_ns=250.0, bytes=16.0)
    measured = EncryptionCosts.measured("bfv", cost)
    assert measured == EncryptionCosts("bfv", 2.0, 0.5, 2.5e-7)
    # 4 * 2 + 6 * 0.5, the server's 15 additions; then another 0.5
    expected = [0.0, 11.00000375, 11.50000375]
    assert measured.seconds(RUN) == pytest.approx(expected, rel=1e-14)


def test_ciphertexts_are_charged_as_full():
    """Two vectors either way in a round, each with a last ciphertext of 5 numbers."""
    costs = EncryptionCosts("bfv", 2.0, 0.5, 0.0, slots=5)
    # 4 + 8 numbers sealed and 6 + 8 opened after one round
    expected = [0.0, 12 * 2.0 + 14 * 0.5, 20 * 2.0 + 23 * 0.5]
    assert costs.seconds(RUN) == pytest.approx(expected, rel=1e-14)


def test_the_published_costs_are_those_of_the_benchmark():
    """Two folders that do not import each other have the same three figures."""
    ours = EncryptionCosts.measured("", crypto.Cost(**crypto.PAPER, bytes=0.0))
    assert ours == EncryptionCosts(
        "", PAPER_PAILLIER.encrypt, PAPER_PAILLIER.decrypt, PAPER_PAILLIER.add
    )

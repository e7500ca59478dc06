"""A server that hands one client's vectors to another as something else reads noise.

The server is written here, from the protocol alone. Clients answer whatever they are
asked, in any order and of any shape: what protects the victim are keys, not refusals.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from hyfdca.algorithms.bundle.messages import Move, TrialRequest
from hyfdca.federation.messages import OpenRequest
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import GridSpec, Sealed, TotalsSpec
from tests.support.small_runs import run_round, set_up
from tests.support.wrong_requests import make_run

VICTIM = 1
GRID = GridSpec(30, 55)


def asked_for_column(run, column):
    """Return the victim's sealed margins at the weights e_j: a column of its table."""
    weights = np.zeros((run.parties[VICTIM].n_features, 1))
    weights[column] = 1.0
    content = memoryview(weights.astype("<f8").tobytes())
    move = Move(run.clients[VICTIM]._moved, [])
    request = TrialRequest(move, content, None, GRID)
    return bytes(run.clients[VICTIM].handlers["trial"](request).vector.payload)


def as_a_sum(words, nonces):
    """Return words as a sum with these contributors, as the server would write it."""
    n_runs, depth = 1, len(nonces)
    ids = bytes(range(1, depth + 1))
    head = struct.pack("<IIIBB", len(nonces), n_runs, depth, 1, 1)
    return head + b"".join(nonces) + bytes([1]) + ids + words


def reports(run, sealed, width):
    """Return what the openers of totals report of a vector, or why they refuse."""
    found = []
    for rank in range(len(run.clients)):
        totals = [[Sealed(GRID.fraction_bits, memoryview(sealed))]]
        try:
            opened = run.parties[rank].open_totals(OpenRequest(totals, [(1, width)]))
        except RemoteProtocolError as error:
            found.append(str(error))
        else:
            found.append(np.frombuffer(opened.values, "<f8"))
    return found


@pytest.mark.parametrize("profile", ["sealed", "open"])
@pytest.mark.parametrize("name", ["stream", "bfv-compact"])
def test_margins_handed_over_as_totals_are_refused(name, profile):
    """No client opens them for the server, whichever it asks and whatever the width."""
    run = set_up(make_run(name, "bundle", profile=profile))
    run_round(run)
    for column in range(run.parties[VICTIM].n_features):
        payload = asked_for_column(run, column)
        # Unchanged; listed as made by any client; and as words that nobody has sealed.
        named = struct.pack("<I", VICTIM) + payload[4:24]
        for nonces in ([payload[:24]], [named], []) if name == "stream" else ([],):
            words = payload[24:] if name == "stream" else payload[len(payload) % 8 :]
            for n_words in (len(words) // 8, 2, 3):
                wanted = as_a_sum(words[: 8 * n_words], nonces)
                for said in reports(run, wanted, n_words - 1):
                    assert isinstance(said, str), "a client reported the margins"
                    assert "does not open" in said or "the wrong shape" in said


def test_totals_of_one_client_open_to_their_opener_alone():
    """A colluding client that is not the opener opens no part of others."""
    run = set_up(make_run("stream", "bundle"))
    run_round(run)
    grid = run.federation.grids.totals.grid
    spec = TotalsSpec(grid.fraction_bits, grid.limit_bits, opener=0)
    sealed = run.parties[VICTIM].sealing.sealed_totals("totals", np.ones(2), spec)
    payload = bytes(sealed.payload)
    wanted = as_a_sum(payload[24:], [payload[:24]])
    opener, *others = reports(run, wanted, 2)
    assert not isinstance(opener, str)
    assert all("does not open" in said for said in others[1:])
    [own] = others[:1]  # the victim itself opens only what is sealed to it
    assert "does not open" in own

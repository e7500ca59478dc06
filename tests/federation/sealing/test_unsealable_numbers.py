"""Numbers too large for their grid, and cells that are not numbers, in sealed runs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.crypto.schemes.fixedpoint import COARSER_BITS, Grid
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.grids import GridMaker
from hyfdca.protocol.server_session import BadReplyError
from tests.protocol.wires import listen
from tests.support.sealed_runs import ENCRYPTIONS, found_by, keys_of
from tests.support.small_runs import classification, make_training, partition_of
from tests.support.wrong_requests import METHODS, N_FEATURES, N_SAMPLES, make_run

pytestmark = pytest.mark.usefixtures("small_paillier")


@pytest.mark.parametrize("name", ENCRYPTIONS)
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_an_overflow_asks_for_a_coarser_grid_and_continues(name, method, monkeypatch):
    """Sealed or not, clients say so for the same numbers, and find the same model."""
    fit, too_fine = GridMaker.finest, COARSER_BITS + 4

    def finer(maker, *given):
        grid = fit(maker, *given)
        return Grid(grid.fraction_bits + too_fine, grid.limit_bits)

    monkeypatch.setattr(GridMaker, "finest", finer)
    found = []
    for encryption in (ENCRYPTIONS[name], _bare(name)):
        run = make_run(name, method, encryption=encryption, max_rounds=2)
        heard, _ = listen(run)
        found.append(found_by(run))
        assert b"too large" in b"".join(said.reply for said in heard)
        assert len(run.history) == 2
    assert found[0] == found[1]


def _bare(name):
    return Encryption("none", ENCRYPTIONS[name].precision)


@pytest.mark.parametrize("name", ["none", "stream", "bfv-compact", "paillier"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_data_that_are_no_numbers_never_become_ciphertexts(name, value, method):
    """The client that has them asks for coarser grids until the run names it."""
    X, y = classification(N_SAMPLES, N_FEATURES)
    table = X.toarray()
    table[3, 1] = value
    encryption = ENCRYPTIONS.get(name, Encryption())
    run = make_training(
        sp.csr_array(table),
        y,
        partition_of("overlapping", N_SAMPLES, N_FEATURES),
        encryption=encryption,
        keys=keys_of(encryption),
        **METHODS[method],
    )
    heard, _ = listen(run)
    with pytest.raises(BadReplyError, match="no grid fits") as raised:
        run.finish()
    assert 0 in raised.value.reasons
    owner = [said for said in heard if (said.client, said.phase) == (0, "norms")]
    assert len(owner) > 10
    assert all(b"too large" in said.reply for said in owner)

"""Paths with many folds have many planes, whose products are one large total."""

import msgspec
import numpy as np
import pytest

from hyfdca.algorithms.bundle import collecting
from hyfdca.errors import StudyError
from hyfdca.federation.messages import MOST_TOTALS, OpenRequest
from hyfdca.federation.path import Path
from hyfdca.protocol.client_session import decode
from hyfdca.protocol.codec import RemoteProtocolError
from tests.support.consortia import assert_one_sentence
from tests.support.small_runs import bundle_run, partition_of, table_for


def asked_to_open(n_numbers):
    """Return what a client reads that is asked to open as many numbers."""
    request = OpenRequest([], [(1, n_numbers)])
    return decode(memoryview(msgspec.msgpack.encode(request)), OpenRequest)


def test_clients_open_products_of_many_planes():
    """2 λ in 30 folds had 3.8 million products; a client takes up to its limit."""
    for n_numbers in (3_794_400, MOST_TOTALS):
        assert asked_to_open(n_numbers).shapes == [(1, n_numbers)]
    with pytest.raises(RemoteProtocolError):
        asked_to_open(MOST_TOTALS + 1)


def test_more_products_than_clients_open_are_refused_in_one_sentence(monkeypatch):
    """The sentence says how to get fewer planes."""
    monkeypatch.setattr(collecting, "MOST_TOTALS", 1000)
    X, y = table_for("logistic")
    run = bundle_run(
        X,
        y,
        partition_of("2x2"),
        loss="logistic",
        path=Path((0.3, 0.03), 5, tolerance=1e-3),
        folds=np.arange(len(y)) % 5,
    )
    with pytest.raises(StudyError, match="fewer folds") as error:
        run.finish()
    assert_one_sentence(f"{error.value}\n")

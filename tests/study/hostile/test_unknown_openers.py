"""Totals for clients that a study does not have are refused before any work."""

from __future__ import annotations

import pytest

from hyfdca.federation.messages import OpenRequest
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import TotalsSpec
from hyfdca.stages.evaluation.messages import MeasuresRequest
from hyfdca.study.client.checks import check_openers


@pytest.mark.parametrize(("opener", "witness"), [(3, None), (0, 3), (255, 1)])
def test_an_opener_or_witness_that_is_not_on_the_roster(opener, witness):
    """It is refused, even in a list of grids."""
    request = MeasuresRequest(0.0, [TotalsSpec(30, 50, opener, witness)])
    with pytest.raises(RemoteProtocolError, match="does not have"):
        check_openers(request, 3)


def test_others_pass():
    """A witness may be missing, and most requests have no totals."""
    check_openers(
        MeasuresRequest(0.0, [TotalsSpec(30, 50, 2), TotalsSpec(3, 5, 0, 2)]), 3
    )
    check_openers(OpenRequest([], [], 0, 1), 3)

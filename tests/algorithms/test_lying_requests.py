"""Requests of rival methods with numbers that no server would send: one sentence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hyfdca.algorithms import cocoa, d3ca, dscovr, fedbcd, feddcd, tdcd
from hyfdca.algorithms.disco import messages as disco
from hyfdca.federation.local.sgd import TrainRequest
from hyfdca.protocol import checkpoint
from hyfdca.protocol.codec import RemoteProtocolError, pack_reals
from hyfdca.protocol.messages import GridSpec
from tests.algorithms.rivals import rival
from tests.support.small_runs import run_round, set_up

GRID = GridSpec(20, 40)
HUGE = 2**62
NO_NUMBERS = pack_reals(np.full(12, math.nan))

LIES = {
    "fedavg steps": ("fedavg", "train", TrainRequest([], None, 1, HUGE, GRID)),
    "hyfem steps": ("hyfem", "train", TrainRequest([], None, 1, HUGE, GRID)),
    "cocoa steps": ("cocoa", "row steps", cocoa.RowStepsRequest([], 1, HUGE, 1, GRID)),
    "d3ca steps": (
        "d3ca",
        "block steps",
        d3ca.BlockStepsRequest([], [], None, 1, HUGE, 1, GRID),
    ),
    "tdcd batch": (
        "tdcd",
        "steps",
        tdcd.StepsRequest([], None, 0, None, None, 1, GRID),
    ),
    "tdcd factors": (
        "tdcd",
        "steps",
        tdcd.StepsRequest(
            [], None, 9, pack_reals(np.full(12, math.nan)), None, 1, GRID
        ),
    ),
    "fedbcd nothing": (
        "fedbcd",
        "turn",
        fedbcd.ColumnTurnRequest(None, None, None, None, 9, 1, GRID),
    ),
    "fedbcd both": (
        "fedbcd",
        "turn",
        fedbcd.ColumnTurnRequest([], [], None, None, 9, 1, GRID),
    ),
    "fedbcd batch": (
        "fedbcd",
        "turn",
        fedbcd.ColumnTurnRequest([], None, None, None, 0, 1, GRID),
    ),
    "feddcd nobody": ("feddcd", "solve", feddcd.SolveRequest(0, 3, 1.0, 1, GRID)),
    "feddcd share": ("feddcd", "solve", feddcd.SolveRequest(3, 3, 0.0, 1, GRID)),
    "dscovr step": (
        "dscovr",
        "block",
        dscovr.BlockRequest([], [], GRID, GRID, 0.0, 1.0),
    ),
    "disco too many": (
        "disco",
        "direction margins",
        disco.DirectionRequest(None, None, [1.0, 1.0], [1.0], 9, GRID),
    ),
    "disco no number": (
        "disco",
        "direction margins",
        disco.DirectionRequest(None, None, [math.nan], [1.0], 9, GRID),
    ),
    "disco step": ("disco", "newton step", disco.NewtonNotice([1.0] * 99, [1.0], 9)),
}
SHAPES = {"cocoa": "3x1", "feddcd": "3x1", "fedbcd": "1x3"}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_and_changes_nothing(lie):
    """Afterwards, the client continues as if it had never come."""
    name, phase, request = LIES[lie]
    runs = [set_up(rival(name, SHAPES.get(name, "1x1"))) for _ in range(2)]
    for run in runs:
        run_round(run)
    with pytest.raises(RemoteProtocolError):
        runs[0].clients[0].handlers[phase](request)
    for run in runs:
        run_round(run)
    first, second = (run.clients[0].state() for run in runs)
    assert checkpoint.encode(first) == checkpoint.encode(second)

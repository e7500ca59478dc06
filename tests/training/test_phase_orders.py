"""Runs that take an unusual way are legal by the tables of phases, to their end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.maths.objective import Objective
from hyfdca.protocol.messages import TooLarge
from tests.support.run_cases import AXES, BIAS, METHODS, MORE_METHODS, Case, name_of
from tests.support.sealed_runs import ENCRYPTIONS

ALL_METHODS = [*METHODS, *MORE_METHODS]
BEFORE_ROUNDS = {"norms", "probe margins", "probe shares"}


def _cases(labels, encryption):
    ways = itertools.product(ALL_METHODS, AXES["profile"], AXES["presence"])
    cases = [Case(m, "overlapping", *way, labels, 1, encryption) for m, *way in ways]
    return [case for case in cases if case.is_possible]


# Who opens totals


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", _cases("others", "stream"), ids=name_of)
def test_the_client_that_opens_totals_may_have_no_labels(case):
    """It is the lowest-ranked one present, whatever phases it is left out of."""
    run = case.run(ENCRYPTIONS[case.encryption])
    weights = run.finish()
    assert len(run.history) == run.settings.max_rounds
    assert np.abs(weights).max() > 0
    assert run.measurement.gap >= 0


# Divergence


def _rounds_phases(run):
    """Return the phases of rounds and measuring in which a value may not fit."""
    phases = run.runner.algorithm.algorithm.phases
    may = {name for name, phase in phases.items() if TooLarge in phase.reply}
    return sorted(may - BEFORE_ROUNDS)


def _outgrow(run, phase):
    """Let no client's values fit any grid in a phase from now on."""
    for session in run.driver._clients.values():
        if phase in session.handlers:
            answers = {phase: lambda _: TooLarge()}
            session.handlers = {**session.handlers, **answers}


def _primal(case, run, weights):
    """Return P of weights on all the data in one place, where the bias is a column."""
    X, labels = case.table()
    column = np.full((X.shape[0], 1), BIAS)
    loss, l2 = run.settings.loss, run.settings.l2_strength
    return Objective(sp.csr_array(sp.hstack([X, column])), labels, loss, l2).primal(
        weights
    )


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", _cases("some", "none"), ids=name_of)
def test_a_run_that_diverges_anywhere_releases_what_it_measured_last(case):
    """In any exchange that outgrows every grid, the model is the last measured one."""
    # Where an exchange waits for everybody, so does each coarser grid.
    waits = case.presence == "partial" and case.method in ("bundle", "lbfgs", "wide")
    given = {"max_rounds": 120} if waits else {}
    n_diverged = 0
    for phase in _rounds_phases(case.run(Encryption())):
        run = case.run(Encryption(), **given)
        rounds = run.rounds()
        next(rounds)
        _outgrow(run, phase)
        list(rounds)
        weights = run.release()
        if run.stop_reason != "diverged":
            continue  # it is a phase of other runs
        n_diverged += 1
        assert len(run.history) < run.settings.max_rounds
        measured = _primal(case, run, weights)
        assert run.measurement.primal == pytest.approx(measured, rel=1e-9)
    assert n_diverged >= 3

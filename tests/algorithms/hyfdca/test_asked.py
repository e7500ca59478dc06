"""What scales a step of HyFDCA: a server cannot let a single dual move."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from hyfdca.algorithms.hyfdca import messages as m
from hyfdca.algorithms.hyfdca.asked import check_factors
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfdca.safe_step import SAFETY, safe_factors
from hyfdca.algorithms.hyfdca.shown_shares import ShownShares
from hyfdca.federation.messages import Prepare
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import cyclic
from hyfdca.holdings.partition import from_holdings
from hyfdca.protocol import checkpoint
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices, pack_reals
from tests.support.small_runs import (
    classification,
    duals_of,
    make_training,
    partition_of,
    run_round,
    set_up,
)

PRESENT = cyclic([[0, 1, 2], [1, 2, 3], [0, 1, 2, 3]])


def asked_of(run, phase, rank):
    """Note what a client is asked in a phase, last first."""
    session, asked = run.driver._clients[rank], []
    honest = session.handlers[phase]

    def handler(request):
        asked.insert(0, request)
        return honest(request)

    session.handlers = {**session.handlers, phase: handler}
    return asked


def run_of(**given):
    """Return a run whose clients know which of their rows have the same holders."""
    X, y = classification(24, 4, noise=0.5)
    run = make_training(X, y, partition_of("overlapping", 24, 4), **given)
    holders = run.layout.samples
    for client, party in enumerate(run.parties):
        which, of_sample, _ = holders.holders_of(holders.items[client])
        sets = [of_sample[which == row].tolist() for row in range(party.n_held)]
        distinct = sorted(map(tuple, sets))
        groups = np.array([distinct.index(tuple(own)) for own in sets])
        party.block = replace(party.block, row_groups=groups)
    return run


def refuses(run, rank, phase, request, reason):
    """Check that a request is refused, and changes nothing."""
    before = checkpoint.encode(run.clients[rank].state())
    curvatures = run.parties[rank].curvatures.copy()
    with pytest.raises(RemoteProtocolError, match=reason):
        run.clients[rank].handlers[phase](request)
    assert checkpoint.encode(run.clients[rank].state()) == before
    assert np.array_equal(run.parties[rank].curvatures, curvatures)


def test_factors_cannot_hold_all_duals_but_one():
    """Beyond the safe step's range, or other ones in the same group, none is taken."""
    run = run_of(step="safe", local_steps=3)
    asked = asked_of(run, "factors", 1)
    set_up(run)
    honest = np.frombuffer(asked[0].factors)
    notices = {}
    for name, factor, reason in (
        ("huge", 1e250, "beyond those of a safe step"),
        ("small", 1e-9, "beyond those of a safe step"),
        ("negative", -1.0, "beyond those of a safe step"),
        ("a group", honest[5] + 1e-9, "factors differ between rows"),
    ):
        changed = honest.copy()
        changed[5] = factor
        notices[name] = m.FactorsNotice(pack_reals(changed))
        refuses(run, 1, "factors", notices[name], reason)
    once = run.parties[1].curvatures.copy()
    run.clients[1].handlers["factors"](asked[0])
    assert np.array_equal(run.parties[1].curvatures, once)  # not the square of it


def test_a_study_without_a_safe_step_has_no_factors():
    """Nor with another one, whatever phases the table has."""
    for given in ({"step": "paper"}, {"step": "safe", "participation": PRESENT}):
        run = set_up(run_of(**given))
        notice = m.FactorsNotice(pack_reals(np.ones(run.parties[1].n_held)))
        refuses(run, 1, "factors", notice, "no factors of samples")


def test_a_steps_scale_is_the_studys():
    """The factor, cap and divisors are those that the settings give."""
    run = run_of(step="paper", local_steps=3, participation=PRESENT)
    asked = asked_of(run, "step", 1)
    set_up(run)
    run_round(run, [0, 1, 2])
    given = msgspec.structs.asdict(asked[0])
    divisors = np.frombuffer(given["divisors"], "<u4")
    for name, value, reason in (
        ("factor", 1e250, "factor of a step"),
        ("factor", 0.0, "factor of a step"),
        ("cap", 0.5, "cap of a step"),
        ("divisors", pack_indices(divisors + 4), "more holders than all with labels"),
    ):
        wrong = m.StepRequest(**{**given, name: value})
        refuses(run, 1, "step", wrong, reason)
    assert run.clients[1].handlers["step"](asked[0])
    safe = run_of(step="safe", local_steps=3)
    asked = asked_of(safe, "step", 1)
    run_round(set_up(safe))
    wrong = msgspec.structs.replace(asked[0], divisors=pack_indices(np.ones(3, int)))
    refuses(safe, 1, "step", wrong, "averaged over all holders")


@pytest.mark.parametrize(
    "given",
    [
        {"variant": "theory"},
        {"step": "paper", "divide_by": "all"},
        {"step": "safe", "min_rows": 2},
        {"step": "safe", "refresh": "drawn"},
    ],
    ids=str,
)
@pytest.mark.parametrize("present", [None, PRESENT], ids=["all", "some"])
@pytest.mark.parametrize("partition", ["overlapping", "4x1"])
def test_what_an_honest_server_sends_is_taken(given, present, partition):
    """Of every variant, where rows have one or several holders."""
    X, y = classification(24, 4, noise=0.5)
    run = make_training(
        X, y, partition_of(partition, 24, 4), participation=present, **given
    )
    set_up(run)
    for round_number in (1, 2, 3):
        run_round(run, None if present is None else present.of_round(round_number))
    assert duals_of(run).any()


def test_counts_of_holders_are_those_of_a_consortium():
    """A count that only one row has would divide all other changes away."""
    run = run_of(step="paper")
    asked = asked_of(run, "prepare", 1)
    set_up(run)
    given = msgspec.structs.asdict(asked[0])
    honest = np.frombuffer(given["label_holders"], "<u4")
    many, other = honest + 10**6, honest.copy()
    other[5] += 1 if other[5] < 4 else -1
    for counts, reason in ((many, "more holders than"), (other, "same holders")):
        wrong = Prepare(**{**given, "label_holders": pack_indices(counts)})
        refuses(run, 1, "prepare", wrong, reason)


@pytest.mark.slow
def test_safe_factors_are_in_the_range_that_clients_take():
    """For any holdings, draws and interaction."""
    random = np.random.Generator(np.random.PCG64(1))
    for _ in range(200):
        n_samples = int(random.integers(2, 30))
        held = random.random((4, n_samples)) < random.uniform(0.2, 1)
        held[0, ~held.any(axis=0)] = True
        held[~held.any(axis=1), 0] = True
        holdings = [(np.flatnonzero(own), np.arange(3)) for own in held]
        layout = layout_of(from_holdings(n_samples, 3, holdings))
        share = random.uniform(0.01, 1)
        interaction = random.choice([1.0, SAFETY * n_samples])
        factors = safe_factors(
            layout,
            lambda k, held=held, share=share: int(np.ceil(share * held[k].sum())),
            interaction,
        )
        X, y = classification(n_samples, 3)
        partition = from_holdings(n_samples, 3, holdings)
        run = set_up(make_training(X, y, partition, step="paper"))
        for rank, party in enumerate(run.parties):
            settings = Hyfdca(step="safe")
            check_factors(settings, party, factors[layout.samples.items[rank]])


def test_a_row_that_hardly_moves_is_not_counted():
    """Beside one that does, the difference of two shares is that row."""
    duals, share = np.zeros((6, 1)), np.zeros((2, 1))
    shown = ShownShares(3, np.ones(6, bool), duals, share)
    moved, new = np.full((6, 1), 1e-9), np.ones((2, 1))
    moved[0] = 0.4
    assert shown.choose(moved, new) is not new
    moved[:3, 0] = 0.4, 1e-5, 0.02
    assert shown.choose(moved, new) is not new
    moved[3] = -0.1
    assert shown.choose(moved, new) is new

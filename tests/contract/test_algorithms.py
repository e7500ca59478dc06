"""What every algorithm of the registry must do, whatever it is.

A new algorithm is tested by its entry in ``ALGORITHMS`` alone; what is special to it
is tested beside it.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.server import Federation
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import reference_optimum
from hyfdca.protocol import checkpoint
from hyfdca.protocol.messages import seen_fields
from hyfdca.protocol.phases import START
from tests.contract.cases import CASES, FEW, REFUSED, objective
from tests.support.small_runs import coarse_grids
from tests.support.thoroughness import IS_THOROUGH

COSTS = {"seconds"}
COARSE = [0, 24, 34]  # bits fewer than usual; the last leave about three digits
LONG = 30 if IS_THOROUGH else 15  # rounds of a run that is resumed after four or more


def numbers(run) -> list[dict[str, str]]:
    """Return a history without its seconds; as text, where NaN equals NaN."""
    return [
        {name: repr(value) for name, value in record.items() if name not in COSTS}
        for record in run.history
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_seed_gives_the_same_history(case):
    """Two runs with one seed have the same history and weights, bit for bit."""
    one, other = case.run(), case.run()
    assert one.finish().tobytes() == other.finish().tobytes()
    assert numbers(one) == numbers(other)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lost_bits", COARSE)
@pytest.mark.parametrize("case", FEW, ids=str)
def test_a_certificate_is_never_optimistic(case, lost_bits):
    """P is not below the model's own loss, D not above the optimum, on any grid."""
    problem = objective()
    optimum = reference_optimum(problem, 1e-10)
    with coarse_grids(lost_bits):
        run = case.run()
        for report in run.rounds():
            if report.measurement is None:
                continue
            weights = run.release()
            assert report.measurement.primal >= problem.primal(weights) - 1e-12
            assert report.measurement.dual is not None
            assert report.measurement.dual <= optimum.primal + 1e-12


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_resumed_equals_undisturbed(case):
    """A run whose parties are all made again in the middle ends at the same bits."""
    undisturbed = case.run(max_rounds=LONG)
    weights = undisturbed.finish()
    first = case.run(max_rounds=LONG)
    for _ in first.rounds():
        if len(first.history) >= 4 and first.server.is_between_steps:
            break
    assert len(first.history) < LONG
    again = case.run(max_rounds=LONG)
    put_into(again, first)
    assert again.finish().tobytes() == weights.tobytes()
    assert numbers(again) == numbers(undisturbed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_interrupted_run_ends_as_at_a_round_limit(case):
    """Its last round is measured and released, however rarely rounds are measured."""
    limited = case.run(max_rounds=3, measure_every=50)
    weights = limited.finish()
    run = case.run(measure_every=50)
    for report in run.rounds():
        run.runner.interruption.is_asked = report.round_number == 3
    assert run.stop_reason == "interrupted"
    assert run.release().tobytes() == weights.tobytes()
    assert numbers(run) == numbers(limited)


@pytest.mark.parametrize(
    "case", [case for case in FEW if case.presence == "complete"], ids=str
)
def test_a_request_that_is_repeated_changes_nothing(case, monkeypatch):
    """All clients are asked again where one needs a coarser grid: nobody goes twice.

    With everybody present: a method that waits for absent clients would wait twice.
    """
    once = case.run().finish()
    gather = Federation.gather

    def twice(self, phase, clients, *rest):
        asked = list(clients)
        yield from gather(self, phase, asked, *rest)
        return (yield from gather(self, phase, asked, *rest))

    monkeypatch.setattr(Federation, "gather", twice)
    assert case.run().finish().tobytes() == once.tobytes()


def put_into(again, first):
    """Let a new run continue from the checkpoints of another one's parties."""
    again.runner.start()
    checkpoint.load(again.server, checkpoint.save(first.server))
    for new, old in zip(again.clients, first.clients, strict=True):
        checkpoint.load(new, checkpoint.save(old))
    for new, old in zip(sessions(again), sessions(first), strict=True):
        new.resume(old.last_number, old.last_phase)
    again.runner.progress.history += first.history
    again.runner.progress.measurement = first.measurement


def sessions(run):
    """Return the clients' sessions of a run in this process."""
    return [run.driver.client(rank) for rank in range(len(run.clients))]


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("small_paillier")
@pytest.mark.parametrize("scheme", ["stream", "bfv", "paillier"])
@pytest.mark.parametrize("case", FEW, ids=str)
def test_encrypted_equals_unencrypted(case, scheme):
    """A scheme changes bytes and time, and no number."""
    plain = case.run(max_rounds=3)
    sealed = case.run(Encryption(scheme), max_rounds=3)
    assert sealed.finish().tobytes() == plain.finish().tobytes()
    for ours, theirs in zip(numbers(sealed), numbers(plain), strict=True):
        for name in ("primal", "dual", "participants", "round_trips"):
            assert ours[name] == theirs[name]


REASONS = "every client in every round|-partitioned|whole rows or|one client for every"


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_split_it_does_not_apply_to_is_refused(case):
    """A split or presence that a method cannot take is refused with the reason."""
    with pytest.raises(ValueError, match=REASONS):
        case.run()


@pytest.mark.parametrize("case", FEW, ids=str)
def test_what_it_needs_is_asked_for(case):
    """A loss with a kink, and clients without labels, are refused or fine."""
    needs, n_clients = case.needs, 4 if case.shape == "grid" else 3
    if case.needs_smooth_loss:
        with pytest.raises(ValueError, match="smooth loss"):
            case.run(loss=make_loss("hinge"))
    else:
        assert case.run(loss=make_loss("hinge"), max_rounds=1).finish().shape == (7, 1)
    if case.shape != "horizontal":
        labelled = [True] * (n_clients - 1) + [False]
        if needs.labels == "all":
            with pytest.raises(ValueError, match="labels at every client"):
                case.run(labelled=labelled)
        else:
            run = case.run(max_rounds=1, labelled=labelled)
            assert run.finish().shape == (7, 1)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_phases_are_a_table(name):
    """Clients answer phases of the table, each of which can be reached from set-up."""
    phases = ALGORITHMS[name].phases
    for case in FEW:
        for half in case.run().clients if case.algorithm == name else ():
            assert set(half.handlers) <= set(phases)
    reached = {START, "start"}
    while new := {p for p, e in phases.items() if reached & set(e.after or reached)}:
        if new <= reached:
            break
        reached |= new
    assert set(phases) <= reached
    for phase in phases.values():
        assert set(phase.after or ()) <= {*phases, START, "start"}
        for kind in (phase.request, *phase.reply):
            assert set(seen_fields(kind)) == set(kind.__struct_fields__)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_says_what_it_is(name):
    """The class has its name, its settings' documentation and a module docstring."""
    kind = ALGORITHMS[name]
    assert kind.name == name
    assert kind.__doc__
    assert inspect.getmodule(kind).__doc__


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_model_is_the_one_that_was_measured(case):
    """P of the released weights is the P of the last record, up to rounding."""
    run = case.run()
    weights = run.finish()
    measured = [r["primal"] for r in run.history if not np.isnan(r["primal"])]
    assert measured[-1] == pytest.approx(objective().primal(weights), rel=1e-6)

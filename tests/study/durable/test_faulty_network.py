"""Whole studies on a network on which everything goes wrong."""

import numpy as np
import pytest

from hyfdca.errors import StudyError
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.runtime.faulty import Faults
from tests.support.durable_runs import Consortium, numbers, replayed, undisturbed, write
from tests.support.thoroughness import sampled

EVERYTHING = Faults(drop=0.1, delay=0.1, duplicate=0.1, reorder=0.1, corrupt=0.1)
ALGORITHMS = {
    "bundle": {"tol": "1e-3"},
    "hyfdca": {"algorithm": '"hyfdca"', "tol": "0.1"},
    "partial": {"algorithm": '"hyfdca"', "participation": "0.67", "max_rounds": "8"},
    "lbfgs": {"algorithm": '"lbfgs"', "tol": "1e-3", "encryption": '"stream"'},
}
N_RUNS, N_FAST = 200, 12


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the numbers of each study when nothing goes wrong, computed once."""
    made = {}

    def of(name):
        if name not in made:
            folder = write(tmp_path_factory.mktemp("study"), **ALGORITHMS[name])
            training, weights = undisturbed(folder)
            made[name] = folder, numbers(training.history), weights
        return made[name]

    return of


def check_run(expected, seed, crash=0.0):
    """Check that a run on a bad network equals the one on a good network."""
    name = list(ALGORITHMS)[seed % len(ALGORITHMS)]
    folder, history, weights = expected(name)
    faults = Faults(**{**vars(EVERYTHING), "crash": crash})
    consortium = Consortium(folder, faults, seed, n_tries=4)
    rounds, found = consortium.train()
    assert np.array_equal(found, weights)
    assert numbers(rounds.history) == history
    met = {"drop", "delay", "duplicate", "reorder", "corrupt"}
    assert met <= consortium.network.met.keys()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(N_FAST))
def test_every_run_ends_as_if_nothing_had_gone_wrong(seed, expected):
    """Lost, late, doubled, damaged and reordered messages change no bit."""
    check_run(expected, seed)


@pytest.mark.sampled(5)
@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(N_FAST, N_RUNS), 7))
def test_every_run_ends_as_if_nothing_had_gone_wrong_many_times(seed, expected):
    """Faults are frequent enough to include rare coincidences."""
    check_run(expected, seed, crash=0.002 if seed % 2 else 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_runs_that_do_without_some_are_those_of_who_was_there(seed, tmp_path):
    """With a quorum the replay of the recorded participants has the same numbers."""
    write(tmp_path, quorum="1", **{**ALGORITHMS["partial"], "participation": "1.0"})
    consortium = Consortium(tmp_path, EVERYTHING, seed, n_tries=4)
    rounds = consortium.hosted().runner
    consortium.network.n_tries = 2  # only the beginning needs everybody
    weights = rounds.finish()
    assert min(len(r["participants"]) for r in rounds.history) < 3
    again, same = replayed(tmp_path, rounds.history)
    assert np.array_equal(weights, same)
    assert numbers(rounds.history) == numbers(again.history)


def test_a_member_that_always_fails_ends_the_study_with_its_name(tmp_path, expected):
    """It is not retried forever."""
    folder, *_ = expected("bundle")
    consortium = Consortium(folder)
    member = consortium.network._members[1]
    half_done = member.handle

    def fail(stage, phase, payload):
        if stage == "training" and phase == "trial":
            raise RemoteProtocolError("its disk is full")
        return half_done(stage, phase, payload)

    member.handle = fail
    with pytest.raises(StudyError, match="'city' failed more than 20 times") as raised:
        consortium.train()
    assert "its disk is full" in str(raised.value)

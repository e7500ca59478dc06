"""Evaluations that are disturbed give the same numbers, bit for bit."""

from __future__ import annotations

import pytest

from hyfdca.model.file import as_bytes
from hyfdca.runtime.faulty import Faults
from hyfdca.stages.evaluation.messages import PHASES
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.local.training import train_file
from hyfdca.study.outcome import train
from tests.support.durable_runs import Consortium, write

HOLDOUT = {"holdout": "0.4", "salt": '"b"', "min_bin": "2", "tol": "1e-2"}
STREAM = {**HOLDOUT, "encryption": '"stream"'}


def undisturbed(folder):
    outcome = train(prepare(load(folder / "study.toml"), folder), lambda *_: None)
    return as_bytes(outcome.model()), outcome.evaluation


def found_by(outcome):
    return as_bytes(outcome.model()), outcome.evaluation


@pytest.mark.slow
@pytest.mark.parametrize("unlabelled", [False, True])
def test_encryption_and_checkpoints_change_no_bit(unlabelled, tmp_path):
    """Evaluations in the clear, sealed, kept and not kept are the same."""
    write(tmp_path, unlabelled, **STREAM)
    expected = undisturbed(tmp_path)
    assert expected[1]["n_rows"] > 10
    assert found_by(Consortium(tmp_path).tested()) == expected
    write(tmp_path, unlabelled, **HOLDOUT, encryption='"none"')
    assert undisturbed(tmp_path) == expected
    assert (
        train_file(
            tmp_path / "study.toml", tmp_path / "out", lambda *_: None
        ).evaluation
        == expected[1]
    )


class OneCrash:
    """Lets a member restart as it is about to answer, or has answered, a phase."""

    def __init__(self, consortium, phase, rank, before):
        self.is_over, self._phase, self._rank = False, phase, rank
        self._network, self._before = consortium.network, before
        self._delivered = consortium.network._delivered
        consortium.network._delivered = self

    def __call__(self, rank, stage, phase, payload):
        """Deliver one request."""
        strikes = (phase, rank) == (self._phase, self._rank) and not self.is_over
        self.is_over |= strikes
        if strikes and self._before:
            self._network.restart(rank)
        reply = self._delivered(rank, stage, phase, payload)
        if strikes and not self._before:
            self._network.restart(rank)
        return reply


@pytest.mark.sampled(11)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("before", [True, False])
def test_a_member_that_dies_in_any_phase_comes_back(phase, rank, before, tmp_path):
    """The evaluation is repeated with the model that was released before."""
    write(tmp_path, **STREAM)
    expected = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    crash = OneCrash(consortium, phase, rank, before)
    assert found_by(consortium.tested()) == expected
    assert crash.is_over or (phase, rank) == ("open measures", 1)


def test_a_server_that_dies_during_the_evaluation_repeats_it(tmp_path):
    """It resumes from its last round, and members give the same weights again."""
    write(tmp_path, **STREAM)
    expected = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    hosted = consortium.hosted()
    for _ in hosted.runner.rounds():
        pass
    evaluator = consortium._run(hosted).evaluator
    asked = []

    def die(model):
        conversation = evaluator.server.run(model)
        with evaluator.session.visiting(PHASES):
            ask = next(conversation)
            for _ in range(9):
                asked.append(ask.phase)
                ask = conversation.send(evaluator.driver.exchange(ask))

    hosted.runner.conclude(lambda _: die(expected[0]))
    assert "measures" in asked
    assert found_by(consortium.tested()) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_bad_network_changes_no_number(seed, tmp_path):
    """Requests are lost, late, twice or damaged, and members crash."""
    write(tmp_path, **STREAM)
    expected = undisturbed(tmp_path)
    faults = Faults(0.01, 0.01, 0.02, 0.05, 0.01, 0.004)
    consortium = Consortium(tmp_path, faults, seed, n_tries=3)
    assert found_by(consortium.tested()) == expected
    assert sum(consortium.network.met.values()) > 10

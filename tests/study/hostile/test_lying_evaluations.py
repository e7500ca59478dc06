"""Servers that want to know more of rows set aside than an evaluation tells."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from hyfdca.model.file import as_bytes
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.protocol.messages import TotalsSpec
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.store import Archive
from hyfdca.stages.evaluation import messages as m
from hyfdca.study.client.policy import MemberPolicy
from hyfdca.study.client.release import forget_release
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.study.hostile.test_lying_servers import LyingConsortium, numbers, reals
from tests.support.consortia import make_files
from tests.support.durable_runs import Consortium, write

HOLDOUT = {
    "holdout": "0.4",
    "salt": '"b"',
    "min_bin": "2",
    "tol": "1e-2",
    "encryption": '"stream"',
}


def expected(folder):
    outcome = train(prepare(load(folder / "study.toml"), folder), lambda *_: None)
    return as_bytes(outcome.model()), outcome.evaluation


def changed_model(content, change):
    """Return a model file of which something is changed."""
    model = json.loads(content)
    change(model)
    return json.dumps(model).encode()


def with_feature(name, value):
    """Return what gives one feature another weight."""

    def change(model):
        model["weights"][name] = [value]

    return change


def about_the_model(model):
    for name in ("x3", "x4"):  # those that the victim counts
        yield "evaluated model", [changed_model(model, with_feature(name, 1.0))]
    other = changed_model(model, lambda own: own.update(classes=["a", "b"]))
    yield "evaluated model", [other]
    yield "evaluated model", [b"{}"]
    yield "held-out parts", [[40, 58]]


def about_proofs(tags):
    yield "same model", [tags[:-1]]
    yield "same model", [[tags[0]] * 3]


def about_owners(*content):
    n_rows = len(content[2]) // 4
    yield "arrange held-out", [*content[:7], numbers([9] * n_rows)]
    yield "arrange held-out", [*content[:7], None]


def about_edges(grids, all_edges):
    [edges] = all_edges
    values = np.frombuffer(edges, "<f8")
    for wrong in (values[::-1], [np.nan], [0.0, 0.0], [], np.arange(3000.0)):
        yield "score bins", [grids, [reals(wrong)]]
    yield "score bins", [grids, [edges, edges]]


def about_tenths(grids, _):
    for wrong in ([3], [10, 10], [0, 10], [11], []):
        yield "calibration bins", [grids, [numbers(wrong)]]


def about_points(grids, _):
    yield "recalibration", [grids, reals([0.0])]
    yield "score bins", [grids[:2], [reals([0.0])]]


LIES = {
    "evaluated model": about_the_model,
    "same model": about_proofs,
    "arrange held-out": about_owners,
    "score bins": about_edges,
    "calibration bins": about_tenths,
    "recalibration": about_points,
}


def lies(_, phase, content):
    """Return what a server could ask for instead, phase by phase."""
    return LIES[phase](*content) if phase in LIES else ()


def test_lies_are_refused_and_change_nothing(tmp_path):
    """The evaluation afterwards is that of an honest server."""
    write(tmp_path, **HOLDOUT)
    wanted = expected(tmp_path)
    consortium = LyingConsortium(tmp_path, lies)
    outcome = consortium.tested()
    assert (as_bytes(outcome.model()), outcome.evaluation) == wanted
    assert consortium.victim.answers == []
    assert len(consortium.victim.refusals) > 20


def test_a_model_is_tested_after_it_was_released(tmp_path):
    """Before that, nobody answers."""
    write(tmp_path, **HOLDOUT)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=2)
    session = ServerSession(consortium.plan.token, m.PHASES, after=2**40)
    driver = consortium.network.driver("evaluation")
    asks = session.try_ask("evaluated model", {0: m.EvaluatedModel(b"{}")}, m.ModelTag)
    answers, failed = driver.run(asks, Traffic())
    assert not answers
    assert "no model has been released yet" in failed[0]


def test_two_clients_are_not_sent_two_models(tmp_path):
    """A weight that another client counts is changed, so only the proofs show it."""
    write(tmp_path, **HOLDOUT)
    run = prepare(load(tmp_path / "study.toml"), tmp_path)
    for _ in run.training.rounds():
        pass
    seen = []

    def two_stories(model):
        other = changed_model(model, with_feature("x0", 1.0))
        session, evaluator = run.evaluator.session, run.evaluator
        with session.visiting(m.PHASES):
            sent = {0: m.EvaluatedModel(model), 1: m.EvaluatedModel(other)}
            sent[2] = sent[0]
            asked = session.ask("evaluated model", sent, m.ModelTag)
            tags = evaluator.driver.run(asked, Traffic())
            proofs = m.ModelTags([reply.tag for reply in tags.values()])
            for rank in range(3):
                asked = session.ask("same model", {rank: proofs}, m.Message)
                with pytest.raises(RemoteProtocolError, match="the same model") as why:
                    evaluator.driver.run(asked, Traffic())
                seen.append(str(why.value))

    model = expected(tmp_path)[0]
    run.training.conclude(lambda _: two_stories(model))
    assert len(seen) == 3


_NUMBERS = itertools.count(1)


def asked_about(phase):
    """Return a question that nobody has asked before."""
    number = float(next(_NUMBERS))
    own = memoryview(reals([0.25, number]))
    grids = [TotalsSpec(20, 50, 0)]
    return {
        "measure bounds": m.BoundsRequest(number),
        "measures": m.MeasuresRequest(number, 4 * grids),
        "score bins": m.BinsRequest(3 * grids, [own]),
        "recalibration": m.RecalibrationRequest(6 * grids, own),
    }[phase]


def n_answered(consortium, phase):
    """Return how many such questions the first member answers until it refuses."""
    ask, answers = consortium.network._members[0].evaluation.handlers[phase], []

    def ask_on():
        while len(answers) < 100:
            answers.append(ask(asked_about(phase)))

    with pytest.raises(RemoteProtocolError, match="in this run, to other questions"):
        ask_on()
    return len(answers)


@pytest.mark.parametrize(
    ("phase", "most"),
    [
        ("measure bounds", 2),
        ("measures", 2),
        ("score bins", m.MOST_PASSES),
        ("recalibration", m.MOST_STEPS),
    ],
)
def test_scores_are_not_asked_for_again_and_again(phase, most, tmp_path):
    """They are limited within one test and over all tests of the run."""
    write(tmp_path, **HOLDOUT)
    consortium = Consortium(tmp_path)
    first = consortium.tested()
    assert 0 < n_answered(consortium, phase) < most  # some were in the test itself
    again = consortium.tested()  # the server sends the same model again
    assert n_answered(consortium, phase) == 0
    for rank in range(3):
        consortium.network.restart(rank)
    third = consortium.tested()
    assert n_answered(consortium, phase) == 0
    assert first.evaluation == again.evaluation == third.evaluation
    # Only the member's own user can allow more.
    forget_release(Archive(consortium.stores[0]))
    assert consortium.tested().evaluation == first.evaluation
    assert n_answered(consortium, phase) > 0


class Holders:
    """Names other label holders, after or instead of the honest ones."""

    def __init__(self, change, n_honest):
        self._change, self._n_honest, self._n_seen = change, n_honest, 0

    def __call__(self, _, phase, content):
        """Yield the lie once the honest holders came often enough."""
        if phase == "arrange held-out":
            self._n_seen += 1
            if self._n_seen > self._n_honest:
                owners = np.frombuffer(content[7], "<u4").copy()
                self._change(owners)
                groups = numbers(0 * owners)
                yield phase, [*content[:2], groups, *content[3:7], numbers(owners)]


def one_less(owners):
    """Give the score of one row to another organisation."""
    owners[np.flatnonzero(owners == 1)[0]] = 0


def one_alone(owners):
    """Give the victim the score of a single row."""
    owners[np.flatnonzero(owners == 1)[1:]] = 0


def test_label_holders_stay_the_same_in_a_run(tmp_path):
    """The difference of two sums would be one row; a restart changes nothing."""
    write(tmp_path, curves="2", **{**HOLDOUT, "tol": "1e-4"})
    wanted = expected(tmp_path)
    consortium = LyingConsortium(tmp_path, Holders(one_less, n_honest=1))
    consortium.begin(n_rounds=2)
    consortium.network.restart(1)
    outcome = consortium.tested()
    assert (as_bytes(outcome.model()), outcome.evaluation) == wanted
    assert consortium.victim.answers == []
    reasons = {why for _, why in consortium.victim.refusals}
    assert len(reasons) == 1
    assert "other label holders than before in this run" in reasons.pop()


def test_a_policy_refuses_to_have_single_rows_measured(tmp_path):
    """Who gets the scores is the server's word; how few rows may be one's own."""
    write(tmp_path, **HOLDOUT)
    wanted = expected(tmp_path)
    consortium = LyingConsortium(tmp_path, Holders(one_alone, n_honest=0))
    consortium.victim.member._policy = MemberPolicy(least_rows=2)
    outcome = consortium.tested()
    assert as_bytes(outcome.model()) == wanted[0]
    assert outcome.evaluation["log_loss"] == wanted[1]["log_loss"]
    assert consortium.victim.answers == []
    [[_, why]] = consortium.victim.refusals
    assert "at least 2 of its rows in every sum" in why
    assert "has 1;" in why


def evaluated_with(policy, folder):
    """Return what a test finds if all organisations have the same policy."""
    run = prepare(load(folder / "study.toml"), folder)
    for member in run.members:
        member._policy = policy
    return train(run, lambda *_: None).evaluation


def test_a_policy_withholds_small_bins(tmp_path):
    """Calibration bins are then empty; everything else is as it was."""
    files = make_files(**{**HOLDOUT, "salt": '"d"', "encryption": '"none"'})
    run = prepare(load(files.write(tmp_path)), tmp_path)
    plain = train(run, lambda *_: None).evaluation
    assert plain["calibration"]["bins"]
    strict = evaluated_with(MemberPolicy(least_rows=5), tmp_path)
    assert strict["calibration"]["bins"] == []
    assert strict["calibration"]["slope"] == plain["calibration"]["slope"]
    assert strict["log_loss"] == plain["log_loss"]
    assert strict["auc_low"] <= plain["auc_low"]
    with pytest.raises(RefusedError, match="at least 9 of its rows in every sum"):
        evaluated_with(MemberPolicy(least_rows=9), tmp_path)

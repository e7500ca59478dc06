"""Servers that want to know more of rows set aside than an evaluation tells."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hyfdca.model.file import as_bytes
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import TotalsSpec
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.stages.evaluation import messages as m
from hyfdca.study.client.policy import MemberPolicy
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.study.test_lying_servers import LyingConsortium, numbers, reals
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


@pytest.mark.parametrize(
    ("phase", "most"),
    [("score bins", m.MOST_PASSES), ("recalibration", m.MOST_STEPS)],
)
def test_scores_are_not_asked_for_again_and_again(phase, most, tmp_path):
    """A server could find them by counting in ever smaller bins."""
    write(tmp_path, **HOLDOUT)
    run = prepare(load(tmp_path / "study.toml"), tmp_path)
    train(run, lambda *_: None)
    member, n_answers = run.members[0].evaluation, 0
    grids = [TotalsSpec(20, 50, 0)] * {"score bins": 3, "recalibration": 6}[phase]
    request = {
        "score bins": m.BinsRequest(grids, [memoryview(reals([0.0]))]),
        "recalibration": m.RecalibrationRequest(grids, memoryview(reals([0.0, 1.0]))),
    }[phase]
    while member._n_asked[phase] < most:  # some were in the evaluation itself
        member.handlers[phase](request)
        n_answers += 1
    with pytest.raises(RemoteProtocolError, match=f"answered {most} times"):
        member.handlers[phase](request)
    assert 0 < n_answers < most


def test_a_policy_withholds_small_bins(tmp_path):
    """Calibration bins are then empty; everything else is as it was."""
    files = make_files(**{**HOLDOUT, "encryption": '"none"'})
    run = prepare(load(files.write(tmp_path)), tmp_path)
    plain = train(run, lambda *_: None).evaluation
    assert plain["calibration"]["bins"]
    again = prepare(load(tmp_path / "study.toml"), tmp_path)
    for member in again.members:
        member._policy = MemberPolicy(least_rows=9)
    strict = train(again, lambda *_: None).evaluation
    assert strict["calibration"]["bins"] == []
    assert strict["calibration"]["slope"] == plain["calibration"]["slope"]
    assert strict["log_loss"] == plain["log_loss"]
    assert strict["auc_low"] <= plain["auc_low"]

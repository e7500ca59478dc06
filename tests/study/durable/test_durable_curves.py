"""Curves that are disturbed have the same points, and servers get no others."""

from __future__ import annotations

from itertools import islice

import msgspec
import pytest

from hyfdca.model.file import as_bytes
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.stages.validation import messages as m
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.study.durable.test_durable_evaluation import OneCrash
from tests.study.hostile.test_lying_servers import LyingConsortium
from tests.support.durable_runs import Consortium, numbers, write

CURVES = {
    "holdout": "0.4",
    "salt": '"b"',
    "min_bin": "2",
    "tol": "1e-4",
    "curves": "2",
    "encryption": '"stream"',
}


def found_by(outcome):
    """Return the model, its test, and the history with the points of the curves."""
    history = outcome.run.training.history
    assert any("validation_loss" in record for record in history)
    return as_bytes(outcome.model()), outcome.evaluation, numbers(history)


def undisturbed(folder):
    run = prepare(load(folder / "study.toml"), folder)
    return found_by(train(run, lambda *_: None))


@pytest.mark.parametrize("settings", [{}, {"algorithm": '"hyfdca"', "tol": "0.05"}])
def test_checkpoints_change_no_point(settings, tmp_path):
    """A study that keeps everything has the history of one that keeps nothing."""
    write(tmp_path, **{**CURVES, **settings})
    assert found_by(Consortium(tmp_path).tested()) == undisturbed(tmp_path)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("phase", m.PHASES)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("before", [True, False])
def test_a_member_that_dies_in_any_phase_comes_back(phase, rank, before, tmp_path):
    """The round is repeated, and its point is the same."""
    write(tmp_path, **CURVES)
    expected = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    crash = OneCrash(consortium, phase, rank, before)
    assert found_by(consortium.tested()) == expected
    assert crash.is_over or (phase, rank) == ("open measures", 1)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_server_that_stops_between_points_resumes(every, restarts, tmp_path):
    """Rounds after the last checkpoint are run again, with their points."""
    write(tmp_path, checkpoint_every=str(every), **CURVES)
    expected = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    for n_rounds in (4, 2):  # each time some more
        for _ in islice(consortium.hosted().runner.rounds(), n_rounds):
            pass
        if restarts:
            for rank in range(3):
                consortium.network.restart(rank)
    assert found_by(consortium.tested()) == expected


def test_a_server_that_dies_within_a_point_repeats_the_round(tmp_path):
    """Members answered some of its phases, and answer them again after going back."""
    write(tmp_path, **CURVES)
    expected = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    deliver, asked = consortium.network._delivered, []

    def dying(rank, stage, phase, payload):
        if stage == "validation":
            asked.append(phase)
            if len(asked) == 12:
                raise KeyboardInterrupt
        return deliver(rank, stage, phase, payload)

    consortium.network._delivered = dying
    with pytest.raises(KeyboardInterrupt):
        consortium.tested()
    consortium.network._delivered = deliver
    assert "held-out parts" in asked
    assert found_by(consortium.tested()) == expected


def test_a_round_without_an_organisation_has_no_point(tmp_path):
    """With a quorum rounds continue; a point needs everybody, and is left out."""
    write(tmp_path, quorum="2", participation="1.0", max_rounds="9", **CURVES)
    consortium = Consortium(tmp_path)
    deliver = consortium.network._delivered
    is_away = False

    def partly(rank, stage, phase, payload):
        if is_away and rank == 2:
            raise RemoteProtocolError("it is away")
        return deliver(rank, stage, phase, payload)

    consortium.network._delivered = partly
    points = {}
    for report in consortium.hosted().runner.rounds():
        points[report.round_number] = report.validation is not None
        is_away = 3 <= report.round_number < 6
    assert {n for n, has_one in points.items() if has_one} <= {2, 4, 6, 8}
    assert points[2]
    assert not points[4]
    assert points[8]


# Servers that want more


def about_points(_, phase, content):
    """Yield what a server could ask for instead of a point that is due."""
    if phase != "validation point":
        return
    number, point, intercepts, levels = content
    for other in (0, number - 1, number + 1, number + 2, 10**6):
        yield phase, [other, point, intercepts, levels]
    yield phase, [number, b"", intercepts, levels]
    yield phase, [number, msgspec.msgpack.encode([[-1, [0.5]]]), intercepts, levels]
    yield phase, [number, msgspec.msgpack.encode([[0, [0.5]]]), intercepts, levels]
    yield phase, [number, point, [*intercepts, 0.0], levels]
    yield phase, [number, point, intercepts, [[["a"], None, False]]]
    yield "validation sums", [[[40, 58, 0]] * 4]
    yield "held-out parts", [[40, 58]]


def test_points_that_are_not_due_are_refused_and_change_nothing(tmp_path):
    """Each lie comes before every honest point."""
    write(tmp_path, **CURVES)
    expected = undisturbed(tmp_path)
    consortium = LyingConsortium(tmp_path, about_points)
    assert found_by(consortium.tested()) == expected
    victim = consortium.victim
    assert victim.answers == []
    reasons = " ".join(why for _, why in victim.refusals)
    assert "curves have no round" in reasons
    assert "has not been reached" in reasons
    assert "does not decode" in reasons
    assert "not the next one" in reasons
    assert "levels of other columns" in reasons


def test_a_round_is_answered_once(tmp_path):
    """The same again is refused, and so is any after the end was announced."""
    write(tmp_path, **CURVES)
    consortium = Consortium(tmp_path)
    session = ServerSession(consortium.plan.token, m.PHASES, after=2**50)
    driver = consortium.network.driver("validation")

    def refusal(number):
        request = m.PointNotice(number, b"", (), [])
        asks = session.try_ask("validation point", {0: request}, m.Message)
        _, failed = driver.run(asks, Traffic())
        return failed[0]

    member = consortium.network._members[0]
    assert "training has not begun" in refusal(2)
    runner = consortium.hosted().runner
    for _ in islice(runner.rounds(), 2):
        pass
    due, half = member._due, member.half
    with pytest.raises(RemoteProtocolError, match="round 2 of the curves was answered"):
        due.take(2)
    with pytest.raises(RemoteProtocolError, match="round 6 has not been reached"):
        due.take(6)
    before = half.state()
    due.go_back(1)
    with pytest.raises(RemoteProtocolError, match="was answered"):
        due.take(2)  # it was saved
    assert half.state().moved == before.moved
    for _ in runner.rounds():
        pass
    runner.checkpoints.announce_end()
    with pytest.raises(RemoteProtocolError, match="the end of the study was announced"):
        due.take(runner.progress.n_rounds + 2)


def test_a_study_without_curves_has_no_points(tmp_path):
    """Members decide by their own study file."""
    write(tmp_path, **{k: v for k, v in CURVES.items() if k != "curves"})
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=1)
    with pytest.raises(RemoteProtocolError, match="the study's curves have no round 2"):
        consortium.network._members[0]._due.take(2)

"""Servers that ask for more than the protocol: members refuse, and nothing is read.

These servers frame their own messages, number by number and field by field as
docs/protocol.md describes them, and use nothing of the library's server.
"""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import ClientsFailedError
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.store import Archive
from hyfdca.study.client.release import forget_release
from tests.support.durable_runs import Consortium, undisturbed, write
from tests.support.liars import BODY, framed, unframed


def reals(values):
    """Return numbers as they travel."""
    return np.asarray(values, "<f8").tobytes()


def numbers(values):
    """Return positions as they travel."""
    return np.asarray(values, "<u4").tobytes()


class Tempted:
    """A member that gets lies before every honest request."""

    def __init__(self, member, lies):
        self.member, self._lies = member, lies
        self.answers, self.refusals = [], []

    def handle(self, stage, phase, payload):
        """Pass an honest request on, after the lies about it."""
        token, number, content = unframed(payload)
        for wrong, changed in self._lies(self.member, phase, content):
            self.say(stage, wrong, framed(token, number, changed))
        return self.member.handle(stage, phase, payload)

    def say(self, stage, phase, payload):
        """Send a lie; note what became of it."""
        try:
            self.answers.append((phase, self.member.handle(stage, phase, payload)))
        except RemoteProtocolError as error:
            self.refusals.append((phase, str(error)))


class LyingConsortium(Consortium):
    """A study whose server lies to one member."""

    def __init__(self, folder, lies, rank=1):
        self._lies, self._victim = lies, rank
        super().__init__(folder)

    def member(self, rank):
        """Start a member, the victim with a liar in front."""
        member = super().member(rank)
        return Tempted(member, self._lies) if rank == self._victim else member

    @property
    def victim(self):
        """The member that is lied to."""
        return self.network._members[self._victim]


def chosen_points(member, phase, content):
    """Yield trial points of the server's choice instead of mixtures of planes."""
    n_features = member.block.X.shape[1] if phase in {"trial", "search"} else 0
    if phase == "trial":
        move, _, mixture, *rest = content
        honest = np.frombuffer(mixture)
        for unit in np.eye(n_features):
            yield "trial", [move, reals(unit), None, *rest]
            yield "trial", [move, reals(unit), mixture, *rest]
        yield "trial", [move, None, reals(2.0 + honest), *rest]
        for plane in range(len(honest)):
            spread = np.where(np.arange(len(honest)) == plane, -1.0, honest)
            yield "trial", [move, None, reals(spread), *rest]
    if phase == "search":
        zero = reals(np.zeros(n_features))
        for asked in ([[0, [0.0]], zero, None, [40, 50], []], content):
            yield "trial", asked
        yield "visit", [zero, numbers([0]), numbers([0]), [40, 50]]
        margins, _, *rest = content
        yield "search", [margins, [0.25], *rest]
    if phase == "open search":
        totals, shapes, *rest = content
        yield "open search", [totals, [[1, 40]], *rest]
        yield "open search", [[*totals, *totals], [*shapes, *shapes], *rest]


@pytest.mark.parametrize("encryption", ['"stream"', '"none"'])
def test_a_server_cannot_choose_the_points_of_a_sealed_study(encryption, tmp_path):
    """No margins at points of its choice: it would read a column per request."""
    folder = write(tmp_path, encryption=encryption, tol="1e-2", algorithm='"bundle"')
    consortium = LyingConsortium(folder, chosen_points, rank=0)
    _, weights = consortium.train()
    victim = consortium.victim
    assert victim.answers == []
    assert {phase for phase, _ in victim.refusals} == {
        "trial",
        "search",
        "open search",
        "visit",
    }
    reasons = " ".join(why for _, why in victim.refusals)
    assert "'weights' does not belong to the sealed profile" in reasons
    assert "not a mixture" in reasons
    assert "not those of the phase" in reasons
    assert weights.tobytes() == undisturbed(folder)[1].tobytes()


def single_rows(member, phase, content):
    """Yield what reads rows alone: buckets of one row, and releases at any time."""
    if phase == "buckets":
        rows = np.arange(member.block.X.shape[0])
        yield "buckets", [numbers(rows), numbers(rows)]
        yield "buckets", [numbers([0, 1]), numbers(rows > 0)]
    if phase == "stop":
        _, gap, _ = content
        for asked in (
            [1, gap, "round limit"],
            [10**6, 1.0, "tolerance"],
            [10**6, float("nan"), "tolerance"],
            [10**6, gap, "time limit"],
            [10**6, gap, "stalled"],
            [10**6, gap, "interrupted"],
            [10**6, gap, "because"],
            [0, gap, "diverged"],
        ):
            yield "stop", asked
    if phase in {"planes", "gram", "trial", "search", "open search"}:
        yield "release", [[0, [0.0]]]


def test_a_server_cannot_read_rows_by_releases(tmp_path):
    """No bucket of single rows, and no weights before the study's own end."""
    folder = write(tmp_path, encryption='"stream"', tol="1e-2", algorithm='"bundle"')
    consortium = LyingConsortium(folder, single_rows)
    _, weights = consortium.train()
    victim = consortium.victim
    assert victim.answers == []
    assert {phase for phase, _ in victim.refusals} == {"buckets", "stop", "release"}
    assert weights.tobytes() == undisturbed(folder)[1].tobytes()


def test_a_model_is_released_once(tmp_path):
    """After the end a server gets the same weights again, and no others."""
    folder = write(tmp_path, encryption='"stream"', tol="1e-2", algorithm='"bundle"')
    released, moves = [], []

    def listen(member, phase, content):
        if phase == "release":
            moves.append(content)
        return ()

    consortium = LyingConsortium(folder, listen)
    runner, _ = consortium.train()
    victim, token = consortium.victim, consortium.plan.token
    last, number = len(runner.history), 2**50
    study = b"hyfdca:1"

    def say(stage, phase, content):
        nonlocal number
        number += 1
        head = study if stage == "study" else token
        return victim.member.handle(stage, phase, framed(head, number, content))[BODY:]

    for _ in range(2):
        say("study", "return", [last, number])
        with pytest.raises(RemoteProtocolError, match="end of the study was announced"):
            say("training", "release", moves[0])
        say("study", "stop", [last, 1e-3, "tolerance"])
        with pytest.raises(RemoteProtocolError, match="end of the study was announced"):
            say("training", "planes", [])
        [[search, steps], *rest] = moves[0]
        other = [[search + 1, [1.5 for _ in steps]], *rest]
        with pytest.raises(RemoteProtocolError, match="released the model"):
            say("training", "release", other)
        released.append(bytes(say("training", "release", moves[0])))
    assert released[0] == released[1]
    # Only the member's own user can allow another one.
    forget_release(Archive(consortium.stores[1]))
    assert bytes(say("training", "release", other)) != released[0]


def test_a_server_cannot_repeat_rounds_without_end(tmp_path, monkeypatch):
    """A repeated round may have another point, so repeats are counted and limited."""
    monkeypatch.setattr("hyfdca.study.client.release.MOST_REPEATS", 2)
    folder = write(tmp_path, encryption='"stream"', max_rounds="3", tol="0.0")
    consortium = LyingConsortium(folder, lambda *_: ())
    hosted = consortium.hosted()
    runner, victim = hosted.runner, consortium.victim.member
    for _ in range(3 + 2 + 1):
        runner.driver.run(runner.server.round([0, 1, 2]), Traffic())
        hosted.checkpoints.go_back()
    with pytest.raises(ClientsFailedError, match="more than 5 rounds repeated"):
        runner.driver.run(runner.server.round([0, 1, 2]), Traffic())
    # A new process knows it, too; only the member's own user can forget it.
    consortium.network._members[1] = consortium.member(1)
    hosted.checkpoints.go_back()
    with pytest.raises(ClientsFailedError, match="start this organisation's client"):
        runner.driver.run(runner.server.round([0, 1, 2]), Traffic())
    assert victim._releases.last_saved == 0


def test_the_gap_at_the_end_is_that_of_the_last_round(tmp_path):
    """A server cannot announce a better certificate than it did round by round."""

    def better(member, phase, content):
        if phase == "stop":
            last, gap, reason = content
            yield "stop", [last, gap / 2, reason]

    folder = write(tmp_path, encryption='"stream"', tol="1e-2", algorithm='"bundle"')
    consortium = LyingConsortium(folder, better)
    consortium.train()
    assert consortium.victim.answers == []
    [[phase, reason]] = consortium.victim.refusals
    assert phase == "stop"
    assert "when it was saved" in reason

"""Servers that want more rounds than the study file has: clients count them."""

from __future__ import annotations

from itertools import count, islice

import pytest

from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import ClientsFailedError
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.store import Archive
from hyfdca.study.client.policy import MemberPolicy
from hyfdca.study.client.release import forget_release
from hyfdca.study.durable import RoundCheckpoints
from tests.study.durable.test_durable_curves import CURVES
from tests.support.durable_runs import Consortium, undisturbed, write
from tests.support.liars import BODY, framed, unframed

EVERYONE = [0, 1, 2]
STUDY = b"hyfdca:1"
METHODS = {
    "bundle": {"algorithm": '"bundle"', "encryption": '"stream"'},
    "open": {"algorithm": '"bundle"', "profile": '"open"'},
    "lbfgs": {"algorithm": '"lbfgs"'},
    "hyfdca": {"algorithm": '"hyfdca"', "tol": "0.1"},
    "fedavg": {"algorithm": '"fedavg"', "max_rounds": "6"},
}
TOO_OFTEN = "since the state was last saved"


def run(hosted, conversation):
    """Ask all clients, as a server of the library would."""
    return hosted.runner.driver.run(conversation, Traffic())


def one_round(hosted):
    """Run a round that nobody saves."""
    run(hosted, hosted.runner.server.round(EVERYONE))


NUMBERS = count(2**50)  # of requests, above those of honest servers


def keep(consortium, round_number, rank=1):
    """Let one client save its state under a number of the server's choice."""
    asked = [round_number, None, EVERYONE, []]
    member = consortium.network._members[rank]
    member.handle("study", "keep", framed(STUDY, next(NUMBERS), asked))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("every", [1, 3])
def test_a_server_that_never_saves_gets_no_more_rounds(name, every, tmp_path):
    """It gets none beyond those between two checkpoints."""
    folder = write(tmp_path, checkpoint_every=str(every), **METHODS[name])
    consortium = Consortium(folder)
    hosted = consortium.hosted()
    for _ in range(every):
        one_round(hosted)
    with pytest.raises(ClientsFailedError, match=TOO_OFTEN):
        one_round(hosted)
    hosted.checkpoints.go_back()
    assert hosted.runner.finish().tobytes() == undisturbed(folder)[1].tobytes()


def test_nor_does_one_that_does_not_save_the_start(tmp_path, monkeypatch):
    """The measurement at weights of zero is one, too."""
    monkeypatch.setattr(RoundCheckpoints, "keep", lambda *_: None)
    consortium = Consortium(write(tmp_path, **METHODS["bundle"]))
    hosted = consortium.hosted()
    with pytest.raises(ClientsFailedError, match=TOO_OFTEN):
        one_round(hosted)


def test_a_state_is_measured_once(tmp_path):
    """Each measurement shows label holders their margins."""
    consortium = Consortium(write(tmp_path, **METHODS["fedavg"]))
    hosted = consortium.hosted()
    run(hosted, hosted.runner.server.measure())
    with pytest.raises(ClientsFailedError, match=f"'evaluate' comes.*{TOO_OFTEN}"):
        run(hosted, hosted.runner.server.measure())


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_server_cannot_save_a_round_under_an_old_number(number, tmp_path):
    """Otherwise it would never reach max_rounds."""
    consortium = Consortium(write(tmp_path, **METHODS["bundle"]))
    hosted = consortium.hosted()
    for _ in islice(hosted.runner.rounds(), 2):
        pass
    one_round(hosted)
    with pytest.raises(RemoteProtocolError, match="cannot be saved: round 2 was, and"):
        keep(consortium, number)
    keep(consortium, 3)


def test_a_server_cannot_go_back_by_saving(tmp_path):
    """Only ``return`` goes back, and it is counted."""
    consortium = Consortium(write(tmp_path, **METHODS["bundle"]))
    for _ in islice(consortium.hosted().runner.rounds(), 2):
        pass
    keep(consortium, 2)  # the same once more
    with pytest.raises(RemoteProtocolError, match="cannot be saved"):
        keep(consortium, 1)


def test_several_rounds_are_not_saved_as_one(tmp_path):
    """Between two checkpoints there are as many rounds as their numbers say."""
    folder = write(tmp_path, checkpoint_every="3", **METHODS["bundle"])
    consortium = Consortium(folder)
    hosted = consortium.hosted()
    for _ in range(3):
        one_round(hosted)
    for number in (1, 2):
        with pytest.raises(RemoteProtocolError, match="3 rounds answered since"):
            keep(consortium, number)
    keep(consortium, 3)


def test_repeats_are_counted_although_they_were_saved(tmp_path, monkeypatch):
    """A round that was saved, and is run again, is a repeat; so after a restart."""
    monkeypatch.setattr("hyfdca.study.client.release.MOST_REPEATS", 1)
    folder = write(tmp_path, max_rounds="3", **{**METHODS["bundle"], "tol": "0.0"})
    consortium = Consortium(folder)
    hosted = consortium.hosted()
    presence = hosted.checkpoints._presence
    for place in range(3 + 1 + 1):
        one_round(hosted)
        presence.keep(1, None)
        accounts = presence.accounts
        if place == 3:
            consortium.network.restart(1)
        hosted.checkpoints.go_back()
        presence.accounts = accounts
    with pytest.raises(ClientsFailedError, match="more than 4 rounds repeated"):
        one_round(hosted)
    for rank in EVERYONE:
        forget_release(Archive(consortium.stores[rank]))
        consortium.network.restart(rank)
    hosted.checkpoints.go_back()
    one_round(hosted)


# Points of the curves


class Point:
    """The request for a point of a round, as an honest server sent it."""

    def __init__(self, consortium, number):
        """Run rounds up to this one, and listen."""
        self._token, self._content = consortium.plan.token, None
        deliver = consortium.network._delivered

        def listen(rank, stage, phase, payload):
            if phase == "validation point" and rank == 0:
                self._content = unframed(payload)[2]
            return deliver(rank, stage, phase, payload)

        consortium.network._delivered = listen
        for _ in islice(consortium.hosted().runner.rounds(), number):
            pass
        self._member, self._number = consortium.network._members[0], 2**50

    def back_to(self, round_number):
        """Return to a round."""
        self._number += 1
        asked = framed(STUDY, self._number, [round_number, self._number])
        self._member.handle("study", "return", asked)

    def asked(self):
        """Ask for the point again."""
        self._number += 1
        asked = framed(self._token, self._number, self._content)
        return self._member.handle("validation", "validation point", asked)[BODY:]


def test_points_that_are_repeated_count_as_rounds(tmp_path, monkeypatch):
    """Without a phase of training in between, and each with steps of its own."""
    monkeypatch.setattr("hyfdca.study.client.release.MOST_REPEATS", 1)
    folder = write(tmp_path, **{**CURVES, "max_rounds": "4"})
    point = Point(Consortium(folder), 2)
    for _ in range(4 + 1):
        point.back_to(1)
        point.asked()
    point.back_to(1)
    with pytest.raises(RemoteProtocolError, match="more than 5 rounds repeated"):
        point.asked()


# The measurement of the start


def policed(consortium, most_rounds):
    """Start the second organisation with a policy."""
    start = type(consortium).member

    def member(rank):
        client = start(consortium, rank)
        if rank == 1:
            policy = MemberPolicy(most_rounds=most_rounds)
            client._policy = client._taken._policy = policy
        return client

    consortium.network._start = member
    consortium.network.restart(1)
    return consortium


def test_a_run_that_begins_twice_measures_its_start_for_free(tmp_path):
    """All begin again if one fails in the preparation: no round is lost by it."""
    folder = write(tmp_path, max_rounds="4", **{**METHODS["bundle"], "tol": "0.0"})
    consortium = policed(Consortium(folder), 4)
    deliver, n_failures = consortium.network._delivered, [0, 0]

    def failing(rank, stage, phase, payload):
        if stage == "alignment" and rank == 2 and n_failures[0] < 1:
            n_failures[0] += 1
            raise RemoteProtocolError("it is away")
        return deliver(rank, stage, phase, payload)

    consortium.network._delivered = failing
    consortium.network.n_tries = 1
    runner, _ = consortium.train()
    assert n_failures[0] == 1
    assert len(runner.history) == 4
    assert consortium.network._members[1]._taken.total == 4


@pytest.mark.parametrize("name", ["run", "rounds-taken"])
def test_a_crash_while_a_run_begins_costs_nothing(name, tmp_path, monkeypatch):
    """After any file is written, it begins for the first time once more."""
    folder = write(tmp_path, max_rounds="4", **{**METHODS["bundle"], "tol": "0.0"})
    consortium = policed(Consortium(folder), 4)
    write_file, crashes = Archive.write, [1]

    def dying(archive, written, content):
        write_file(archive, written, content)
        if written == name and crashes and archive is victim()._archive:
            crashes.pop()
            raise RemoteProtocolError("it died")

    def victim():
        return consortium.network._members[1]

    def restarting(rank, stage, phase, payload):
        try:
            return deliver(rank, stage, phase, payload)
        except RemoteProtocolError as error:
            if "it died" in str(error):
                consortium.network.restart(1)
            raise

    deliver = consortium.network._delivered
    consortium.network._delivered = restarting
    monkeypatch.setattr(Archive, "write", dying)
    runner, _ = consortium.train()
    assert not crashes
    assert len(runner.history) == 4
    assert victim()._taken.total == 4

"""Several runs of one study: what clients accept, and what they count over all runs."""

from __future__ import annotations

import itertools

import pytest

from hyfdca.errors import StudyError
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import RefusedError
from hyfdca.protocol.server_session import ClientsFailedError
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.store import Archive, MemoryStore
from hyfdca.study import messages as m
from hyfdca.study.client.client import STUDY_TOKEN, StudyClient
from hyfdca.study.client.policy import MemberPolicy
from hyfdca.study.client.release import forget_release
from hyfdca.study.client.runs import KnownRun
from hyfdca.study.tuning import FIRST_RUN, RunChoice
from tests.support.durable_runs import Consortium, numbers, undisturbed, write

RANGES = """\
l2 = {least = 1e-5, most = 1.0}
tol = {least = 1e-6, most = 1e-2}
max_rounds = {most = 2000}
"""
BUNDLE = {"algorithm": '"bundle"', "tol": "1e-2"}
CHOSEN = {"l2": 0.5, "tol": 1e-3, "max_rounds": 200}


def of_file(folder, **chosen):
    """Run a study whose file has the chosen values, in one process."""
    folder.mkdir()
    settings = {**BUNDLE, **{name: repr(value) for name, value in chosen.items()}}
    return undisturbed(write(folder, **settings))


@pytest.fixture
def consortium(tmp_path):
    """A study that leaves settings open, before its first run."""
    return Consortium(write(tmp_path, tuning=RANGES, **BUNDLE))


def begin(consortium, run, rank=1):
    """Let a client begin a run, as a server with any plan would."""
    message = m.BeginRequest.of(run, 2**42)
    member = consortium.network._members[rank]
    framed = frame(STUDY_TOKEN, next(_NUMBERS), message)
    return member.handle("study", "begin", framed)


_NUMBERS = itertools.count(2**43)


# Models


def test_a_further_run_is_a_study_with_the_chosen_values(consortium, tmp_path):
    """It is, bit for bit, after a first run with other values."""
    first, before = consortium.train()
    consortium.further(**CHOSEN)
    second, after = consortium.train()
    expected, weights = of_file(tmp_path / "chosen", **CHOSEN)
    assert after.tobytes() == weights.tobytes()
    assert numbers(second.history) == numbers(expected.history)
    assert before.tobytes() != after.tobytes()
    # Nobody has to give its consent for another run by hand; the first is as ever.
    assert before.tobytes() == of_file(tmp_path / "first")[1].tobytes()
    assert len(first.history) != len(second.history)


@pytest.mark.parametrize("n_rounds", [1, 3])
def test_a_further_run_survives_its_parties(consortium, n_rounds, tmp_path):
    """All are killed in it; they come back to the same run with the same choice."""
    consortium.train()
    consortium.further(**CHOSEN)
    consortium.begin(n_rounds)
    for rank in range(3):
        consortium.network.restart(rank)
    assert consortium.network._members[1].plan.run == consortium.server_plan.run
    weights = consortium.train()[1]
    expected = of_file(tmp_path / "chosen", **CHOSEN)[1]
    assert weights.tobytes() == expected.tobytes()


def test_the_result_says_what_was_chosen(consortium):
    """The model and its result have the values of the run."""
    consortium.train()
    consortium.further(l2=0.5)
    outcome = consortium.tested()
    assert outcome.result()["l2"] == outcome.model().l2 == 0.5
    assert outcome.result()["about"]["settings"]["l2"] == 0.5


def test_rounds_of_one_run_are_not_continued_as_another(consortium):
    """If a server's state mixes two runs, it says so."""
    consortium.begin(1)
    consortium.server_plan = consortium.plan.of_run(RunChoice(number=2, l2=0.5))
    with pytest.raises(StudyError, match="preparation is damaged"):
        consortium.hosted()


# What clients refuse


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (RunChoice(number=2, l2=2.0), "run 2 has l2 = 2.0, but the study file allows"),
        (RunChoice(number=2, tol=0.5), "allows tol from 1e-06 to 0.01"),
        (RunChoice(number=2, max_rounds=2001), "allows max_rounds from 1 to 2000"),
    ],
)
def test_clients_refuse_what_their_study_file_does_not_allow(run, said, consortium):
    """The server's copy does not matter; a refusal changes nothing."""
    consortium.train()
    before = {name: consortium.stores[1].read(name) for name in _names(consortium)}
    with pytest.raises(RefusedError) as raised:
        begin(consortium, run)
    assert said in str(raised.value)
    after = {name: consortium.stores[1].read(name) for name in _names(consortium)}
    assert before == after


def _names(consortium):
    return consortium.stores[1].names()


def test_only_runs_with_an_answered_round_count(consortium):
    """They are counted on disk, each once; a run that only began never is."""
    plan, archive = consortium.plan, Archive(MemoryStore())
    for number in range(1, 10):
        known = KnownRun(plan, archive)  # as after a restart
        known.begin(known.checked(RunChoice(number=number)))
        if number % 2:
            known.note_round()
            known.note_round()
    known.begin(known.checked(RunChoice(number=9)))
    known = KnownRun(plan, archive)
    with pytest.raises(RefusedError, match="run 10 is not allowed, because the study"):
        known.checked(RunChoice(number=10))
    with pytest.raises(RefusedError, match="it took part in run 9 of this study"):
        known.checked(RunChoice(number=8))


@pytest.mark.parametrize("run", [RunChoice(number=2), RunChoice(l2=0.1)])
def test_without_the_table_clients_refuse_every_change(run, tmp_path):
    """It is as it was before the table existed."""
    consortium = Consortium(write(tmp_path, **BUNDLE))
    consortium.train()
    with pytest.raises(RefusedError, match="no table \\[tuning\\]"):
        begin(consortium, run)


def test_a_run_cannot_be_repeated_after_a_later_one(consortium):
    """Not even by a client that was restarted, with --restart, in the meantime."""
    consortium.train()
    consortium.further(l2=0.5)
    consortium.train()
    for restarts in (False, True):
        if restarts:
            forget_release(Archive(consortium.stores[1]))
            consortium.network.restart(1)
        with pytest.raises(RefusedError, match="took part in run 2 of this study, and"):
            begin(consortium, FIRST_RUN)


def test_a_run_cannot_begin_again_with_other_settings(consortium):
    """A server would otherwise get several models for one run."""
    consortium.train()
    for run in (RunChoice(number=2, l2=0.5), RunChoice(number=2, l2=0.5)):
        begin(consortium, run)
    with pytest.raises(RefusedError, match="run 2 of this study was begun with other"):
        begin(consortium, RunChoice(number=2, l2=0.6))
    begin(consortium, RunChoice(number=3, l2=0.6))


def test_a_server_that_is_refused_learns_why(consortium):
    """The study ends with the sentence of the organisation."""
    consortium.further(l2=0.5)
    consortium.train()
    consortium.begin_run(FIRST_RUN)
    with pytest.raises(StudyError, match="failed more than") as raised:
        consortium.train()
    assert "took part in run 2" in str(raised.value)


def test_a_server_cannot_choose_differently_for_some(consortium):
    """Clients compare what was chosen when rounds are saved."""
    member = consortium.network._members[1]
    original, other = member.handle, RunChoice(number=2, l2=0.6)

    def lied_to(stage, phase, payload):
        if phase == "begin":
            number, content = unframe(payload, STUDY_TOKEN)
            begun = decode(content, m.BeginRequest)
            message = m.BeginRequest.of(other, begun.after)
            payload = frame(STUDY_TOKEN, number, message)
        return original(stage, phase, payload)

    member.handle = lied_to
    consortium.further(l2=0.5)
    with pytest.raises(StudyError, match="failed more than") as raised:
        consortium.train()
    assert member.plan.run == other
    assert "the server sent" in str(raised.value)


# What differs on the wire


def replies_of(consortium, stage, phase):
    """Begin a run; return what the first client answers in a phase of a stage."""
    member, given = consortium.network._members[0], []
    original = member.handle

    def listen(*request):
        reply = original(*request)
        if request[:2] == (stage, phase):
            given.append(bytes(unframe(reply, consortium.plan.token)[1]))
        return reply

    member.handle = listen
    Archive(consortium.server_store).forget_after(-1)
    consortium.hosted()
    member.handle = original
    assert sum(map(len, given)) > 100
    return given


def test_a_further_run_has_other_pseudonyms(consortium):
    """The organisations keep the study's keys, and derive others from them."""
    first = replies_of(consortium, "alignment", "rows")
    assert replies_of(consortium, "alignment", "rows") == first
    keys = [store.read("keys") for store in consortium.stores]
    consortium.further(l2=0.5)
    second = replies_of(consortium, "alignment", "rows")
    assert [store.read("keys") for store in consortium.stores] == keys
    assert len(first) == len(second)
    assert not set(first) & set(second)


def test_a_further_run_has_other_pads(tmp_path, monkeypatch):
    """Pads differ even if a sealer takes the same name as in the first run.

    Names and owner groups are random; here they are equal, so that pads are too, as
    long as the keys are.
    """
    sealing = "hyfdca.crypto.schemes.stream.secrets.token_bytes"
    monkeypatch.setattr(sealing, bytes)
    monkeypatch.setattr("hyfdca.study.resume.new_group_secret", lambda: bytes(32))
    stream = {**BUNDLE, "encryption": '"stream"'}
    consortium = Consortium(write(tmp_path, tuning=RANGES, **stream))
    first = replies_of(consortium, "scaling", "digits")
    assert replies_of(consortium, "scaling", "digits") == first
    consortium.further(l2=0.5)
    second = replies_of(consortium, "scaling", "digits")
    assert len(first) == len(second) > 1
    assert not set(first) & set(second)


# What is counted over all runs


class Careful(Consortium):
    """A study in which the second organisation has a policy, and keeps its state."""

    def __init__(self, folder, most_rounds):
        self.policy = MemberPolicy(most_rounds=most_rounds)
        super().__init__(folder)

    def member(self, rank):
        """Start a member, city with its policy."""
        whole = super().member(rank)
        if rank != 1:
            return whole
        given = (self.tables[rank], self.identities[rank], self.roster)
        store = whole._archive._store
        return StudyClient(self.plan, *given, store, policy=self.policy)

    def n_taken(self):
        """Return how many rounds the second organisation has taken part in."""
        return self.network._members[1]._taken.total


def test_rounds_are_counted_over_runs_and_restarts(tmp_path):
    """Every round once, whatever is restarted; --restart forgets none."""
    folder = write(tmp_path, tuning=RANGES, max_rounds="60", **BUNDLE)
    consortium = Careful(folder, 200)
    first, _ = consortium.train()
    assert consortium.n_taken() == len(first.history) > 1
    forget_release(Archive(consortium.stores[1]))
    consortium.network.restart(1)
    assert consortium.n_taken() == len(first.history)
    consortium.further(l2=0.5)
    consortium.begin(2)
    consortium.network.restart(1)
    second, _ = consortium.train()
    assert consortium.n_taken() == len(first.history) + len(second.history)


def test_a_run_that_may_exceed_the_policy_is_refused(tmp_path):
    """It is refused before its first round, counting earlier rounds."""
    folder = write(tmp_path, tuning=RANGES, max_rounds="60", **BUNDLE)
    consortium = Careful(folder, 80)
    taken = len(consortium.train()[0].history)
    left = 80 - taken
    consortium.further(l2=0.5, max_rounds=left + 1)
    with pytest.raises(StudyError, match="'city' refuses: its policy") as raised:
        consortium.train()
    said = f"run 2 has {left + 1} times 1 after {taken} that it took part in"
    assert said in str(raised.value)
    advice = "lower max_rounds with --tune max_rounds, or in the study"
    assert advice in str(raised.value)
    assert consortium.n_taken() == taken
    assert consortium.network._members[1]._run._trained == {1}  # it used up no run
    consortium.further(l2=0.5, max_rounds=left)
    assert len(consortium.train()[0].history) <= left


def test_repeated_rounds_count_too(tmp_path):
    """A member never answers more rounds than its policy says, in whatever order."""
    folder = write(tmp_path, max_rounds="4", algorithm='"bundle"', tol="0.0")
    consortium = Careful(folder, 5)
    hosted = consortium.hosted()
    rounds = hosted.runner.rounds()
    next(rounds)
    assert consortium.n_taken() == 1
    for _ in range(4):
        hosted.runner.driver.run(hosted.runner.server.round([0, 1, 2]), Traffic())
        hosted.checkpoints.go_back()
    assert consortium.n_taken() == 5
    with pytest.raises(
        ClientsFailedError, match="it has taken part in 5; raise most_rounds"
    ):
        hosted.runner.driver.run(hosted.runner.server.round([0, 1, 2]), Traffic())

"""An organisation's side of a study: what it answers, refuses and remembers."""

import pytest

from hyfdca.algorithms.bundle.messages import Move, MovedRelease
from hyfdca.errors import StudyError
from hyfdca.federation.messages import Released
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.runtime.store import SealedStore
from hyfdca.stages.keys.client import KeyAgreementError
from hyfdca.stages.keys.messages import MadeKeys
from hyfdca.study import messages as m
from hyfdca.study.client.client import STUDY_TOKEN, StudyClient
from hyfdca.study.plan import PROTOCOL
from hyfdca.study.tuning import FIRST_RUN
from tests.support.durable_runs import Consortium, write


@pytest.fixture
def consortium(tmp_path):
    """Return a study whose members have not spoken yet."""
    return Consortium(write(tmp_path, encryption='"stream"', tol="1e-2"))


class Server:
    """Sends arbitrary requests to one member."""

    def __init__(self, consortium, rank=1):
        self.consortium, self.rank = consortium, rank
        self.number = 2**40

    @property
    def member(self):
        """The member as it is now."""
        return self.consortium.network._members[self.rank]

    def say(self, phase, message, stage="study", kind=Message):
        """Send one request and return the reply."""
        self.number += 1
        return self.repeat(phase, message, stage, kind)

    def repeat(self, phase, message, stage="study", kind=Message):
        """Send a request again under the last number."""
        token = STUDY_TOKEN if stage == "study" else self.consortium.plan.token
        payload = frame(token, self.number, message)
        reply = self.member.handle(stage, phase, payload)
        return decode(unframe(reply, token)[1], kind)

    def hello(self):
        """Ask the member what it has saved."""
        study = self.consortium.plan.study_hash
        return self.say("hello", m.Hello(study, PROTOCOL), kind=m.Present)


def test_hello_tells_what_is_kept(consortium):
    """Nothing at first; keys and three rounds at the end."""
    server = Server(consortium)
    server.number = 0
    assert server.hello() == m.Present(consortium.plan.study_hash, PROTOCOL, False, [])
    rounds, _ = consortium.train()
    consortium.network.restart(1)
    there = Server(consortium).hello()
    assert there.has_keys
    last = len(rounds.history)
    assert there.kept == [last - 2, last - 1, last]


def test_another_study_file_is_refused_with_both_fingerprints(consortium):
    """The reader can compare them."""
    other = bytes(32)
    said = "differs from the server's"
    with pytest.raises(RemoteProtocolError, match=said) as raised:
        Server(consortium).say("hello", m.Hello(other, PROTOCOL))
    assert "0000 0000" in str(raised.value)
    assert consortium.plan.study_hash.hex()[:4] in str(raised.value)


def test_another_protocol_is_refused(consortium):
    """The message says what to do."""
    study = consortium.plan.study_hash
    with pytest.raises(RemoteProtocolError, match="same version of hyfdca"):
        Server(consortium).say("hello", m.Hello(study, PROTOCOL + 1))


@pytest.mark.parametrize(
    ("stage", "phase", "reason"),
    [
        ("alignment", "rows", "no study keys of epoch 1 yet"),
        ("scaling", "digits", "comes after the alignment"),
        ("training", "bounds", "there is no phase 'bounds'"),
        ("study", "bounds", "there is no phase 'bounds'"),
        ("prediction of weather", "rows", "there is no stage"),
    ],
)
def test_stages_come_in_order(stage, phase, reason, consortium):
    """What cannot be asked yet is refused."""
    with pytest.raises(RemoteProtocolError, match=reason):
        Server(consortium).say(phase, Message(), stage)


def test_training_cannot_start_before_the_scaling(consortium):
    """It needs the block that scaling makes."""
    with pytest.raises(RemoteProtocolError, match="comes after the alignment"):
        Server(consortium).say("start", m.StartNotice("bundle"), "training")


@pytest.mark.parametrize("algorithm", ["lbfgs", "hyfdca", "guessing"])
def test_another_algorithm_than_the_studys_is_refused(algorithm, tmp_path):
    """The server does not choose what the study has set."""
    consortium = Consortium(write(tmp_path, algorithm='"bundle"'))
    with pytest.raises(RemoteProtocolError, match="the study sets algorithm"):
        Server(consortium).say("start", m.StartNotice(algorithm), "training")


def test_training_starts_once(consortium):
    """A second start would discard the first."""
    consortium.hosted()
    server = Server(consortium)
    with pytest.raises(RemoteProtocolError, match="'start' is out of order"):
        server.say("start", m.StartNotice("bundle"), "training")
    # Should a session let it through, the member itself refuses.
    half = server.member.half
    with pytest.raises(RemoteProtocolError, match="has already begun"):
        server.member._start(m.StartNotice("bundle"))
    assert server.member.half is half


def test_nothing_can_be_kept_before_training(consortium):
    """There is no state yet."""
    with pytest.raises(RemoteProtocolError, match="has not begun yet"):
        Server(consortium).say("keep", m.KeepRequest(0, None, [], []))


def test_a_round_that_was_not_kept_cannot_be_returned_to(consortium):
    """The message names the round."""
    consortium.hosted()
    with pytest.raises(RemoteProtocolError, match="no checkpoint of round 7"):
        Server(consortium).say("return", m.ReturnRequest(7, 0))


def test_a_repeated_request_gets_the_same_answer_and_does_nothing_more(consortium):
    """Here "keep", which would otherwise write again."""
    consortium.hosted()
    server = Server(consortium)
    server.say("keep", m.KeepRequest(1, 0.5, [0, 1], []), kind=m.Kept)
    kept = consortium.stores[1].read("round-1")
    server.repeat("keep", m.KeepRequest(1, 0.5, [0, 1], []), kind=m.Kept)
    assert consortium.stores[1].read("round-1") is kept
    assert server.member.news == (1, 0.5, (0, 1))


def test_what_was_under_way_when_members_went_back_is_refused(consortium):
    """Otherwise it would be answered from the restored state."""
    hosted = consortium.hosted()
    server = Server(consortium)
    late = hosted.prepared.federation.session.number + 3
    server.say("return", m.ReturnRequest(0, late))
    server.say("stop", m.StopRequest(0, 1.0, "diverged"))
    server.number = late - 1
    # It may follow the measurement of the start, after which round 0 was kept.
    release = MovedRelease(Move(0, []))
    with pytest.raises(RemoteProtocolError, match="answered long ago"):
        server.say("release", release, "training")
    released = server.say("release", release, "training", Released)
    n_features = server.member.block.X.shape[1]
    assert bytes(released.weights) == bytes(8 * n_features)  # it starts at zero


def test_what_was_under_way_when_a_study_restarted_is_refused(consortium):
    """It also holds at the beginning, in every stage."""
    consortium.hosted()
    server = Server(consortium)
    late = 2**41
    server.say("begin", m.BeginRequest.of(FIRST_RUN, late))
    server.number = late - 1
    with pytest.raises(RemoteProtocolError, match="answered long ago"):
        server.say("rows", Message(), "alignment")


def test_a_study_that_restarts_forgets_all_but_its_keys(consortium):
    """Keys, and what it released, belong to the study's epoch, which is unchanged."""
    consortium.train()
    keys = consortium.stores[1].read("keys")
    Server(consortium).say("begin", m.BeginRequest.of(FIRST_RUN, 0))
    kept = [
        "keys",
        "placements",
        "released",
        "repeats",
        "rounds-taken",
        "run",
        "runs-trained",
    ]
    assert consortium.stores[1].names() == kept
    assert consortium.stores[1].read("keys") is keys


def test_keys_survive_a_restart_and_are_not_made_again(consortium):
    """A second run of the study has the keys of the first."""
    consortium.train()
    before = [store.read("keys") for store in consortium.stores]
    consortium.server_store = type(consortium.server_store)()
    for rank in range(3):
        consortium.network.restart(rank)
    consortium.train()
    assert [store.read("keys") for store in consortium.stores] == before


def test_who_lost_its_keys_gets_them_from_the_others(consortium):
    """It starts with nothing; the study restarts."""
    consortium.train()
    for name in consortium.stores[0].names():
        consortium.stores[0].remove(name)
    consortium.server_store = type(consortium.server_store)()
    for rank in range(3):
        consortium.network.restart(rank)
    consortium.train()
    held = {member._key_holder.keys.master for member in consortium.network._members}
    assert len(held) == 1


def test_keys_are_not_used_for_a_study_file_that_changed(consortium, tmp_path):
    """Raising its epoch makes new keys."""
    consortium.train()
    identity, store = consortium.identities[0], consortium.stores[0]
    sealed = SealedStore(store, identity.to_bytes(), b"test")
    other = type(consortium.roster)(bytes(32), consortium.roster.entries, 1)
    with pytest.raises(ValueError, match="raise its key_epoch"):
        StudyClient(consortium.plan, consortium.tables[0], identity, other, sealed)


def test_what_was_said_before_the_first_round_is_not_held_in_memory(consortium):
    """It is dropped once it is saved to disk."""
    consortium.hosted()
    assert all(member._said is None for member in consortium.network._members)


def test_a_request_that_is_repeated_is_noted_once(consortium):
    """A client that keeps requests for later does not keep retries."""
    server = Server(consortium)
    stop_before(consortium, "placement")
    before = list(server.member._said)
    assert before[-1][0] == "alignment"
    stage, phase, payload = before[-1]
    for _ in range(5):
        server.member.handle(stage, phase, payload)
    assert server.member._said == before


def test_requests_before_the_first_round_are_not_without_end(consortium, monkeypatch):
    """A client that noted too many refuses further ones."""
    monkeypatch.setattr("hyfdca.study.client.client.MOST_SAID", 3)
    with pytest.raises(StudyError, match="more than 3 times before the first round"):
        consortium.hosted()
    assert all(len(own._said) == 3 for own in consortium.network._members)


def stop_before(consortium, phase):
    """Prepare a study until one member is sent a request of this phase."""
    member = consortium.network._members[1]
    handle = member.handle

    def stopped(stage, asked, payload):
        if asked == phase:
            raise StoppedError
        return handle(stage, asked, payload)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(member, "handle", stopped)
        with pytest.raises(StoppedError):
            consortium.hosted()


class StoppedError(Exception):
    """A member is not asked further."""


def test_keys_that_nobody_confirmed_are_not_used(consortium):
    """The alignment does not begin with keys that some may lack."""
    server = Server(consortium, rank=0)
    server.say("make keys", Message(), "keys", MadeKeys)
    with pytest.raises(KeyAgreementError, match="has not confirmed"):
        server.say("rows", Message(), "alignment")

"""Servers and askers that ask for more than allowed: holders give nothing."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from hyfdca.audit.fields import TABLES
from hyfdca.audit.reading import heard
from hyfdca.audit.sightings import Sightings
from hyfdca.audit.views import Record
from hyfdca.crypto.keys.identity import Identity
from hyfdca.prediction import messages as p
from hyfdca.prediction.request import signed_request
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError, pack_tokens
from hyfdca.protocol.messages import GridSpec, Message
from hyfdca.study import messages as s
from tests.model.models import make_model, random_cells
from tests.prediction.hostile_server import HOLDINGS, TOKEN, Hostile
from tests.prediction.split_cases import Split

GRIDS = p.PartsRequest(GridSpec(30, 50), GridSpec(0, 20))


@pytest.fixture(scope="module")
def shared():
    """Return members that share keys; each test restarts them."""
    return Hostile()


@pytest.fixture
def hostile(shared):
    """Return members that have not been asked anything."""
    shared.start()
    return shared


def changed(asked, **changes):
    return msgspec.structs.replace(asked, **changes)


@pytest.mark.parametrize(
    "field", ["pseudonyms", "model", "nonce", "n_outputs", "public"]
)
def test_what_the_asker_did_not_sign(hostile, field):
    """A server cannot ask for other rows or another model than the asker did."""
    other = {
        "pseudonyms": pack_tokens(np.arange(8, dtype=np.uint64)),
        "model": bytes(32),
        "nonce": bytes(32),
        "n_outputs": 2,
        "public": bytes(32),
    }
    before, asked = hostile.n_logged(1), hostile.request()
    with pytest.raises(RemoteProtocolError, match="'north' did not sign this request"):
        hostile.consider(1, changed(asked, **{field: other[field]}))
    assert hostile.n_logged(1) == before
    with pytest.raises(RemoteProtocolError, match="there is no phase 'rows'"):
        hostile.say(1, "rows", Message())


def test_nobody_asks_in_the_name_of_another(hostile):
    """A signature belongs to one asker on the roster, by its own key."""
    asked = hostile.request()
    with pytest.raises(RemoteProtocolError, match="'coast' did not sign"):
        hostile.consider(1, asked, asker=2)
    with pytest.raises(RemoteProtocolError, match="Rank 9 is not on"):
        hostile.consider(1, asked, asker=9)
    with pytest.raises(RemoteProtocolError, match="cannot consider its own request"):
        hostile.consider(0, asked)
    forger, roster = Identity.generate(), hostile.split.roster
    rows = (1, np.zeros((1, 2), np.uint64))
    with pytest.raises(ValueError, match="No organisation of the study"):
        signed_request(forger, roster, asked.model, asked.nonce, rows)


def test_a_request_counts_once(hostile):
    """A request that was answered, even before a restart, gets nothing again."""
    before = hostile.n_logged(1)
    assert hostile.consider(1, hostile.asked) == p.Declined("repeated", 0)
    asked = hostile.request()
    assert hostile.consider(1, asked) == p.Consent()
    assert hostile.consider(1, asked) == p.Declined("repeated", 0)
    assert hostile.n_logged(1) == before + 1


def test_an_asker_without_permission():
    """An asker without permission gets nothing from anybody."""
    hostile = Hostile(may_predict=("north",))
    split = hostile.split
    rows = (1, np.zeros((2, 2), np.uint64))
    asked = signed_request(
        split.identities[2], split.roster, hostile.asked.model, bytes(32), rows
    )
    assert hostile.consider(1, asked, asker=2) == p.Declined("permission", 0)
    assert hostile.n_logged(1) == 1
    said = split.sentences[-1]
    assert said.startswith("Organisation 'city' gives 'coast' no predictions")


def test_an_asker_that_asks_for_too_much():
    """The limit counts the rows that were signed, held or not."""
    hostile = Hostile(per_hour=5)
    split = hostile.split
    rows = (1, np.zeros((2, 2), np.uint64))
    asked = signed_request(
        split.identities[0], split.roster, hostile.asked.model, bytes(32), rows
    )
    assert hostile.consider(1, asked) == p.Declined("rate", 1)


@pytest.mark.parametrize("phase", ["rows", "arrange", "part bound", "parts", "scores"])
def test_nothing_before_consent(hostile, phase):
    """A holder that has not consented gives nothing."""
    with pytest.raises(RemoteProtocolError, match="there is no phase"):
        hostile.say(1, phase, Message())


def test_parts_are_given_once(hostile):
    """No grid, group or order gets a second part, and none comes before alignment.

    The order of phases forbids both, and so does the holder by itself: its last phase
    is set to the one before, as if the table of phases let a server come so far.
    """
    hostile.consider(1, hostile.request())
    with pytest.raises(RemoteProtocolError, match="there is no phase 'rows'"):
        hostile.say(1, "rows", Message())
    hostile.let_find(1)
    with pytest.raises(RemoteProtocolError, match="'parts' is out of order"):
        hostile.say(1, "parts", GRIDS)
    hostile.members[1]._session.last_phase = "part bound"
    with pytest.raises(RemoteProtocolError, match="placement has not come"):
        hostile.say(1, "parts", GRIDS)
    _, members = hostile.split.run("north")
    hostile.take_over(members)
    with pytest.raises(RemoteProtocolError, match="'parts' is out of order"):
        hostile.say(1, "parts", GRIDS)
    members[1]._session.last_phase = "part bound"
    with pytest.raises(RemoteProtocolError, match="already sent its parts"):
        hostile.say(1, "parts", GRIDS)


def test_a_declined_request_begins_nothing_again(hostile):
    """After declining a request, a holder shows its rows to nobody."""
    _, members = hostile.split.run("north")
    hostile.take_over(members)
    assert hostile.consider(1, hostile.asked) == p.Declined("repeated", 0)
    with pytest.raises(RemoteProtocolError, match="after their placement"):
        hostile.say(1, "rows", Message())
    with pytest.raises(RemoteProtocolError, match="'parts' is out of order"):
        hostile.say(1, "parts", GRIDS)


def test_scores_for_others(hostile):
    """A member that does not ask opens no scores."""
    _, members = hostile.split.run("north")
    hostile.take_over(members)
    [payload] = [r for phase, _, r, _ in hostile.split.said[-9:] if phase == "scores"]
    notice = decode(unframe(payload, TOKEN)[1], p.ScoresNotice)
    with pytest.raises(RemoteProtocolError, match="not waiting for scores"):
        hostile.say(1, "scores", notice)
    assert members[1].scores is None


def test_cells_that_count_twice(hostile):
    """An asker sees that a server added something twice."""
    split = Split(make_model(), random_cells(7), HOLDINGS, "none")
    _, members = split.run("north")
    hostile.take_over(members)
    # The asker has its scores; as if the table of phases let a server send others.
    members[0]._session.last_phase = "parts"
    [payload] = [r for phase, _, r, _ in split.said if phase == "scores"]
    notice = decode(unframe(payload, TOKEN)[1], p.ScoresNotice)
    before = members[0].scores
    with pytest.raises(RemoteProtocolError, match="does not open"):
        hostile.say(0, "scores", changed(notice, cells=[*notice.cells, *notice.cells]))
    assert members[0].scores is before


def test_who_does_not_ask(hostile):
    """Nobody is made to ask, and nobody asks twice."""
    with pytest.raises(RemoteProtocolError, match="it asks for no predictions"):
        hostile.say(1, "request", Message())
    hostile.request()
    with pytest.raises(RemoteProtocolError, match="or already has"):
        hostile.request()
    with pytest.raises(RemoteProtocolError, match="not waiting for scores"):
        hostile.say(1, "refused", p.RefusedNotice("because"))


@pytest.mark.parametrize(
    ("stage", "phase", "message"),
    [
        ("study", "begin", s.BeginRequest(5, 1, None, None, None)),
        ("study", "finish", s.FinishNotice(b"another model", [])),
        ("study", "return", s.ReturnRequest(1, 1)),
        ("alignment", "rows", Message()),
        ("training", "start", s.StartNotice("bundle")),
    ],
)
def test_the_study_is_left_alone(hostile, stage, phase, message):
    """A prediction can change nothing of a study that was trained."""
    with pytest.raises(RemoteProtocolError, match=f"no phase '{phase}' in stage"):
        hostile.members[1].handle(stage, phase, frame(TOKEN, 1, message))


def test_a_refusal_is_one_line(hostile):
    """A server's text of a refusal cannot move the cursor."""
    hostile.request()
    hostile.say(0, "refused", p.RefusedNotice("no\n\x1b[2Jbecause"))
    assert hostile.members[0].refusal == "no  [2Jbecause"


def test_every_phase_is_known(hostile):
    """A member answers no phase that the audit cannot read."""
    hostile.consider(1, hostile.request())
    answered = set(hostile.members[1]._session.handlers)
    hostile.let_find(1)
    for member in hostile.members[:2]:
        session = member._session
        assert session.phases in TABLES
        assert "scores" in session.handlers
        assert set(session.handlers) <= set(session.phases)
        answered |= set(session.handlers)
    assert answered == set(p.PHASES)


@pytest.mark.parametrize("scheme", ["stream", "bfv", "none"])
def test_the_audit_of_a_prediction(scheme):
    """Every message is in the audit's tables, and sealed from the server."""
    split = Split(make_model("three"), random_cells(7), HOLDINGS, scheme)
    split.scores("north")
    notices = {"placement", "arrange", "scores", "refused"}
    records = []
    for phase, client, request, reply in split.said:
        records.append(Record(phase, client, "down", request))
        if phase not in notices:
            records.append(Record(phase, client, "up", reply))
    sightings = Sightings("sealed")
    sightings.look(map(heard, records))
    complaints = sightings.complaints()
    if scheme == "none":
        assert "score parts" in complaints[0]
    else:
        assert complaints == []
    assert ("scores", "open" if scheme == "none" else "sealed") in sightings.seen

"""Blinded IDs: the same scores, and points that are checked and limited."""

from __future__ import annotations

import msgspec
import nacl.bindings as sodium
import numpy as np
import pytest

from hyfdca.crypto.keys.oblivious import SecretFactor, id_points
from hyfdca.prediction import blinded_rows, bringing
from hyfdca.prediction import messages as p
from hyfdca.prediction.request import digest, statement
from hyfdca.protocol.client_session import TOKEN_BYTES, decode, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from tests.model.models import make_model, random_cells
from tests.prediction.hostile_server import Hostile
from tests.prediction.split_cases import STUDY_HASH, Split

HOLDINGS = [
    ([0, 1, 2, 3, 4], [0, 1]),
    ([4, 3, 2, 1, 8], [1, 2]),
    ([3, 0, 1, 2], [3, 0]),
]
ORDER_TWO = bytes([0xEC, *[0xFF] * 30, 0x7F])  # a point of small order


def replies(split, phase, kind):
    """Return the decoded replies of a phase, by client."""
    return [
        (client, decode(unframe(reply, STUDY_HASH[:TOKEN_BYTES])[1], kind))
        for said, client, _, reply in split.said
        if said == phase
    ]


@pytest.fixture(scope="module")
def shared():
    """Return members that share keys; each test restarts them."""
    return Hostile()


@pytest.fixture
def hostile(shared):
    """Return members of which "city" has been asked for its IDs by "north"."""
    shared.start()
    shared.consider(1, shared.request())
    return shared


def blinded(hostile):
    return decode(hostile.say(1, "blind", Message()), p.BlindedIds)


def signed(hostile, rank, kind, points, *said):
    """Return points that an organisation has signed, whatever they are."""
    roster, nonce = hostile.split.roster, nonce_of(hostile)
    content = statement(roster, rank, kind, nonce, *said, digest(points))
    return hostile.split.identities[rank].sign(content)


def nonce_of(hostile):
    """Return the random number of the request that "city" considered last."""
    return bytes.fromhex(hostile.split.log(1).entries[-1].request)


# What is computed


@pytest.mark.parametrize("scheme", ["none", "stream", "bfv"])
@pytest.mark.parametrize("kind", ["two", "three"])
def test_blinding_changes_no_score(kind, scheme):
    """Blinded and keyed IDs give the same scores, bit for bit."""
    model, cells = make_model(kind), random_cells(9)
    scores = [
        Split(model, cells, HOLDINGS, scheme, study={"prediction_ids": way})
        for way in ("blinded", "keyed")
    ]
    first, second = (split.scores("city") for split in scores)
    assert np.array_equal(first.margins, second.margins)
    assert np.array_equal(first.n_absent, second.n_absent)


def test_keyed_ids_take_no_points():
    """With keyed IDs, nobody blinds anything."""
    split = Split(
        make_model(), random_cells(9), HOLDINGS, study={"prediction_ids": "keyed"}
    )
    split.scores("north")
    phases = {phase for phase, *_ in split.said}
    assert "consider" in phases
    assert not phases & {"blind", "evaluate", "recognise"}
    assert "blind" not in split.members()[1]._session.handlers


def test_batches(monkeypatch):
    """Long tables are compared in several messages, with the same result."""
    holdings = [(range(9), [0, 1]), (range(5, 75), [2, 3])]
    split = Split(make_model(), random_cells(80), holdings)
    expected = split.scores("north")
    split.said.clear()
    monkeypatch.setattr(blinded_rows, "BATCH", 32)
    scores = split.scores("north")
    assert np.array_equal(scores.margins, expected.margins)
    assert scores.n_absent.tolist() == [2] * 5 + [0] * 4
    batches = [batch for _, batch in replies(split, "blind", p.BlindedIds)]
    assert [len(batch.points) // 32 for batch in batches] == [32] * 8
    assert [batch.is_last for batch in batches] == [False] * 7 + [True]


@pytest.mark.parametrize(("n_rows", "n_points"), [(1, 128), (64, 128), (65, 256)])
def test_the_number_of_rows_is_rounded(n_rows, n_points):
    """A holder shows a power of two of different points, not how many rows it has."""
    holdings = [([0, 1], [0, 1]), (range(n_rows), [2, 3])]
    split = Split(make_model(), random_cells(n_rows + 1), holdings)
    split.scores("north")
    [(_, batch)] = replies(split, "blind", p.BlindedIds)
    points = {bytes(batch.points[i : i + 32]) for i in range(0, 32 * n_points, 32)}
    assert len(batch.points) == 32 * len(points) == 32 * n_points
    assert all(map(sodium.crypto_core_ed25519_is_valid_point, points))


def test_rows_are_shown_in_random_order(monkeypatch):
    """The order of a holder's points says nothing about its table."""
    shown = []
    monkeypatch.setattr(
        blinded_rows,
        "id_points",
        lambda ids, key: shown.append(ids) or id_points(ids, key),
    )
    split = Split(make_model(), random_cells(60), [([0], [0]), (range(60), [1])])
    split.scores("north")
    table = list(split.tables[1].ids)
    assert shown[1] != table
    assert sorted(shown[1]) == sorted(table)


def test_requests_have_nothing_in_common():
    """The same rows are other points and other pseudonyms in every request."""
    split = Split(make_model(), random_cells(9), HOLDINGS[:2])
    split.scores("north")
    split.scores("north")
    for phase in ("blind", "evaluate"):
        kind = p.BlindedIds if phase == "blind" else p.EvaluatedIds
        first, second = (bytes(each.points) for _, each in replies(split, phase, kind))
        starts = range(0, len(first), 32)
        assert not {first[i : i + 32] for i in starts} & {
            second[i : i + 32] for i in starts
        }


def test_points_of_no_row(monkeypatch):
    """Rows of a holder whose points are garbage count as not held, and no more."""
    honest = blinded_rows.BlindHolder._blind

    def garbage(holder, message):
        batch = honest(holder, message)
        if holder._request.rank == 1:
            holder._factor = SecretFactor.generate()  # not that of its points
        return batch

    monkeypatch.setattr(blinded_rows.BlindHolder, "_blind", garbage)
    split = Split(make_model(missing="refuse"), random_cells(9), HOLDINGS)
    # What "north" and "coast" hold without "city", of four features
    assert split.scores("north").n_absent.tolist() == [1, 1, 1, 1, 2]


# What is refused


@pytest.mark.parametrize("point", [bytes(32), ORDER_TWO, b"\xff" * 32, b"short"])
def test_invalid_points_of_a_holder(hostile, point):
    """The asker refuses points outside the group, and names who sent them."""
    batch = blinded(hostile)
    points = memoryview(bytes(batch.points[:64]) + point)
    signature = signed(hostile, 1, blinded_rows._BLINDED, points, b"0")
    lie = p.BlindedIds(points, True, signature)
    with pytest.raises(RemoteProtocolError, match="'city' sent points that are refus"):
        hostile.evaluate(1, lie)
    assert len(hostile.evaluate(1, batch).points) == len(batch.points)


@pytest.mark.parametrize("point", [bytes(32), ORDER_TWO, b"\xff" * 32])
def test_invalid_points_of_the_asker(hostile, point):
    """A holder refuses them too, and can continue with valid ones."""
    batch = blinded(hostile)
    evaluated = hostile.evaluate(1, batch)
    points = memoryview(point + bytes(evaluated.points[32:]))
    said = b"city", b"0", digest(batch.points)
    signature = signed(hostile, 0, blinded_rows._EVALUATED, points, *said)
    with pytest.raises(RemoteProtocolError, match="'north' sent points that are refus"):
        hostile.say(1, "recognise", p.EvaluatedIds(points, signature))
    hostile.say(1, "recognise", evaluated)
    assert "rows" in hostile.members[1]._session.handlers


def test_another_key_for_some_holders(hostile):
    """An asker cannot leave a holder out, to get scores without its part."""
    batch = blinded(hostile)
    points = [bytes(batch.points[i : i + 32]) for i in range(0, 128 * 32, 32)]
    other = memoryview(b"".join(SecretFactor.generate().times(points)))
    said = b"city", b"0", digest(batch.points)
    signature = signed(hostile, 0, blinded_rows._EVALUATED, other, *said)
    with pytest.raises(RemoteProtocolError, match=r"'north' .* not under the key"):
        hostile.say(1, "recognise", p.EvaluatedIds(other, signature))


def test_another_number_of_points(hostile):
    """A holder gets as many points back as it sent."""
    batch = blinded(hostile)
    points = memoryview(bytes(hostile.evaluate(1, batch).points[:-32]))
    said = b"city", b"0", digest(batch.points)
    signature = signed(hostile, 0, blinded_rows._EVALUATED, points, *said)
    with pytest.raises(RemoteProtocolError, match="'north' evaluated another number"):
        hostile.say(1, "recognise", p.EvaluatedIds(points, signature))


def test_points_that_a_server_swaps(hostile):
    """Neither side takes points that the other did not sign for it."""
    batch = blinded(hostile)
    points = [SecretFactor.generate().public() for _ in range(128)]
    other = memoryview(b"".join(points))
    with pytest.raises(RemoteProtocolError, match="'city' did not sign these blinded"):
        hostile.evaluate(1, msgspec.structs.replace(batch, points=other))
    with pytest.raises(RemoteProtocolError, match="'coast' did not sign these blinded"):
        hostile.evaluate(2, batch)
    with pytest.raises(RemoteProtocolError, match="Rank 9 is not on"):
        hostile.evaluate(9, batch)
    evaluated = hostile.evaluate(1, batch)
    lie = msgspec.structs.replace(evaluated, points=other)
    with pytest.raises(RemoteProtocolError, match="'north' did not sign these evalua"):
        hostile.say(1, "recognise", lie)


def test_points_are_evaluated_once(hostile):
    """A batch of a holder, or of another request, is not evaluated again."""
    batch = blinded(hostile)
    hostile.evaluate(1, batch)
    with pytest.raises(RemoteProtocolError, match="'city' did not sign"):
        hostile.evaluate(1, batch)
    hostile.start()
    hostile.request()
    with pytest.raises(RemoteProtocolError, match="'city' did not sign"):
        hostile.evaluate(1, batch)


def test_a_holder_compares_a_limited_number(hostile, monkeypatch):
    """The asker evaluates no more points of a holder than the limit says."""
    batch = blinded(hostile)
    monkeypatch.setattr(blinded_rows, "BATCH", 32)
    with pytest.raises(RemoteProtocolError, match="'city' has more than 32 IDs"):
        hostile.evaluate(1, batch)
    monkeypatch.setattr(blinded_rows, "BATCH", 128)
    monkeypatch.setattr(blinded_rows, "MOST_POINTS", 128)
    hostile.evaluate(1, batch)
    points = memoryview(bytes(batch.points))
    signature = signed(hostile, 1, blinded_rows._BLINDED, points, b"1")
    with pytest.raises(RemoteProtocolError, match="or more than 128 in all"):
        hostile.evaluate(1, p.BlindedIds(points, True, signature))


def test_a_table_with_too_many_rows(monkeypatch):
    """A holder with more rows than are compared declines, and says what to do."""
    monkeypatch.setattr(bringing, "MOST_ROWS", 4)
    split = Split(make_model(), random_cells(9), HOLDINGS)
    answers, _ = split.run("north")
    assert answers[0].refusal == (
        "Organisation 'city' gives 'north' no predictions: the table of 'city' has "
        "more than 1,000,000 rows, too many to compare blinded IDs of; leave rows out "
        'of it, or set prediction_ids = "keyed" in the study file.'
    )
    split = Split(
        make_model(), random_cells(9), HOLDINGS, study={"prediction_ids": "keyed"}
    )
    split.scores("north")


def test_the_order_of_phases(hostile):
    """Points are exchanged after consent, in turn, and before rows are aligned."""
    batch = blinded(hostile)
    with pytest.raises(RemoteProtocolError, match="'blind' is out of order"):
        blinded(hostile)
    evaluated = hostile.evaluate(1, batch)
    hostile.say(1, "recognise", evaluated)
    with pytest.raises(RemoteProtocolError, match="there is no phase 'blind'"):
        blinded(hostile)
    hostile.say(0, "rows", Message())
    with pytest.raises(RemoteProtocolError, match="'evaluate' is out of order"):
        hostile.evaluate(1, batch)

"""Who may ask for predictions of split rows, how often, and what is logged."""

from __future__ import annotations

import pytest

from hyfdca.prediction.policy import LOG_FILE
from tests.model.models import make_model, random_cells
from tests.prediction.split_cases import HOLDINGS, Split

pytestmark = pytest.mark.usefixtures("small_paillier")


def test_an_asker_that_may_not_ask_stops_nobody_else():
    """Its own log refuses it, as after an earlier attempt; the next is served."""
    split = Split(make_model(), random_cells(9), HOLDINGS, per_hour=9)
    split.scores("north")
    [refused, served], members = split.run("north", "coast")
    assert "'north' gives 'north' no predictions" in refused.refusal
    assert members[0].refusal == refused.refusal
    assert members[0].scores is None
    assert served.refusal == ""
    assert members[2].scores is not None
    assert len(split.log(0).entries) == 2  # its first request, and coast's


def test_permission():
    """Without may_predict everybody gives nothing, and the asker signs no request."""
    split = Split(make_model(), random_cells(9), HOLDINGS, may_predict=("city",))
    [answer], _ = split.run("north")
    assert "gives 'north' no predictions: the study file" in answer.refusal
    assert not any(split.log(rank).entries for rank in range(3))
    split.scores("city")


def test_the_limit_is_kept_over_restarts():
    """Rows of the last hour count, even if somebody restarted in between."""
    split = Split(make_model(), random_cells(9), HOLDINGS, per_hour=9)
    split.scores("north")
    split.clock.pass_by(minutes=59)
    [answer], _ = split.run("north")
    assert "leaves it 4 rows at present" in answer.refusal
    split.scores("coast")  # has a limit of its own
    split.clock.pass_by(minutes=2)
    split.scores("north")


def test_holders_keep_the_limit_themselves():
    """An asker that forgets its log is refused by the others."""
    split = Split(make_model(), random_cells(9), HOLDINGS, per_hour=9)
    split.scores("north")
    split.logs[0].remove(LOG_FILE)
    answers, members = split.run("north")
    sentence = (
        "Organisation 'city' gives 'north' no predictions: the study's "
        "predictions_per_hour leaves it 4 rows at present; ask for fewer rows, or wait."
    )
    assert answers[0].refusal == sentence == members[0].refusal
    assert sentence in split.sentences
    assert members[0].scores is None
    assert [len(split.log(rank).entries) for rank in (1, 2)] == [1, 1]
    assert not any(phase == "parts" for phase, *_ in split.said[-4:])


def test_a_clock_that_is_set_back():
    """Setting a clock back gives nobody more rows."""
    split = Split(make_model(), random_cells(9), HOLDINGS, per_hour=9)
    split.scores("north")
    split.clock.pass_by(hours=-30)
    [answer], _ = split.run("north")
    assert "leaves it 4 rows" in answer.refusal


def test_the_log():
    """Everybody logs who asked when and for how many rows, but no ID."""
    split = Split(make_model(), random_cells(9), HOLDINGS)
    split.scores("coast")
    for rank in range(3):
        [entry] = split.log(rank).entries
        assert (entry.time, entry.asked_by, entry.rows) == (split.clock(), "coast", 4)
        content = split.logs[rank].read(LOG_FILE)
        assert content.count(b"\n") == 1
        assert not any(id_.encode() + b'"' in content for id_ in split.tables[2].ids)


def test_a_damaged_log():
    """A holder that cannot count past requests gives nothing, and says so."""
    split = Split(make_model(), random_cells(9), HOLDINGS)
    split.logs[1].write(LOG_FILE, b'{"time": "yes')
    with pytest.raises(Exception, match="its log of predictions cannot be read"):
        split.run("north")
    assert any("is damaged" in sentence for sentence in split.sentences)
    assert not any(phase == "parts" for phase, *_ in split.said)


def test_another_model():
    """A holder with another model gives nothing."""
    split = Split(make_model(), random_cells(9), HOLDINGS)
    split.models["coast"] = make_model(l2=0.2)
    answers, members = split.run("north")
    assert (
        "'coast' gives 'north' no predictions: it asks for scores of another model"
        in (answers[0].refusal)
    )
    assert members[0].scores is None

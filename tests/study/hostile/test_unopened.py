"""A server that adds numbers to sealed sums, to learn from what is refused.

Whether a sum with a number of the server's in it is beyond the range of sums says
whether the number inside is above a bound. So a client must refuse all such sums in the
same words, and only a few of them.
"""

from __future__ import annotations

import pytest

from hyfdca.prediction.split_rows import predict_locally
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.runtime.store import Archive
from hyfdca.study.client.openings import MOST_UNOPENED, forget_openings
from tests.model.models import make_model, random_cells
from tests.prediction.hostile_server import HOLDINGS
from tests.prediction.split_cases import Split
from tests.support.durable_runs import Consortium, undisturbed, write
from tests.support.liars import framed, plus, unframed
from tests.support.mixed_tables import MixedStudy

VICTIM = 1
BUNDLE = {"encryption": '"stream"', "tol": "1e-2", "algorithm": '"bundle"'}
BEYOND = 2**59  # added to any honest number, it is beyond the range of sums


class EndedError(Exception):
    """The server has asked what it wanted to."""


class Asked:
    """A member that is asked with changed sums, before it gets the honest request.

    Parameters
    ----------
    place : (str, str)
        The stage and phase of the request.
    """

    def __init__(self, member, place):
        self.member, self._place = member, place
        self.said = None

    def __getattr__(self, name):
        return getattr(self.member, name)

    def handle(self, stage, phase, payload):
        """Answer a request, those of one phase after changed ones."""
        if (stage, phase) == self._place and self.said is None:
            token, number, content = unframed(payload)
            if content[0]:
                self.said = list(self._said(token, number, content))
        return self.member.handle(stage, phase, payload)

    def _said(self, token, number, content):
        """Ask whether numbers are beyond the range, and with sums that never open."""
        [[bits, vector]] = content[0]
        beyond, within = plus(vector, {0: BEYOND}), plus(vector, {0: 1})
        for first in (beyond, within):
            for second in (b"\0", vector[:-1], vector + b"\0"):
                wrong = [[[bits, first], [bits, second]], *content[1:]]
                with pytest.raises(RemoteProtocolError) as raised:
                    self.member.handle(*self._place, framed(token, number, wrong))
                yield str(raised.value)


class Asking(Consortium):
    """A study whose server asks a member with changed sums."""

    def __init__(self, folder, place, kind=Asked):
        super().__init__(folder)
        self.network._members[VICTIM] = kind(self.network._members[VICTIM], place)

    @property
    def victim(self):
        """The member."""
        return self.network._members[VICTIM]


def in_search(folder, kind=Asked):
    """Return a study whose server changes margins."""
    return Asking(write(folder, **BUNDLE), ("training", "search"), kind)


def in_levels(folder):
    """Return a study whose server changes counts of levels."""
    MixedStudy(settings={"encryption": '"stream"'}).write(folder)
    return Asking(folder, ("levels", "keep levels"))


@pytest.mark.parametrize("make", [in_search, in_levels])
def test_refusals_of_sums_have_the_same_words(make, tmp_path):
    """So they do not say whether a number is above a bound."""
    consortium = make(tmp_path)
    consortium.train()  # as if nothing had happened
    [words] = set(consortium.victim.said)
    assert "does not open" in words


def test_refusals_of_scores_have_the_same_words():
    """An asker of predictions refuses likewise, and counts with its study."""
    split = Split(make_model(), random_cells(7), HOLDINGS)
    members = split.members("north")
    members[0] = Asked(members[0], ("prediction", "scores"))
    predict_locally(split.plan, members)
    [words] = set(members[0].said)
    assert "does not open" in words
    assert members[0].scores is not None
    again = split.members("north")
    again[0] = Asked(again[0], ("prediction", "scores"))
    with pytest.raises(RefusedError, match="answers nothing more"):
        predict_locally(split.plan, again)  # it keeps the count on disk


class Insisting(Asked):
    """A member that is asked with changed sums until it answers nothing more."""

    def _said(self, token, number, content):
        self.refusals = []
        [[bits, vector]] = content[0]
        beyond = plus(vector, {0: BEYOND})
        while True:
            wrong = framed(token, number, [[[bits, beyond]], *content[1:]])
            try:
                self.member.handle(*self._place, wrong)
            except RefusedError:
                raise EndedError from None
            except RemoteProtocolError as error:
                self.refusals.append(str(error))


def test_a_client_that_refused_too_many_sums_answers_nothing_more(tmp_path):
    """Neither in another process nor in another stage, until its user says so."""
    consortium = in_search(tmp_path, Insisting)
    victim = consortium.victim
    with pytest.raises(EndedError):
        consortium.train()
    assert len(victim.refusals) == MOST_UNOPENED
    for stage, phase in (("study", "hello"), ("keys", "open"), ("training", "search")):
        for member in (victim.member, consortium.member(VICTIM)):
            with pytest.raises(RefusedError, match="did not open 10 times") as raised:
                member.handle(stage, phase, b"")
            assert "--restart" in str(raised.value)
    forget_openings(Archive(victim.member._archive._store))
    consortium.network.restart(VICTIM)
    _, weights = consortium.train()
    assert weights.tobytes() == undisturbed(tmp_path)[1].tobytes()


def test_honest_studies_refuse_no_sum(tmp_path):
    """Nothing is counted in a whole study, with restarts."""
    consortium = Consortium(write(tmp_path, **BUNDLE))
    consortium.begin(2)
    for rank in range(len(consortium.stores)):
        consortium.network.restart(rank)
    consortium.train()
    for store in consortium.stores:
        assert "unopened" not in store.names()


def test_requests_that_open_nothing_are_not_counted(tmp_path):
    """A server that asks in the wrong order learns nothing, however often."""
    consortium = Consortium(write(tmp_path, **BUNDLE))
    member = consortium.network._members[VICTIM]
    for _ in range(2 * MOST_UNOPENED):
        with pytest.raises(RemoteProtocolError, match="no stage"):
            member.handle("nothing", "search", b"")
    _, weights = consortium.train()
    assert weights.tobytes() == undisturbed(tmp_path)[1].tobytes()

"""A server that adds numbers of its own to sealed sums, to steer or to read a member.

Servers here are written from docs/protocol.md alone. Sealed numbers are added by adding
their words, so a server can add what it likes to a sum or to a member's own part.
"""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.federation.sealing.unopened import UNOPENED
from hyfdca.maths.seeds import stream
from hyfdca.prediction.split_rows import predict_locally
from hyfdca.protocol.codec import RemoteProtocolError
from tests.model.models import make_model, random_cells
from tests.prediction.hostile_server import HOLDINGS
from tests.prediction.split_cases import Split
from tests.support.durable_runs import Consortium, undisturbed, write
from tests.support.held_out_studies import HeldOutStudy
from tests.support.liars import as_a_sum, first_word, framed, plus, unframed
from tests.support.mixed_tables import MixedStudy

VICTIM = 1
SET_UP = {"study", "keys", "alignment", "held-out rows", "groups"}  # without sums
STUDY = {
    "encryption": '"stream"',
    "scale": '"standard"',
    "uncovered": '"mean"',
    "tol": "1e-2",
}


class EndedError(Exception):
    """The server has what it wanted, or was refused."""


def is_sum(content):
    """Return whether bytes have the form of a sum that is not empty."""
    if not isinstance(content, bytes) or len(content) < 14:
        return False
    n_bytes = len(content) - first_word(content)
    return 0 < max(content[12:14]) <= 4 and n_bytes > 0 and n_bytes % 8 == 0


def vectors(value, path=()):
    """Return where the sealed vectors of a message are."""
    if isinstance(value, list):
        if len(value) == 2 and is_sum(value[1]):
            yield path
        for place, part in enumerate(value):
            yield from vectors(part, (*path, place))


def with_vector(value, path, change):
    """Return a message in which one vector has been changed."""
    if not path:
        return [value[0], change(value[1])]
    first, *rest = path
    changed = list(value)
    changed[first] = with_vector(value[first], rest, change)
    return changed


class Steered:
    """A member that is asked each phase for the first time with a changed sum."""

    def __init__(self, member):
        self.member, self.words = member, set()
        self.refused, self.accepted = set(), set()

    def __getattr__(self, name):
        return getattr(self.member, name)

    def handle(self, stage, phase, payload):
        """Answer a request, after the same one with one number more in a sum."""
        token, number, content = unframed(payload)
        known = self.refused | self.accepted
        if stage not in SET_UP and (stage, phase) not in known:
            self._change(stage, phase, token, number, content)
        return self.member.handle(stage, phase, payload)

    def _change(self, stage, phase, token, number, content):
        for path in vectors(content):
            sums = content
            for place in path:
                sums = sums[place]
            n_words = (len(sums[1]) - first_word(sums[1])) // 8
            place = number % n_words  # any
            changed = with_vector(content, path, lambda v: plus(v, {place: 1}))  # noqa: B023
            try:
                self.member.handle(stage, phase, framed(token, number, changed))
            except RemoteProtocolError as error:
                self.refused.add((stage, phase))
                self.words.add(str(error))
            else:
                self.accepted.add((stage, phase))
            return


def steered(consortium):
    """Have a study's member asked with changed sums."""
    member = Steered(consortium.network._members[VICTIM])
    consortium.network._members[VICTIM] = member
    return member


@pytest.mark.parametrize("algorithm", ["bundle", "fedavg", "disco", "hyfem"])
def test_added_numbers_are_refused_in_all_phases(algorithm, tmp_path, monkeypatch):
    """And the model is the one without them."""
    monkeypatch.setattr("hyfdca.study.client.openings.MOST_UNOPENED", 10**6)
    settings = {**STUDY, "algorithm": f'"{algorithm}"', "max_rounds": "3"}
    consortium = Consortium(write(tmp_path, **settings))
    member = steered(consortium)
    _, weights = consortium.train()
    assert not member.accepted
    assert member.words == {UNOPENED}
    assert {stage for stage, _ in member.refused} == {"scaling", "training"}
    assert len(member.refused) > 4
    assert weights.tobytes() == undisturbed(tmp_path)[1].tobytes()


def test_added_numbers_are_refused_in_sums_of_levels(tmp_path, monkeypatch):
    """A server that adds to counts would have names of rare levels released."""
    monkeypatch.setattr("hyfdca.study.client.openings.MOST_UNOPENED", 10**6)
    MixedStudy(settings={"encryption": '"stream"'}).write(tmp_path)
    consortium = Consortium(tmp_path)
    member = steered(consortium)
    _, weights = consortium.train()
    assert ("levels", "keep levels") in member.refused
    assert not member.accepted
    assert weights.tobytes() == undisturbed(tmp_path)[1].tobytes()


def test_added_numbers_are_refused_in_scores_of_rows_set_aside(tmp_path, monkeypatch):
    """They would show the scores by the sums over these rows."""
    monkeypatch.setattr("hyfdca.study.client.openings.MOST_UNOPENED", 10**6)
    random = stream(3, "rows")
    X = random.normal(size=(60, 4))
    settings = {"encryption": '"stream"', "tol": "1e-2"}
    HeldOutStudy(X, X[:, 0] > 0.0, "2x2", settings).write(tmp_path)
    consortium = Consortium(tmp_path)
    members = [Steered(consortium.network._members[rank]) for rank in range(4)]
    consortium.network._members[:] = members
    consortium.tested()
    refused = set.union(*(member.refused for member in members))
    assert ("evaluation", "held-out scores") in refused
    assert not any(member.accepted for member in members)


def test_added_numbers_are_refused_in_scores_of_predictions():
    """Their sums are opened by one client, to which each holder seals its part."""
    split = Split(make_model(), random_cells(7), HOLDINGS)
    members = split.members("north")
    asker = members[0] = Steered(members[0])
    predict_locally(split.plan, members)
    assert asker.refused == {("prediction", "scores")}
    assert not asker.accepted
    assert asker.scores is not None


class Read:
    """A member whose labels a server reads from one total.

    It has the member seal its margins on a coarse grid, adds to each row a number twice
    as large as to the one before, and has the sum of the losses opened by the member
    itself: with the logistic loss, a row adds its number or next to nothing.
    """

    def __init__(self, member):
        self.member, self._part, self.refusal = member, None, ""

    def __getattr__(self, name):
        return getattr(self.member, name)

    def handle(self, stage, phase, payload):
        """Answer a request, those of two phases changed."""
        if stage != "training" or phase not in {"trial", "search"}:
            return self.member.handle(stage, phase, payload)
        token, number, content = unframed(payload)
        if phase == "trial":
            [honest, _], content[3] = content[3], [10, 55]
            reply = self.member.handle(stage, phase, framed(token, number, content))
            tag, self._part = unframed(reply)[2]
            return framed(token, number, [tag, [honest, self._part[1]]])
        if self._part is None:
            return self.member.handle(stage, phase, payload)
        bits, own = self._part
        counted = np.flatnonzero(self.member.aligned.counts_sample)[:35]
        added = {row: 2 ** (12 + place + bits) for place, row in enumerate(counted)}
        content[0] = [[bits, plus(as_a_sum(own), added)]]
        try:
            self.member.handle(stage, phase, framed(token, number, content))
        except RemoteProtocolError as error:
            self.refusal = str(error)
        raise EndedError


def test_labels_are_not_read_from_a_total(tmp_path):
    """The member forms no losses at margins that it did not help to choose."""
    consortium = Consortium(write(tmp_path, algorithm='"bundle"', **STUDY))
    reading = consortium.network._members[0] = Read(consortium.network._members[0])
    with pytest.raises(EndedError):
        consortium.train()
    assert reading.refusal == UNOPENED

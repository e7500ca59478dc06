"""A server that has members count a few rows alone of those that are set aside.

The sums of a test are over all rows whose labels a member has, whatever `least_rows`
is. But where nobody counts a cell of a row, its score is the intercept. If a member is
told to count the cells of one row alone, and nobody else counts any, the sums tell this
row's score: an equation for its cells, in every run another one.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from hyfdca.errors import StudyError
from hyfdca.model.model import Model
from hyfdca.protocol.server_session import ClientsFailedError
from hyfdca.runtime.store import Archive
from hyfdca.study.client.client import StudyClient
from hyfdca.study.client.placements import forget_placements
from hyfdca.study.client.policy import MemberPolicy
from hyfdca.study.tuning import RunChoice
from tests.support.consortia import make_files
from tests.support.durable_runs import Consortium
from tests.support.liars import framed, misplaced, unframed

VICTIM = 1
REFUSED = (StudyError, ClientsFailedError)
RUNS = "l2 = { least = 1e-4, most = 1.0 }\nmost_runs = 20"
SETTINGS = {
    "encryption": '"stream"',
    "disagreeing_cells": '"first"',
    "uncovered": '"mean"',
    "algorithm": '"bundle"',
    "tol": "1e-2",
    "holdout": "0.4",
    "salt": '"b"',
    "min_bin": "2",
}


class Misplaced:
    """A member that is told to count some rows alone of those set aside."""

    def __init__(self, member, rows):
        self.member, self._rows = member, rows

    def __getattr__(self, name):
        return getattr(self.member, name)

    def handle(self, stage, phase, payload):
        """Answer a request, the placement of rows set aside with other rows."""
        if (stage, phase) == ("held-out rows", "placement"):
            token, number, content = unframed(payload)
            content = misplaced(content, self._rows, divides=True)
            payload = framed(token, number, content)
        return self.member.handle(stage, phase, payload)


class Examined(Consortium):
    """A study whose server reads scores of a member."""

    policy = MemberPolicy()

    def score_of(self, row, run):
        """Return what is read of the class and score of a row, and what they are."""
        self.begin_run(RunChoice(number=run))
        for rank, member in enumerate(map(self.member, range(3))):
            rows = [row] if rank == VICTIM else []
            self.network._members[rank] = Misplaced(member, rows)
        outcome = self.tested()
        victim, model = self.network._members[VICTIM], Model.of(outcome.model())
        table = victim._stages.held_out
        at = [model.features.index(name) for name in table.features]
        cells = table.cells.toarray()[row] - model.scaling.offset[at]
        own = cells / model.scaling.scale[at] @ model.weights[at, 0] + model.intercept
        truth = int(table.targets.classes[row]), own[0]
        return _read(outcome.evaluation, model.intercept[0]), truth

    def member(self, rank):
        """Start a member, the victim with its policy."""
        given = (self.plan, self.tables[rank], self.identities[rank], self.roster)
        policy = self.policy if rank == VICTIM else MemberPolicy()
        store = super().member(rank)._archive._store
        return StudyClient(*given, store=store, policy=policy)


def _read(result, intercept):
    """Return class and score of the one row whose score is not the intercept."""
    n_rows, sensitivity = result["n_rows"], result["sensitivity"]
    share = (result["accuracy"] - sensitivity) / (result["specificity"] - sensitivity)
    n_first = round(n_rows * share)
    rest = np.array([n_first, n_rows - n_first])
    at_intercept = np.logaddexp(0.0, [intercept, -intercept])
    found = []
    for which, sign in enumerate((-1, 1)):
        others = rest - np.eye(2)[which]
        loss = n_rows * result["log_loss"] - others @ at_intercept
        score = -sign * np.log(np.expm1(loss)) if loss > 0.0 else np.inf
        squares = others @ expit([intercept, -intercept]) ** 2
        squares += expit(-sign * score) ** 2
        found.append((abs(squares / n_rows - result["brier"]), which, score))
    return min(found)[1:]


def written(folder):
    """Write a study with further runs, and return its folder."""
    path = make_files(**SETTINGS).write(folder)
    path.write_text(f"{path.read_text()}[tuning]\n{RUNS}\n")
    return folder


@pytest.mark.slow
def test_a_server_cannot_read_score_after_score(tmp_path, monkeypatch):
    """Further runs do not count anew; the member's user can."""
    monkeypatch.setattr("hyfdca.study.client.placements.MOST_PLACEMENTS", 2)
    consortium = Examined(written(tmp_path))
    for run, row in enumerate((0, 3, 3), start=1):
        found, truth = consortium.score_of(row, run)
        assert np.allclose(found, truth, atol=1e-6)  # so the attack is one
    with pytest.raises(REFUSED, match="more than 2 different places among"):
        consortium.score_of(5, 4)
    forget_placements(Archive(consortium.network._members[VICTIM]._archive._store))
    found, truth = consortium.score_of(5, 4)
    assert np.allclose(found, truth, atol=1e-6)


def test_a_policy_holds_for_what_is_counted_of_rows_set_aside(tmp_path):
    """Its least number of rows is that of every sum, before the first round."""
    consortium = Examined(written(tmp_path))
    consortium.policy = MemberPolicy(least_rows=2)
    with pytest.raises(REFUSED, match="what it counts of a column set aside has 1;"):
        consortium.score_of(0, 1)


def test_honest_restarts_are_one_placement_of_rows_set_aside(tmp_path, monkeypatch):
    """In new runs and new processes, and beside that of the rows to train on."""
    monkeypatch.setattr("hyfdca.study.client.placements.MOST_PLACEMENTS", 1)
    consortium = Consortium(written(tmp_path))
    first = consortium.tested().evaluation
    for rank in range(3):
        consortium.network.restart(rank)
    assert consortium.tested().evaluation == first
    consortium.further()
    assert consortium.tested().evaluation == first

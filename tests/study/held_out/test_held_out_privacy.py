"""What reaches a client of rows set aside, on the bytes: scores of its own labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyfdca.audit.collusion import Collusion, stolen_keys
from hyfdca.audit.reading import Heard, heard
from hyfdca.audit.views import Record
from hyfdca.data.tables import Table, stored_densely
from hyfdca.maths.seeds import stream
from hyfdca.runtime.driver import listening
from hyfdca.stages.evaluation import messages as m
from hyfdca.study.file import Client, Evaluation, Study, StudyFile
from hyfdca.study.local.study import prepare_tables
from hyfdca.study.outcome import train
from tests.support.thoroughness import examples

N_COLUMNS, N_CLIENTS = 4, 4
MANY = settings(
    max_examples=examples(2),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass
class Holdings:
    """Random tables of organisations that overlap; some have no labels, or blanks."""

    seed: int
    n_rows: int = 48

    def __post_init__(self):
        random = stream(self.seed, "held out")
        self.X = random.normal(size=(self.n_rows, N_COLUMNS))
        self.y = np.where(
            self.X.sum(axis=1) + random.normal(size=self.n_rows) > 0, "1", "0"
        )
        is_holder = random.random((self.n_rows, N_CLIENTS)) < 0.5
        is_holder[:, 0] |= ~is_holder.any(axis=1)
        self.rows = [np.flatnonzero(own) for own in is_holder.T]
        self.columns = [np.array([k % N_COLUMNS, 3]) for k in range(N_CLIENTS)]
        self.columns = [np.unique(own) for own in self.columns]
        self.labelled = [True, bool(random.random() < 0.5), True, False]
        self.blank = {int(row) for row in self.rows[0] if is_holder[row, 2]}
        self.blank = set(sorted(self.blank)[::2])  # of which only client 2 has labels
        self.held_out = np.arange(self.n_rows) % 3 == 0

    def table(self, k):
        """Return what an organisation holds."""
        rows, columns = self.rows[k], self.columns[k]
        labels = ["" if k == 0 and r in self.blank else self.y[r] for r in rows]
        return Table(
            tuple(f"P{row}" for row in rows),
            tuple(f"x{column}" for column in columns),
            stored_densely(self.X[np.ix_(rows, columns)]),
            tuple(map(str, labels)) if self.labelled[k] else None,
            held_out=self.held_out[rows],
        )

    def owner(self, row):
        """Return the lowest-ranked client that has the label of a row, or None."""
        return next(
            (
                k
                for k in range(N_CLIENTS)
                if row in self.rows[k]
                and self.labelled[k]
                and not (k == 0 and row in self.blank)
            ),
            None,
        )

    def own_rows(self, k):
        """Return the rows set aside whose scores a client is to receive."""
        every = np.flatnonzero(self.held_out).tolist()
        return [row for row in every if self.owner(row) == k]

    def run(self, encryption):
        """Train and test; return the run and all messages."""
        names = [f"c{k}" for k in range(N_CLIENTS)]
        study = Study(
            name="private",
            l2=0.1,
            tol=0.1,
            scale="standard",
            uncovered="mean",
            encryption=encryption,
            labels_visible_to_holders=True,
            allow_unshared=True,
        )
        clients = [
            Client(name=name, label=has)
            for name, has in zip(names, self.labelled, strict=True)
        ]
        tested = Evaluation(holdout_column="test", min_bin=2)
        file = StudyFile(study, clients, evaluation=tested)
        said: list[Heard] = []

        def listen(ask, replies):
            for client, request in ask.payloads.items():
                down = Record(ask.phase, client, "down", bytes(request))
                said.append(heard(down))
                if ask.wants_reply:
                    up = Record(ask.phase, client, "up", bytes(replies[client]))
                    said.append(heard(up))

        with listening(listen):
            run = prepare_tables(file, [self.table(k) for k in range(N_CLIENTS)])
            outcome = train(run, lambda *_: None)
        return run, outcome, said


PUBLIC = (
    *(m.EvaluatedModel, m.ModelTags, m.BoundsRequest, m.MeasuresRequest),
    *(m.BinsRequest, m.CalibrationRequest, m.RecalibrationRequest, m.HeldOutRequest),
)


def scores_of(held, model):
    """Return the score of every row without the intercept; absent cells are 0."""
    numbers = (model.scaling.scales, model.scaling.offsets)
    columns = [f"x{column}" for column in range(N_COLUMNS)]
    scale, offset = (np.array([own[name] for name in columns]) for own in numbers)
    weights = np.array([model.weights[name][0] for name in columns])
    is_held = np.zeros((held.n_rows, N_COLUMNS), dtype=bool)
    for rows, own in zip(held.rows, held.columns, strict=True):
        is_held[np.ix_(rows, own)] = True
    return np.where(is_held, (held.X - offset) / scale, 0.0) @ weights


def numbers_in(message):
    """Return scores that came in the clear."""
    [sealed] = message.scores
    return np.frombuffer(sealed.payload, "<i8") * 0.5**sealed.fraction_bits


def check_arranged(held, k, message):
    """Check that a client learns of its own rows alone who has their labels."""
    rows = [row for row in held.rows[k] if held.held_out[row]]
    owners = [held.owner(row) for row in rows if held.owner(row) is not None]
    assert len(message.owners) == len(message.sample_groups) == 4 * len(owners)
    assert sorted(np.frombuffer(message.owners, "<u4").tolist()) == sorted(owners)


@MANY
@given(number=st.integers(0, 10_000))
def test_a_client_receives_scores_of_its_own_labels_alone(number):
    """Otherwise it is sent only what all are sent, or what it holds."""
    held = Holdings(number)
    _, outcome, said = held.run("none")
    scores, received = scores_of(held, outcome.model()), set()
    public: dict[str, dict[int, list]] = {}
    for one in said:
        if one.direction != "down" or one.phase not in m.PHASES:
            continue
        message, k = one.message, one.client
        if isinstance(message, m.HeldOutScores):
            own = held.own_rows(k)
            found = sorted(numbers_in(message))
            assert found == pytest.approx(sorted(scores[own]), abs=1e-12)
            received |= set(own)
        elif isinstance(message, m.HeldOutArrangements):
            check_arranged(held, k, message)
        elif isinstance(message, PUBLIC):
            public.setdefault(one.phase, {}).setdefault(k, []).append(message)
        else:
            assert (one.phase, k) == (
                "open measures",
                0,
            ) or one.phase == "held-out bound"
    assert received == set().union(*map(held.own_rows, range(N_CLIENTS)))
    assert outcome.evaluation["n_rows"] == len(received) > 10
    for by_client in public.values():  # all receivers are sent the same
        first, *others = by_client.values()
        assert all(own == first for own in others)


@settings(MANY, max_examples=examples(1))
@given(number=st.integers(0, 10_000))
def test_the_server_and_a_client_open_no_score_of_another(number):
    """They try the keys of each client in turn on all parts of scores.

    There are enough rows for numbers that open to be no accident.
    """
    held = Holdings(number, n_rows=600)
    run, _, said = held.run("stream")
    phases = ("arrange held-out", "held-out parts")
    tested = [one for one in said if one.phase in phases]
    layout = run.training.federation.layout
    for rank, member in enumerate(run.members):
        sealers = member.secrecy.sealers()
        keys = stolen_keys(sealers.secrets, sealers.check_key, layout)
        score = Collusion(rank, keys).listen(tested)
        assert score.n_vectors > 0
        assert score.n_outside == 0
        # What others sent this client does open, so the keys were tried well.
        assert (score.n_inside > 0) == bool(held.own_rows(rank))


@MANY
@given(number=st.integers(0, 10_000))
def test_another_row_changes_no_message_to_those_who_do_not_hold_it(
    number, monkeypatch
):
    """Its cells and its label; only sums over all rows and what follows from them."""
    monkeypatch.setattr("hyfdca.study.server.new_group_secret", lambda: bytes(32))
    held, changed = Holdings(number), Holdings(number)
    row = next(r for r in range(0, held.n_rows, 3) if held.owner(r) is not None)
    others = [k for k in range(1, N_CLIENTS) if row not in held.rows[k]]
    others = [k for k in others if k != held.owner(row)]
    changed.X = held.X.copy()
    changed.X[row] = 0.3 - held.X[row]
    changed.y = held.y.copy()
    changed.y[row] = {"0": "1", "1": "0"}[held.y[row]]
    first, second = (own.run("none") for own in (held, changed))
    models = [own[1].model() for own in (first, second)]
    assert models[0] == models[1]
    of_totals = {"measure bounds", "measures", "score bins", "calibration bins"}
    of_totals |= {"recalibration", "held-out parts"}  # grids follow from bounds of all
    for k in others:
        sent = [
            [
                (one.phase, _without_sums(one.message))
                for one in run[2]
                if one.client == k and one.direction == "down"
                if one.phase not in of_totals
            ]
            for run in (first, second)
        ]
        assert _without_keys(sent[0]) == _without_keys(sent[1])


def _without_sums(message):
    """Return scores as numbers, on whatever grid they came."""
    if not isinstance(message, m.HeldOutScores):
        return message
    return np.round(numbers_in(message), 9).tolist()


def _without_keys(sent):
    """Return messages without those that have random keys in them."""
    random = {"take keys", "compare keys", "take secrets", "same model", "make keys"}
    return [own for own in sent if own[0] not in random]

"""A server that makes a member count only a few of its rows, to read them.

The statistics of the scaling are over the cells that a member counts, and the server
sees them. So it says that others hold all rows but two, and gets these two from their
mean and their deviation, before any round: as often as the member goes along. The mean
of all targets is over the rows whose label a member counts: if that is one row, and
nobody else counts any, it is that label.
"""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.runtime.store import Archive, MemoryStore, SealedStore
from hyfdca.study.client.client import StudyClient
from hyfdca.study.client.placements import forget_placements
from hyfdca.study.client.policy import MemberPolicy
from hyfdca.study.tuning import RunChoice
from tests.support.consortia import N_ROWS, make_files, scores
from tests.support.durable_runs import Consortium, undisturbed, write
from tests.support.liars import bits, framed, misplaced, unframed

VICTIM = 1
RUNS = "l2 = { least = 1e-4, most = 1.0 }\nmost_runs = 20"
STUDY = {
    "encryption": '"stream"',
    "scale": '"standard"',
    "uncovered": '"mean"',
    "tol": "1e-2",
    "algorithm": '"bundle"',
}
REGRESSION = {
    **STUDY,
    "loss": '"half_squared"',
    "labels": (100.0 * scores() + 70.0).tolist(),
}


class EndedError(Exception):
    """The server has what it wanted, or was refused."""


class Misplaced:
    """A member that a server instructs to count only some of its rows.

    A twin answers what compares the tables of all.
    """

    def __init__(self, member, twin, rows):
        self.member, self._twin, self._rows = member, twin, rows
        self.found, self.target = None, None
        self.refusal, self.refused_in = "", ""

    def __getattr__(self, name):
        return getattr(self.member, name)

    def handle(self, stage, phase, payload):
        """Answer a request, the placement with other rows."""
        if stage in {"study", "keys", "alignment"}:
            reply = self._twin.handle(stage, phase, payload)
            if phase in {"cells", "hints"}:
                return reply
        token, number, content = unframed(payload)
        if phase == "placement":
            payload = framed(token, number, self.told(content))
        try:
            reply = self.member.handle(stage, phase, payload)
        except RemoteProtocolError as error:
            self.refusal, self.refused_in = str(error), stage
            raise EndedError from None
        if stage == "scaling" and phase == "statistics":
            means, deviations, _ = unframed(reply)[2]
            self.found = np.frombuffer(means), np.frombuffer(deviations)
            raise EndedError
        if stage == "labels" and phase == "target scaling":
            [self.target, _] = unframed(reply)[2]
            raise EndedError
        return reply

    def told(self, content):
        """Return what the member is told instead of its placement."""
        return misplaced(content, self._rows)


class Scattered(Misplaced):
    """A member each of whose rows is said to have other holders."""

    def told(self, content):
        """Return a placement with a group for each row."""
        changed = misplaced(content, self._rows)
        n_rows = len(content[1]) // 4
        is_own = np.isin(np.arange(n_rows), self._rows)
        changed[3] = np.arange(n_rows, dtype="<u4").tobytes()
        changed[5:7] = [bits(is_own), bits(is_own)]
        return changed


class Uncounted(Misplaced):
    """A member that is told to count all its cells, but the labels of some rows."""

    def told(self, content):
        """Return a placement that is about labels alone."""
        return misplaced(content, self._rows, counts_all_cells=True)


class TwinStore(MemoryStore):
    """The store of a member's twin: the member's own, but for the placements."""

    def __init__(self, store):
        super().__init__()
        self._store = store

    def write(self, name, content):
        """Store a content, those about placements here."""
        place = super() if name.startswith("placements") else self._store
        place.write(name, content)

    def read(self, name):
        """Return a content from where it is stored."""
        place = super() if name.startswith("placements") else self._store
        return place.read(name)


class Reading(Consortium):
    """A study whose server reads rows of a member."""

    policy = MemberPolicy()

    def read(self, rows, run=None, kind=Misplaced):
        """Return the member that was told to count these rows."""
        if run is not None:
            self.begin_run(run)
        self._misplace(kind, VICTIM, rows)
        with pytest.raises(EndedError):
            self.hosted()
        return self.network._members[VICTIM]

    def label_of(self, row, run):
        """Return the member, and what is read of the label of its row."""
        self.begin_run(run)
        for rank in range(3):
            self._misplace(Uncounted, rank, [row] if rank == VICTIM else [])
        with pytest.raises(EndedError):
            self.hosted()
        members = self.network._members
        mean = members[0].target  # the server asks the first one that has labels
        return members[VICTIM], None if mean is None else mean * N_ROWS

    def _misplace(self, kind, rank, rows):
        twin = self._started(rank, TwinStore(self.stores[rank]), MemberPolicy())
        self.network._members[rank] = kind(self.member(rank), twin, rows)

    def member(self, rank):
        """Start a member, the victim with its policy."""
        policy = self.policy if rank == VICTIM else MemberPolicy()
        return self._started(rank, self.stores[rank], policy)

    def _started(self, rank, store, policy):
        identity = self.identities[rank]
        sealed = SealedStore(store, identity.to_bytes(), b"test")
        given = (self.plan, self.tables[rank], identity, self.roster)
        return StudyClient(*given, store=sealed, policy=policy)


def test_a_policy_holds_for_what_is_counted_of_a_column(tmp_path):
    """Its least number of rows is that of every sum, whatever the table has."""
    consortium = Reading(write(tmp_path, **STUDY))
    consortium.policy = MemberPolicy(least_rows=3)
    victim = consortium.read([4, 5])
    assert victim.found is None
    assert "what it counts of a column has 2; name it earlier in" in victim.refusal


def test_a_policy_holds_for_counts_of_levels(tmp_path):
    """Categories come before the scaling, and are counted likewise."""
    files = make_files(**STUDY)
    table = files.organisations["city"].table
    table["x4"] = ["ab"[value > 100.0] for value in table["x4"]]
    files.write(tmp_path)
    consortium = Reading(tmp_path)
    consortium.policy = MemberPolicy(least_rows=3)
    victim = consortium.read([4, 5])
    assert "what it counts of a column has 2" in victim.refusal
    assert victim.refused_in == "levels"


def test_no_place_with_more_groups_of_rows_than_sets_of_holders(tmp_path):
    """Neither tokens nor sums are given under it."""
    victim = Reading(write(tmp_path, **STUDY)).read([4, 5], kind=Scattered)
    assert victim.found is None
    assert "more groups of rows than there are sets of holders" in victim.refusal
    assert victim.refused_in == "alignment"


def test_a_server_cannot_read_row_after_row_by_the_scaling(tmp_path, monkeypatch):
    """Further runs and new processes do not reset the count; the member's user can."""
    monkeypatch.setattr("hyfdca.study.client.placements.MOST_PLACEMENTS", 2)
    folder = write(tmp_path, tuning=RUNS, **STUDY)
    consortium = Reading(folder)
    for number, rows in enumerate(([0, 1], [4, 5], [4, 5]), start=1):
        victim = consortium.read(rows, RunChoice(number=number))
        own = victim.aligned.cells.toarray()[rows, 1:]  # nobody else has these columns
        means, deviations = victim.found
        assert np.allclose(means[1:], own.mean(axis=0))  # so the attack is one
        assert np.allclose(deviations[1:], own.std(axis=0))
    for number in (3, 4):
        victim = consortium.read([6, 7], RunChoice(number=number))
        assert victim.found is None
        assert "more than 2 different places among the others" in victim.refusal
    forget_placements(Archive(victim._archive._store))
    assert consortium.read([6, 7], RunChoice(number=4)).found is not None


def test_a_server_cannot_read_label_after_label_by_the_targets(tmp_path, monkeypatch):
    """It says that a member counts all its cells, but the label of one row alone."""
    monkeypatch.setattr("hyfdca.study.client.placements.MOST_PLACEMENTS", 2)
    consortium = Reading(write(tmp_path, tuning=RUNS, **REGRESSION))
    for number, row in enumerate((3, 7, 7), start=1):
        victim, found = consortium.label_of(row, RunChoice(number=number))
        own = victim.aligned.targets.values[row, 0]
        assert np.isclose(found, own)  # so the attack is one
    for number in (3, 4):
        victim, found = consortium.label_of(9, RunChoice(number=number))
        assert found is None
        assert "more than 2 different places among the others" in victim.refusal


def test_a_policy_holds_for_labels_that_are_counted(tmp_path):
    """Its least number of rows is that of sums of targets, too."""
    consortium = Reading(write(tmp_path, tuning=RUNS, **REGRESSION))
    consortium.policy = MemberPolicy(least_rows=2)
    victim, found = consortium.label_of(3, RunChoice(number=1))
    assert found is None
    assert "what it counts of its labels has 1;" in victim.refusal
    assert victim.refused_in == "labels"


def whole_labels(files):
    """Leave the study as it is."""


def labels_at_one(files):
    """Have all organisations but one have no labels."""
    files.settings["labels_visible_to_holders"] = "true"
    for name in ("city", "coast"):
        files.organisations[name].extra += "label = false\n"
    city = files.organisations["city"]
    del files.organisations["coast"], city.table["y"]
    city.table = {name: column[:20] for name, column in city.table.items()}


def blank_labels(files):
    """Have an organisation lack labels that another one has."""
    files.settings["labels_visible_to_holders"] = "true"
    files.organisations["city"].table["y"][:5] = [""] * 5


def shared_blanks(files):
    """Have all organisations lack cells that others have, and round them."""
    rounding = {"blank_cells": '"share"', "missing": '"mean"', "cell_tolerance": "1e-6"}
    files.settings |= rounding
    for number, own in enumerate(files.organisations.values()):
        column = own.table[own.columns[0]]
        column[number::7] = [""] * len(column[number::7])


def held_out(files):
    """Set rows aside, which are aligned apart."""
    files.settings |= {"holdout": "0.3", "salt": '"b"', "min_bin": "2"}


@pytest.mark.parametrize(
    "change", [whole_labels, labels_at_one, blank_labels, shared_blanks, held_out]
)
@pytest.mark.parametrize("study", [STUDY, REGRESSION])
def test_honest_restarts_are_one_placement(study, change, tmp_path, monkeypatch):
    """The same tables have the same placement, under new pseudonyms too."""
    monkeypatch.setattr("hyfdca.study.client.placements.MOST_PLACEMENTS", 1)
    files = make_files(**study)
    change(files)
    path = files.write(tmp_path)
    path.write_text(f"{path.read_text()}[tuning]\n{RUNS}\n")
    consortium = Consortium(tmp_path)
    consortium.train()
    consortium.further()
    _, weights = consortium.train()
    for rank in range(len(consortium.stores)):
        consortium.network.restart(rank)
    assert weights.tobytes() == consortium.train()[1].tobytes()
    assert weights.tobytes() == undisturbed(tmp_path)[1].tobytes()

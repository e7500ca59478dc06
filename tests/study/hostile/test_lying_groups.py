"""A server that cuts a member's table into groups of its choice, to read its zeros.

Before any sum, members show tokens of cells that others hold too, and hints on how to
round them, by groups of rows and columns. The server says which groups there are. A
hint shows how long it is, and tokens of two groups show what they differ by.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.maths.seeds import stream
from hyfdca.protocol.codec import RemoteProtocolError
from tests.support.durable_runs import Consortium, write
from tests.support.liars import bits, framed, unframed

VICTIM, N_MORE = 1, 3  # columns
STUDY = {"encryption": '"stream"', "uncovered": '"mean"', "scale": '"standard"'}


class EndedError(Exception):
    """The server has what it wanted, or was refused."""


class Placed:
    """A member whom a server gives placements of its choice, one after the other.

    Between two of them the server begins the run again, which it may at any time.
    """

    def __init__(self, member, attack):
        self.member, self._attack = member, attack
        self._begin, self._asked, self.honest = b"", {}, []

    def __getattr__(self, name):
        return getattr(self.member, name)

    def handle(self, stage, phase, payload):
        """Answer a request; attack in place of the placement."""
        if phase == "begin":
            self._begin = payload
        if phase == "placement":
            self._token, self._number, self.honest = unframed(payload)
            self._attack(self)
            raise EndedError
        if stage == "alignment":
            self._asked[phase] = unframed(payload)[2]
        return self.member.handle(stage, phase, payload)

    @property
    def shape(self):
        """The size of its table."""
        return len(self.honest[1]) // 4, len(self.honest[2]) // 4

    def ask(self, phase, *content, stage="alignment"):
        """Return the content of the answer to a request."""
        self._number += 1
        request = framed(self._token, self._number, list(content))
        return unframed(self.member.handle(stage, phase, request))[2]

    def begin(self):
        """Begin the run again, up to the placement."""
        token, _, content = unframed(self._begin)
        self._number += 1
        content[0] = self._number
        self.member.handle("study", "begin", framed(token, self._number, content))
        for phase, asked in self._asked.items():
            self.ask(phase, *asked)

    def place(self, row_groups, column_groups, is_first=False, **changed):
        """Begin again and give it these groups, all of whose cells it counts."""
        if not is_first:
            self.begin()
        content = list(self.honest)
        n_rows, n_columns = max(row_groups) + 1, max(column_groups) + 1
        content[3] = np.array(row_groups, "<u4").tobytes()
        content[4] = np.array(column_groups, "<u4").tobytes()
        flags = np.ones((n_rows, n_columns)), np.ones(n_rows), np.ones(n_columns)
        content[5:8] = map(bits, flags)
        for place, value in changed.items():
            content[int(place[1:])] = value
        self.ask("placement", *content)
        return whole(n_columns), bits(np.ones((n_rows, n_columns)))


def whole(size):
    """Return all of some things, as they travel."""
    return np.arange(size, dtype="<u4").tobytes()


class Cutting(Consortium):
    """A study whose server attacks a member; most of its cells are zero, or blank."""

    def __init__(self, folder, attack, empty=0.0):
        self._attack = attack
        super().__init__(folder)
        table = self.tables[VICTIM]
        names = (*table.features, *(f"own {number}" for number in range(N_MORE)))
        random = stream(7, "zeros").uniform(size=(len(table.ids), len(names)))
        cells = sp.csr_array(np.where(random < 0.3, 1.0, empty))
        self.tables[VICTIM] = replace(table, features=names, cells=cells)
        self.network._members[VICTIM] = self.member(VICTIM)
        with pytest.raises(EndedError):
            self.hosted()

    def member(self, rank):
        """Start a member, the victim with the server's attack."""
        member = super().member(rank)
        return Placed(member, self._attack) if rank == VICTIM else member


@pytest.mark.parametrize("what", ["rows", "columns"])
def test_a_table_is_not_cut_into_single_cells(what, tmp_path):
    """There are no more groups of rows, or of columns, than sets of holders."""

    def attack(victim):
        n_rows, n_columns = victim.shape
        rows = range(n_rows) if what == "rows" else [0] * n_rows
        columns = range(n_columns) if what == "columns" else [0] * n_columns
        match = f"more groups of {what} than there are sets of holders"
        with pytest.raises(RemoteProtocolError, match=match):
            victim.place(rows, columns, is_first=True)
        with pytest.raises(RemoteProtocolError, match="has not come yet"):
            _ = victim.aligned

    Cutting(write(tmp_path, **STUDY), attack)


def test_hints_do_not_show_zeros(tmp_path):
    """A hint about one cell, or one row, is as long whatever is in it."""
    found, cells = [], []

    def attack(victim):
        n_rows, n_columns = victim.shape
        for row in range(1, 7):
            groups = [int(place == row) for place in range(n_rows)]
            others = [0] * (n_columns - 1) + [1]
            asked = victim.place(groups, others, is_first=row == 1)
            victim.ask("cells", *asked)
            [hints] = victim.ask("hints", *asked)
            found.append(tuple(map(len, hints)))
            cells.append(victim.aligned.cells.toarray()[row, -1])

    Cutting(write(tmp_path, **STUDY, cell_tolerance="1e-6"), attack)
    assert {*cells} == {0.0, 1.0}
    assert len({*found}) == 1


def test_tokens_of_two_placements_do_not_show_zeros(tmp_path):
    """A row's token over more columns never equals that over fewer ones."""
    shown = []

    def attack(victim):
        n_rows, n_columns = victim.shape
        for groups in ([0] * n_columns, [0] + [1] * (n_columns - 1)):
            asked = victim.place([0] * n_rows, groups, is_first=not shown)
            [tokens] = victim.ask("cells", *asked)
            shown.append(np.frombuffer(tokens, "<u8").reshape(-1, n_rows)[0])

    consortium = Cutting(write(tmp_path, **STUDY), attack)
    assert np.any(~consortium.tables[VICTIM].cells.toarray()[:, 1:].any(axis=1))
    assert not np.any(shown[0] == shown[1])


def test_tokens_by_column_do_not_show_zeros(tmp_path):
    """A column's token over more rows never equals that over fewer ones."""
    shown = []

    def attack(victim):
        n_rows, n_columns = victim.shape
        for groups in ([0] * n_rows, [0] * (n_rows - 1) + [1]):
            asked = victim.place(groups, [0] * n_columns, is_first=not shown)
            victim.ask("cells", *asked)
            [tokens] = victim.ask("cells", *asked, None, "column")
            shown.append(np.frombuffer(tokens, "<u8").reshape(-1, n_columns)[0])

    Cutting(write(tmp_path, **STUDY), attack)
    assert not np.any(shown[0] == shown[1])


def test_rounded_tokens_do_not_show_zeros(tmp_path):
    """A row without numbers has another token once its cells are rounded."""
    shown = []

    def attack(victim):
        n_rows, n_columns = victim.shape
        asked = victim.place([0] * n_rows, [0] * n_columns, is_first=True)
        for hints in (None, []):
            [tokens] = victim.ask("cells", *asked, hints)
            shown.append(np.frombuffer(tokens, "<u8"))

    consortium = Cutting(write(tmp_path, **STUDY, cell_tolerance="1e-6"), attack)
    cells = consortium.tables[VICTIM].cells.toarray()
    assert np.any(~cells.any(axis=1))
    assert not np.any(shown[0] == shown[1])


def test_placements_count_before_anything_is_shown_under_them(tmp_path, monkeypatch):
    """A run that is begun again and again has no others than ten."""
    monkeypatch.setattr("hyfdca.study.client.placements.MOST_PLACEMENTS", 3)
    refusals = []

    def attack(victim):
        n_rows, n_columns = victim.shape
        for column in range(1, n_columns):
            groups = [int(place >= column) for place in range(n_columns)]
            owns = {"_5": bits([1, 0]), "_7": bits([1, 0])}
            try:
                victim.place([0] * n_rows, groups, is_first=column == 1, **owns)
            except RemoteProtocolError as error:
                refusals.append((column, str(error)))

    Cutting(write(tmp_path, **STUDY), attack)
    assert [column for column, _ in refusals] == [4, 5]
    assert all("more than 3 different places" in why for _, why in refusals)


TOLD = {
    "features that it counts": lambda number: {"_7": bits(np.arange(4) == number)},
    "rows": lambda number: {"_0": 100 + number},
    "groups": lambda number: {"_3": np.repeat([0, 1], [number, 99])},
}


@pytest.mark.parametrize("what", TOLD)
def test_all_that_is_told_makes_another_placement(what, tmp_path, monkeypatch):
    """Products of single features, bounds by the number of rows, sums by groups."""
    monkeypatch.setattr("hyfdca.study.client.placements.MOST_PLACEMENTS", 2)
    refusals = []

    def attack(victim):
        n_rows, n_columns = victim.shape
        for number in (1, 2, 2, 3):
            groups = [*range(4), *[3] * (n_columns - 4)]
            told = TOLD[what](number)
            rows = told.pop("_3", np.zeros(n_rows, int)).tolist()
            try:
                victim.place(rows[:n_rows], groups, is_first=number == 1, **told)
            except RemoteProtocolError as error:
                refusals.append((number, str(error)))

    Cutting(write(tmp_path, **STUDY), attack)
    [(number, why)] = refusals
    assert number == 3
    assert "more than 2 different places" in why


BLANKS = {**STUDY, "missing": '"mean"', "blank_cells": '"share"'}


def test_notes_do_not_show_blank_cells(tmp_path):
    """A note about one cell is as long whether it is blank or not."""
    found, cells = [], []

    def attack(victim):
        n_rows, n_columns = victim.shape
        columns = [0] * (n_columns - 1) + [1]
        for row in range(1, 7):
            groups = [int(place == row) for place in range(n_rows)]
            victim.place(groups, columns, is_first=row == 1)
            [notes] = victim.ask("blanks", [0, 2], bits([0, 1] * 2), bits([0, 1] * 2))
            found.append(tuple(map(len, notes)))
            cells.append(np.isnan(victim.aligned.cells.toarray()[row, -1]))

    Cutting(write(tmp_path, **BLANKS), attack, empty=np.nan)
    assert {*cells} == {False, True}
    assert len({*found}) == 1


def test_common_cells_are_told_ten_times(tmp_path, monkeypatch):
    """How many are filled would say which are blank, cell by cell."""
    monkeypatch.setattr("hyfdca.study.client.placements.MOST_PLACEMENTS", 2)
    refusals = []

    def attack(victim):
        n_rows, n_columns = victim.shape
        groups = [0] * n_rows, [*range(4), *[3] * (n_columns - 4)]
        for column in (0, 1, 1, 2):
            victim.place(*groups, is_first=not column)
            cells = bits([1]), bits(np.arange(4) == column)
            try:
                victim.ask("blanks", [0], *cells)
            except RemoteProtocolError as error:
                refusals.append((column, str(error)))

    Cutting(write(tmp_path, **BLANKS), attack, empty=np.nan)
    [(column, why)] = refusals
    assert column == 2
    assert "more than 2 different places" in why

"""Studies in which a cell is blank at one holder and known to another."""

from __future__ import annotations

import pytest

from hyfdca.audit.recording import train_recorded
from hyfdca.audit.report import audit_folder
from hyfdca.data.held_out import is_drawn
from hyfdca.errors import StudyError
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.comparison.comparisons import TIMES, compared, rows_of, without
from tests.support.consortia import make_files
from tests.support.durable_runs import Consortium
from tests.support.mixed_tables import N_ROWS, MixedStudy

# Of levels, numbers, true and false, and dates; at owners of the cells and at others.
BLANK = [
    ("north", "ward", [52, 53, 60]),
    ("city", "ward", [55, 56]),
    ("north", "age", [3]),
    ("coast", "age", [4, 5]),
    ("north", "smoker", [8, 9]),
    ("coast", "smoker", [7]),
    ("city", "admitted", [80, 81]),
    ("coast", "pressure", [91]),
]
N_BLANK = sum(len(rows) for *_, rows in BLANK)
SHARED = {"tol": "1e-4", "blank_cells": '"share"'}


def blanked(**settings: str) -> MixedStudy:
    """Return the study with cells that only one of two holders has."""
    study = MixedStudy(settings=settings)
    for name, column, rows in BLANK:
        table = study.tables[name]
        is_blank = table["id"].isin([f"P{row:03d}" for row in rows])
        table[column] = table[column].astype(object).where(~is_blank, None)
    return study


def trained(study, folder, evaluation=""):
    folder.mkdir()
    path = study.write(folder)
    path.write_text(path.read_text() + evaluation)
    return train(prepare(load(path), folder), lambda *_: None)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The study whose files have the values; it fills nothing."""
    study = MixedStudy(settings={"tol": "1e-4"})
    return trained(study, tmp_path_factory.mktemp("complete") / "study")


@pytest.mark.parametrize("encryption", ["none", "stream"])
def test_the_run_is_that_of_filled_files(encryption, complete, tmp_path):
    """Model and certificate are the same bit for bit; no cell counts as missing."""
    sealed = {"encryption": f'"{encryption}"'}
    found = trained(blanked(**SHARED, **sealed), tmp_path / "blank")
    assert found.model() == complete.model()
    assert found.weights.tobytes() == complete.weights.tobytes()
    assert found.result()["filled_cells"] == N_BLANK
    assert complete.result()["filled_cells"] == 0


@pytest.mark.parametrize("encryption", ["none", "stream"])
def test_rows_set_aside_have_the_values_that_others_know(encryption, tmp_path):
    """Model, evaluation and curves are those of files without blank cells."""
    settings = {**SHARED, "encryption": f'"{encryption}"', "max_rounds": "20"}
    lines = '[evaluation]\nholdout = 0.4\nsalt = "a"\ncurves = 5\n'
    drawn = is_drawn([f"P{row:03d}" for row in range(N_ROWS)], 0.4, "a")
    n_set_aside = sum(int(drawn[row]) for *_, rows in BLANK for row in rows)
    assert 0 < n_set_aside < N_BLANK
    complete, filled = (
        trained(study, tmp_path / name, lines)
        for name, study in (
            ("complete", MixedStudy(settings=settings)),
            ("blank", blanked(**settings)),
        )
    )
    assert filled.model() == complete.model()
    assert filled.evaluation == complete.evaluation
    assert filled.evaluation is not None


def test_resumed_is_undisturbed(complete, tmp_path):
    """Organisations that restart fill the same cells again, without asking again."""
    blanked(**SHARED, encryption='"stream"').write(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(2)
    for rank in range(len(consortium.tables)):
        consortium.network.restart(rank)
    _, found = consortium.train()
    assert found.tobytes() == complete.weights.tobytes()


def test_a_comparison_has_the_values_of_rows_set_aside(tmp_path):
    """Rows that are set aside are scored with the values that others have."""
    shared = {"tol": "1e-3", "blank_cells": '"share"', "max_rounds": "3"}
    found = [
        compared(study, tmp_path, "bundle", holdout=0.4)
        for study in (MixedStudy(settings=shared), blanked(**shared))
    ]
    complete, filled = (without(rows_of(own), TIMES) for own in found)
    assert filled == complete


def test_what_is_blank_everywhere(tmp_path):
    """It is refused, or taken as the mean, as if nobody shared anything."""
    study = blanked(**SHARED)
    study.tables["north"].loc[3, "age"] = None
    study.tables["coast"].loc[3, "age"] = None
    with pytest.raises(StudyError, match=r"'north' has 1 blank cell .* 'age'; fill"):
        trained(study, tmp_path / "refused")
    study.settings["missing"] = '"mean"'
    assert trained(study, tmp_path / "mean").result()["filled_cells"] == N_BLANK - 1


def test_blanks_are_refused_by_default(tmp_path):
    """A sentence names column and setting, whatever is done about missing cells."""
    with pytest.raises(StudyError, match=r"'north' has .*missing = .*blank_cells"):
        trained(blanked(), tmp_path / "missing")
    with pytest.raises(StudyError, match=r"columns 'age', .*; correct.* blank_cells"):
        trained(blanked(missing='"mean"'), tmp_path / "mean")
    only_city = make_files(missing='"mean"', encryption='"none"')
    only_city.organisations["city"].table["x2"][0] = ""
    with pytest.raises(StudyError, match=r"column 'x2'; .*blank_cells = .*if"):
        trained(only_city, tmp_path / "one")


def test_values_are_sealed_from_the_server(tmp_path):
    """The audit finds notes, all sealed, though the study encrypts nothing."""
    files = make_files(encryption='"none"', max_rounds="2", blank_cells='"share"')
    for name, place in (("north", 25), ("coast", 3)):
        files.organisations[name].table["x1" if place == 3 else "x2"][place] = ""
    train_recorded(files.write(tmp_path), tmp_path / "out", lambda *_: None, ["north"])
    audit = audit_folder(tmp_path / "out")
    forms = {seen.value: seen.form for seen in audit.seen}
    assert forms["blank cells"] == forms["filled cells"] == "sealed"
    assert "filled cells" in {seen.value for seen in audit.clients[0].seen}

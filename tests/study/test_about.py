"""What a result says about its study beside numbers."""

import msgspec
import numpy as np
import pytest

from hyfdca import __version__
from hyfdca.crypto.keys.identity import Identity
from hyfdca.study.about import About, Asked
from hyfdca.study.file import load
from hyfdca.study.identity import study_fingerprint
from hyfdca.study.local.training import train_file
from tests.support.consortia import held, make_files

pytestmark = pytest.mark.usefixtures("no_figure")


def outcome_of(folder, how="first", watch=lambda *_: None, **settings):
    """Train a study in a folder."""
    path = folder / "study.toml"
    if how == "first":
        make_files(**settings).write(folder)
    return train_file(path, folder / "out", watch, how)


def about_of(outcome):
    """Return what a result says about its study, checked field by field."""
    return msgspec.convert(outcome.result()["about"], About, strict=False)


@pytest.mark.parametrize(
    "settings", [{}, {"algorithm": '"fedavg"', "max_rounds": "20"}]
)
def test_stages_add_up_to_the_whole(tmp_path, settings):
    """Bytes and round trips of all stages are those of the result."""
    outcome = outcome_of(tmp_path, encryption='"stream"', **settings)
    costs, result = about_of(outcome).costs, outcome.result()
    for name in ("bytes_up", "bytes_down", "round_trips"):
        assert sum(getattr(cost, name) for cost in costs) == result[name]
    by_stage = {cost.stage: cost for cost in costs}
    assert list(by_stage)[:2] == ["keys", "alignment"]
    in_rounds = sum(record["bytes_up"] for record in outcome.history())
    assert by_stage["rounds"].bytes_up == in_rounds
    assert all(cost.seconds is not None for cost in costs)
    seconds = by_stage["rounds"].seconds + by_stage["measuring"].seconds
    assert 0 < seconds <= outcome.seconds


def test_a_resumed_run_does_not_know_how_long_it_was_prepared(tmp_path, monkeypatch):
    """What was replayed was not timed; bytes are known."""
    monkeypatch.setattr("hyfdca.study.local.training._SECONDS", 0.0)

    def interrupt(run, report):
        if report.round_number == 2:
            run.training.interruption.is_asked = True

    first = outcome_of(tmp_path, watch=interrupt, encryption='"none"')
    assert first.is_interrupted
    resumed = about_of(outcome_of(tmp_path, how="resume"))
    assert {cost.stage for cost in resumed.costs if cost.seconds is None} == {
        *(cost.stage for cost in about_of(first).costs),
    } - {"rounds", "measuring", "release"}
    before = {cost.stage: cost.bytes_up for cost in about_of(first).costs}
    after = {cost.stage: cost.bytes_up for cost in resumed.costs}
    assert after["alignment"] == before["alignment"] > 0


def test_holdings_are_those_of_the_tables(tmp_path):
    """Rows, columns and groups, counted in the pooled table."""
    about = about_of(outcome_of(tmp_path, encryption='"none"'))
    own = {one.name: one for one in about.organisations}
    files = make_files().organisations
    rows = np.zeros(60, int)
    for organisation in files.values():
        rows[organisation.rows] += 1
    for name, organisation in files.items():
        assert own[name].rows == len(organisation.rows)
        assert own[name].shared_rows == np.sum(rows[organisation.rows] > 1)
        assert own[name].columns == len(organisation.columns)
        assert own[name].key is None
    assert (about.rows, about.columns, about.features) == (60, 5, 5)
    n_held = sum(
        rows.rows * columns.columns
        for rows in about.row_groups
        for columns in about.column_groups
        if set(rows.holders) & set(columns.holders)
    )
    assert n_held == held().sum()
    assert {n for group in about.column_groups for n in group.names} == {
        f"x{number}" for number in range(5)
    }


def test_a_study_is_identified_by_its_file(tmp_path):
    """The entry has the compared fingerprint and the version."""
    about = about_of(outcome_of(tmp_path, encryption='"none"'))
    content = (tmp_path / "study.toml").read_bytes()
    assert about.fingerprint == study_fingerprint(content)
    assert (about.hyfdca, about.is_rehearsal) == (__version__, True)
    assert about.settings["tol"] == 1e-4
    assert about.settings["profile"] == "sealed"  # a default


def test_public_keys_are_fingerprints(tmp_path):
    """Between machines; a rehearsal uses other keys."""
    files, public = make_files(), Identity.generate().public
    files.organisations["city"].extra = f'public_key = "{public.text}"'
    path = files.write(tmp_path)
    content, file = path.read_bytes(), load(path)
    asked = Asked.of(content, file, is_rehearsal=False)
    assert asked.keys == {"city": public.fingerprint}
    assert not Asked.of(content, file, is_rehearsal=True).keys


def test_how_the_model_is_tested_is_in_it(tmp_path):
    """A reader of the result can compute which rows were set aside."""
    path = make_files(holdout="0.3", salt='"2026"', algorithm='"lbfgs"').write(tmp_path)
    outcome = train_file(path, tmp_path / "out", lambda *_: None)
    about = outcome.result()["about"]
    settings = {"holdout": 0.3, "salt": "2026", "min_bin": 5}
    assert settings.items() <= about["evaluation"].items()
    assert about["algorithm"] == {"name": "lbfgs"}

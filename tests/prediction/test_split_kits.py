"""Predictions of split rows from kits: jobs and commands, without NVFlare."""

from __future__ import annotations

import csv
import errno
import json
import os

import msgspec
import numpy as np
import pytest

from hyfdca.crypto.keys.identity import Identity
from hyfdca.errors import StudyError
from hyfdca.flare.predictions import asking
from hyfdca.flare.predictions import serving as predicting
from hyfdca.kits.key_files import write_identity
from hyfdca.prediction.policy import LOG_FILE
from hyfdca.study import outcome
from tests.model.models import make_model, make_table
from tests.prediction.made_kits import HOLDINGS, Kits
from tests.support.consortia import assert_one_sentence


@pytest.fixture
def kits(tmp_path, monkeypatch):
    """Return kits whose commands run a job instead of NVFlare's processes."""
    made = Kits(tmp_path)

    def run_client(folder, data, tell, study, prepare=lambda: None, leave=None):
        prepare()
        tell("connected")
        made.serve(*(() if study == asking.STUDY else ["nobody"]))

    def run_server(folder, tell, terms, prepare):
        prepare()
        assert terms.study == predicting.STUDY
        made.serve()

    monkeypatch.setattr(asking, "run_client", run_client)
    monkeypatch.setattr(predicting, "run_client", run_client)
    monkeypatch.setattr(predicting, "run_server", run_server)
    return made


def arguments(kits, *more):
    data, out = kits.rows("north"), kits.home / "made.csv"
    kit = kits.home / "north"
    return ("predict", "--kit", kit, "--data", data, "--out", out, *more)


def test_a_table_that_changes_meanwhile_gets_no_scores(kits, hyfdca, monkeypatch):
    """Scores are by row, and the rows have changed."""
    given, serve = arguments(kits), kits.serve

    def change():
        serve()
        table = asking.own_side(kits.home / "north", kits.rows("north"), asks=True)
        kept = table.kept.read("scores")
        other = msgspec.structs.replace(asking._decoder.decode(kept), table=b"another")
        table.kept.write("scores", msgspec.msgpack.encode(other))

    monkeypatch.setattr(kits, "serve", change)
    code, _, errors = hyfdca(*given)
    assert code == 2
    assert "changed during the request for scores; ask again." in errors
    assert not (kits.home / "made.csv").exists()


def test_the_command(kits, hyfdca):
    """Asking writes complete rows, counts the others and compares labels."""
    code, out, _ = hyfdca(*arguments(kits))
    assert code == 0
    assert "rows omitted for lack of features" in out
    assert "accuracy" in out
    with (kits.home / "made.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["r0", "r1", "r2", "r4"]
    margins = kits.model.margins(make_table(kits.cells))[[0, 1, 2, 4], 0]
    made = np.array([float(row["margin"]) for row in rows])
    assert np.abs(made - margins).max() < 1e-12
    # Scores are not left behind.
    assert [p.name for p in (kits.home / "north/state/kept").iterdir()] == ["keys"]


def test_the_limit_holds_from_one_command_to_the_next(kits, hyfdca):
    """The asker's own log refuses first; without it, the holder's does."""
    hyfdca(*arguments(kits))
    code, _, error = hyfdca(*arguments(kits))
    assert code == 2
    assert_one_sentence(error)
    assert "'north' gives 'north' no predictions" in error
    (kits.home / "north" / "log" / LOG_FILE).unlink()
    code, _, error = hyfdca(*arguments(kits))
    assert code == 2
    assert_one_sentence(error)
    assert "'city' gives 'north' no predictions" in error
    [answer] = kits.answered
    assert answer["refusal"] + "\n" == error


def n_counted(kits, name="city"):
    """Return how many requests an organisation has counted."""
    log = kits.home / name / "log" / LOG_FILE
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_labels_are_checked_before_asking(kits, hyfdca):
    """Nobody counts a request whose scores could not be compared with the labels."""
    for name in HOLDINGS:
        kits.write_model(name, make_model("regression", "squared", missing="refuse"))
    for name in ("server", *HOLDINGS):
        path = kits.home / name / "study.toml"
        path.write_text(path.read_text().replace("logistic", "squared"))
    code, _, error = hyfdca(*arguments(kits))
    assert code == 2
    assert_one_sentence(error)
    assert "4 rows have a label that is not a number" in error
    assert error.endswith("not $1,234.50), or leave them blank.\n")
    assert [n_counted(kits, name) for name in HOLDINGS] == [0, 0]


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_scores_are_kept_until_they_are_written(kits, hyfdca, monkeypatch):
    """A full disk costs no scores: the same command writes them without asking."""
    with monkeypatch.context() as patch:
        patch.setattr(outcome, "write_draft", full_disk)
        code, out, error = hyfdca(*arguments(kits))
    assert code == 2
    assert_one_sentence(error)
    assert "The scores are kept" in out
    monkeypatch.setattr(kits, "serve", lambda *_: pytest.fail("asked again"))
    code, out, _ = hyfdca(*arguments(kits))
    assert code == 0
    assert "Using the scores of an earlier request" in out
    assert (kits.home / "made.csv").exists()
    assert n_counted(kits) == 1
    assert [p.name for p in (kits.home / "north/state/kept").iterdir()] == ["keys"]


@pytest.mark.parametrize("changed", ["rows", "model"])
def test_kept_scores_are_of_these_rows_and_this_model(
    kits, hyfdca, monkeypatch, changed
):
    """Scores of other rows or another model are not used."""
    with monkeypatch.context() as patch:
        patch.setattr(outcome, "write_draft", full_disk)
        hyfdca(*arguments(kits))
    for name in HOLDINGS:
        (kits.home / name / "log" / LOG_FILE).unlink()
        if changed == "model":
            kits.write_model(name, make_model(l2=0.3, missing="refuse"))
        else:
            kits.write_rows(name, kits.cells + 1)
    code, out, _ = hyfdca(*arguments(kits))
    assert code == 0
    assert "earlier request" not in out
    assert n_counted(kits) == 1


def test_scores_of_no_use_are_asked_for_again(kits, hyfdca):
    """If no row can be predicted, the next request is a new one."""
    kits.rows("city").write_text("id,y,note,x.y [0]\nr0,no,text,1\n")
    code, _, error = hyfdca(*arguments(kits))
    assert code == 2
    assert "None of the 5 rows can be predicted" in error
    kits.write_rows("city")
    for name in HOLDINGS:
        (kits.home / name / "log" / LOG_FILE).unlink()
    assert hyfdca(*arguments(kits))[0] == 0


@pytest.fixture
def two_askers(kits):
    """Return kits where the second asker's request fails."""
    for name in ("server", *HOLDINGS):
        path = kits.home / name / "study.toml"
        path.write_text(path.read_text().replace("= false", "= true"))
    kits.askers, kits.failing = ("north", "city"), ("north", "consider")
    return kits


def test_scores_stand_if_a_later_request_fails(two_askers, hyfdca):
    """Who was served before has its predictions, and asks nobody again."""
    code, out, _ = hyfdca(*arguments(two_askers))
    assert code == 0
    assert "rows predicted" in out
    assert (two_askers.home / "made.csv").exists()


def test_the_server_says_who_was_served_before_a_failure(two_askers):
    """The failure comes last, and takes nothing back."""
    said = []
    with pytest.raises(StudyError, match="'north' failed in phase 'consider'"):
        predicting.run_prediction_server(two_askers.home / "server", said.append)
    assert said == ["Organisation 'north' received scores of 5 rows."]


def test_a_server_that_cannot_start_tells_nothing_old(kits, monkeypatch):
    """Answers of an earlier command are not those of this one."""
    kits.serve()

    def run_server(*_):
        raise StudyError("Another hyfdca is running.")

    monkeypatch.setattr(predicting, "run_server", run_server)
    said = []
    with pytest.raises(StudyError, match="Another"):
        predicting.run_prediction_server(kits.home / "server", said.append)
    assert said == []


def test_a_job_that_is_run_again_asks_for_nothing_twice(kits, hyfdca, monkeypatch):
    """Its server died after delivering the scores; the limit allows no second try."""
    serve = kits.serve
    monkeypatch.setattr(kits, "serve", lambda: [serve(), serve()])
    code, out, _ = hyfdca(*arguments(kits))
    assert code == 0
    assert "rows predicted" in out
    assert n_counted(kits) == 1
    assert kits.answered == [{"asker": "north", "n_rows": 5, "refusal": ""}]


def test_a_refusal_replaces_no_scores(kits):
    """Not even if the table has changed: holders have counted the scores."""
    kits.serve()
    kits.write_rows("north", kits.cells + 1)
    (kits.home / "north" / "log" / LOG_FILE).unlink()
    kits.serve()
    assert "gives 'north' no predictions" in kits.answered[0]["refusal"]
    side = asking.own_side(kits.home / "north", kits.rows("north"), asks=True)
    assert asking._has_scores(side)


def test_a_command_that_cannot_start_reads_nothing_old(kits, hyfdca, monkeypatch):
    """It says why it cannot start, not how an earlier request was refused."""
    side = asking.own_side(kits.home / "north", kits.rows("north"), asks=True)
    old = asking.AskedOutcome("An old refusal.")
    side.kept.write("scores", msgspec.msgpack.encode(old))

    def run_client(*_):
        raise StudyError("The certificate has expired.")

    monkeypatch.setattr(asking, "run_client", run_client)
    code, _, error = hyfdca(*arguments(kits))
    assert (code, error) == (2, "The certificate has expired.\n")


def test_what_server_and_holders_say(kits):
    """Both commands say who asked for how many rows."""
    said = []
    predicting.run_prediction_server(kits.home / "server", said.append)
    assert said == ["Organisation 'north' received scores of 5 rows."]
    log = (kits.home / "city" / "log" / LOG_FILE).read_text()
    assert json.loads(log)["asked_by"] == "north"
    assert json.loads(log)["rows"] == 5


def test_nobody_asks(kits):
    """If nobody asks, the command says so, and nobody is left waiting."""
    with pytest.raises(StudyError, match="Nobody asked for predictions"):
        predicting.run_prediction_holder(
            kits.home / "city", kits.rows("city"), lambda _: None
        )


def without_model(kits):
    (kits.home / "north" / "out" / "model.json").unlink()


def without_permission(kits):
    for name in ("server", *HOLDINGS):
        path = kits.home / name / "study.toml"
        path.write_text(path.read_text().replace("= true", "= false"))


def other_model(kits):
    kits.write_model("city", make_model(l2=0.3))


def other_study(kits):
    path = kits.home / "city" / "study.toml"
    path.write_text(path.read_text() + "# mine\n")


def missing_cells(kits):
    cells = kits.cells.copy()
    cells[1, 0] = np.nan
    kits.write_rows("north", cells)


def no_columns(kits):
    kits.rows("north").write_text("id,y,note\nr1,yes,text\n")


def damaged_log(kits):
    (kits.home / "north" / "log" / LOG_FILE).write_text("{")


def stranger(kits):
    for path in (kits.home / "north" / "keys").iterdir():
        path.unlink()
    write_identity(Identity.generate(), kits.home / "north" / "keys")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (without_model, "does not exist; train the study first"),
        (without_permission, "does not set may_predict = true"),
        (other_model, "it asks for scores of another model"),
        (other_study, "its study file"),
        (missing_cells, "1 missing cell in rows.csv, but the model accepts none"),
        (no_columns, "has no feature columns"),
        (damaged_log, "is damaged"),
        (stranger, "No organisation of the study 'split' has the public key"),
    ],
)
def test_mistakes_are_one_sentence(kits, hyfdca, spoil, words):
    """Every mistake is one plain sentence, and no file is written."""
    spoil(kits)
    code, _, error = hyfdca(*arguments(kits))
    assert code == 2
    assert_one_sentence(error)
    assert words in error
    assert not (kits.home / "made.csv").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--model", "model.json"], "either --model, or --kit"),
        (["--id-column", "id"], "omit --id-column and --label-column"),
        (["--out", "made.txt"], "ends in .csv or .parquet"),
    ],
)
def test_options_that_do_not_fit(kits, hyfdca, more, words):
    """Options that do not fit together are refused."""
    code, _, error = hyfdca(*arguments(kits, *more))
    assert code == 2
    assert_one_sentence(error)
    assert words in error


def test_neither_model_nor_kit(kits, hyfdca):
    """A prediction needs a model or others to ask."""
    code, _, error = hyfdca("predict", "--data", kits.rows("north"))
    assert code == 2
    assert "either --model, or --kit" in error

"""Study files that hyfdca study new drafts: they train without further edits."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression, Ridge

from hyfdca.maths.seeds import stream
from tests.study.drafting.drafts import (
    FEATURES,
    N_ROWS,
    drafted,
    halves,
    pooled,
    two_parts,
    write,
)
from tests.support.consortia import assert_one_sentence

pytestmark = pytest.mark.usefixtures("no_figure")


def trained(hyfdca, folder):
    """Train the drafted study; return its weights by feature."""
    study = folder / "study.toml"
    quick = '[study]\nencryption = "none"\ntol = 1e-9'
    study.write_text(study.read_text().replace("[study]", quick))
    code, _, errors = hyfdca("train", study, "--out", folder / "out")
    assert (code, errors) == (0, "")
    model = json.loads((folder / "out" / "model.json").read_text())
    return {name: weight[0] for name, weight in model["weights"].items()}


def standardised(frame):
    return (frame - frame.mean()) / frame.std(ddof=0)


def test_a_draft_trains_the_pooled_model(hyfdca, tmp_path):
    """Split columns, labels at one organisation: the weights are scikit-learn's."""
    text, file = drafted(hyfdca, tmp_path, write(tmp_path, two_parts()))
    assert file.study.id_column == "patient"
    assert file.study.label_column == "outcome"
    assert file.study.loss == "logistic"
    assert [client.name for client in file.clients] == ["north", "city"]
    assert [client.label for client in file.clients] == [True, False]
    assert file.study.labels_visible_to_holders
    assert "# Some organisations have no labels." in text
    weights = trained(hyfdca, tmp_path)
    frame = pooled()
    oracle = LogisticRegression(C=1 / (1e-3 * N_ROWS), tol=1e-10, max_iter=10_000)
    oracle.fit(standardised(frame[FEATURES]), frame["outcome"])
    expected = dict(zip(FEATURES, oracle.coef_[0], strict=True))
    assert weights == pytest.approx(expected, rel=1e-3)


def test_numbers_to_predict(hyfdca, tmp_path):
    """A label with fractions is a regression, whose weights are those of Ridge."""
    paths = write(tmp_path, two_parts("cost"))
    _, file = drafted(hyfdca, tmp_path, paths, "--label", "cost")
    assert file.study.loss == "squared"
    weights = trained(hyfdca, tmp_path)
    frame = pooled()
    oracle = Ridge(alpha=1e-3 * N_ROWS / 2)
    oracle.fit(standardised(frame[FEATURES]), frame["cost"])
    expected = dict(zip(FEATURES, oracle.coef_, strict=True))
    assert weights == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_text_with_few_levels_is_a_feature(hyfdca, tmp_path):
    """It is a category, as dates are numbers; the draft says so of each."""
    frames = two_parts()
    frames["north.csv"] = frames["north.csv"].assign(
        ward=["ICU", "emergency", "ICU"] * (N_ROWS // 3), day="2025-11-17"
    )
    text, file = drafted(hyfdca, tmp_path, write(tmp_path, frames))
    assert file.clients[0].ignore == []
    assert "# category, one feature per level: 'ward'." in text
    assert "# date, as days since 2000-01-01: 'day'." in text
    features = {*FEATURES, "ward=emergency", "day"}
    assert set(trained(hyfdca, tmp_path)) == features


def test_text_here_and_numbers_there_is_a_category(hyfdca, tmp_path):
    """Without the key the study would be refused; with it, levels match by name."""
    frames, wards = two_parts(), pd.Series([1, 2, 2] * (N_ROWS // 3))
    as_text = wards.astype(str).astype("category")
    frames["north.csv"] = frames["north.csv"].assign(ward=wards)
    frames["city.parquet"] = frames["city.parquet"].assign(ward=as_text)
    text, file = drafted(hyfdca, tmp_path, write(tmp_path, frames))
    assert file.study.categorical == ["ward"]
    assert "# Text in some tables and not in others: 'ward'." in text
    assert set(trained(hyfdca, tmp_path)) == {*FEATURES, "ward=1"}


def test_stray_columns_are_ignored(hyfdca, tmp_path):
    """Row numbers, remarks and pandas' index are ignored, and the file says why."""
    frames = two_parts()
    frames["north.csv"] = frames["north.csv"].assign(
        nr=range(1, N_ROWS + 1), remark=[f"seen on day {i}" for i in range(N_ROWS)]
    )
    frames["city.parquet"] = frames["city.parquet"].sample(frac=1, random_state=3)
    text, file = drafted(hyfdca, tmp_path, write(tmp_path, frames))
    assert file.clients[0].ignore == ["nr", "remark"]
    assert "'nr', because it numbers the rows." in text
    assert "'remark', because it is text that differs in most rows." in text
    assert "pandas wrote its index there." in text
    assert set(trained(hyfdca, tmp_path)) == set(FEATURES)


def test_blank_cells_and_cells_of_nobody(hyfdca, tmp_path):
    """Blank cells and cells that no table has get their settings."""
    frame = pooled()
    left = frame[["patient", "age", "dose", "outcome"]].copy()
    left.loc[3, "age"] = np.nan
    right = frame[["patient", "weight", "outcome"]].iloc[:45]
    paths = write(tmp_path, {"a.csv": left, "b.csv": right})
    text, file = drafted(hyfdca, tmp_path, paths)
    assert file.study.missing == "mean"
    assert file.study.uncovered == "mean"
    assert "# 8.3% of all cells are in no table" in text  # 15 of 60 rows lack 1 of 3
    trained(hyfdca, tmp_path)


def test_rows_without_a_label_are_not_counted(hyfdca, tmp_path):
    """Cells of rows that have a label in no table are not missed."""
    frame = pooled()
    left = frame[["patient", "age", "outcome"]].iloc[:40].copy()
    left.loc[39, "outcome"] = None
    paths = write(tmp_path, {"a.csv": left, "b.csv": frame[["patient", "pulse"]]})
    text, file = drafted(hyfdca, tmp_path, paths)
    assert file.study.uncovered == "refuse"
    assert "in no table" not in text
    trained(hyfdca, tmp_path)


def test_ids_with_different_names(hyfdca, tmp_path):
    """IDs that tables name differently are found by their values."""
    frames = two_parts()
    frames["city.parquet"] = frames["city.parquet"].rename(columns={"patient": "pid"})
    _, file = drafted(hyfdca, tmp_path, write(tmp_path, frames))
    assert file.study.id_column == "patient"
    assert [client.id_column for client in file.clients] == [None, "pid"]
    trained(hyfdca, tmp_path)


def test_ids_in_the_index_of_pandas(hyfdca, tmp_path):
    """An index with a name is a column of the table."""
    frames = two_parts()
    frames["city.parquet"] = frames["city.parquet"].set_index("patient")
    _, file = drafted(hyfdca, tmp_path, write(tmp_path, frames))
    assert file.study.id_column == "patient"
    assert set(trained(hyfdca, tmp_path)) == set(FEATURES)


def test_ids_keep_leading_zeros(hyfdca, tmp_path):
    """IDs in a CSV are compared as they are written."""
    frame = pooled().assign(patient=[f"{row:04d}" for row in range(N_ROWS)])
    left = frame[["patient", "age", "outcome"]]
    right = frame[["patient", "pulse", "outcome"]]
    paths = write(tmp_path, {"a.csv": left, "b.csv": right})
    text, _ = drafted(hyfdca, tmp_path, paths)
    assert f"{N_ROWS} of its values are in two tables" in text
    trained(hyfdca, tmp_path)


def test_rows_without_ids(hyfdca, tmp_path):
    """LIBSVM files of equally many rows are matched by order, with a warning."""
    frame = pooled()
    paths = [tmp_path / "a.libsvm", tmp_path / "b.libsvm"]
    X = frame[FEATURES].to_numpy() * (stream(1, "zeros").random((N_ROWS, 4)) < 0.6)
    for path in paths:
        dump_svmlight_file(X, frame["outcome"] == "ill", str(path), zero_based=False)
    text, file = drafted(hyfdca, tmp_path, paths)
    assert (file.study.rows, file.study.scale) == ("by order", "maxabs")
    assert "the same line is the same case" in text
    trained(hyfdca, tmp_path)


def test_rows_without_ids_of_different_tables(hyfdca, tmp_path):
    """Tables with different numbers of rows are not matched by order."""
    paths = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for path, n_rows in zip(paths, (10, 20), strict=True):
        np.savez(path, X=np.eye(n_rows), y=np.arange(n_rows) % 2)
    text, file = drafted(hyfdca, tmp_path, paths)
    assert file.study.rows == "by ID"
    assert "have no IDs" in text


def test_paths_are_relative_to_the_file(hyfdca, tmp_path):
    """The file may lie elsewhere; files of one name are two organisations."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    frames = two_parts()
    one = write(tmp_path / "one", {"data.csv": frames["north.csv"]})
    two = write(tmp_path / "two", {"data.parquet": frames["city.parquet"]})
    _, file = drafted(hyfdca, tmp_path / "one", [*one, *two])
    data = [client.data for client in file.clients]
    assert data == ["data.csv", "../two/data.parquet"]
    assert [client.name for client in file.clients] == ["data-1", "data-2"]
    trained(hyfdca, tmp_path / "one")


def test_existing_files_stay(hyfdca, tmp_path):
    """A file is replaced only with --force."""
    paths, out = write(tmp_path, two_parts()), tmp_path / "study.toml"
    out.write_text("mine")
    code, _, errors = hyfdca("study", "new", *paths, "--out", out)
    assert code == 2
    assert_one_sentence(errors)
    assert "--force" in errors
    assert out.read_text() == "mine"
    drafted(hyfdca, tmp_path, paths, "--force")


def without(frames, column, **more):
    """Return tables without a column, and with others."""
    return {
        name: own.drop(columns=column, errors="ignore").assign(**more)
        for name, own in frames.items()
    }


BAD = {
    "no such file": (lambda _: {}, ["missing.csv"], "does not exist"),
    "no such label": (
        dict,
        ["--label", "nothing"],
        "'nothing' that --label-col",
    ),
    "no such ID": (dict, ["--id", "age"], "city.parquet has no column 'age'"),
    "no IDs": (lambda own: without(own, "patient"), [], "No column of north.csv looks"),
    "no label": (
        lambda own: without(own, "outcome"),
        [],
        "name it with --label-column",
    ),
    "two labels": (
        lambda own: without(own, "outcome", u=[0, 1] * 30, v=[0, 1, 1] * 20),
        [],
        "'u', 'v' have two values each; name it with --label-column",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refusals(hyfdca, tmp_path, case):
    """What cannot be guessed or read is one sentence, and nothing is written."""
    change, more, message = BAD[case]
    paths, out = write(tmp_path, change(two_parts())), tmp_path / "study.toml"
    code, _, errors = hyfdca("study", "new", *paths, *more, "--out", out)
    assert code == 2
    assert_one_sentence(errors)
    assert message in errors
    assert not out.exists()


def test_numbers_with_decimal_commas_are_counted_as_numbers(hyfdca, tmp_path):
    """A value is the same in a file with points and in one with commas."""
    values = [0.5 + number for number in range(30)]
    frames = halves(values, values)
    frames = {name: own.astype({"outcome": float}) for name, own in frames.items()}
    frames["north.csv"].to_csv(tmp_path / "north.csv", index=False)
    frames["city.csv"].to_csv(tmp_path / "city.csv", index=False, sep=";", decimal=",")
    paths = [tmp_path / name for name in frames]
    text, file = drafted(hyfdca, tmp_path, paths)
    assert "# The labels have 30 different values: numbers to predict." in text
    assert file.study.loss == "squared"


def test_names_that_would_end_a_comment(hyfdca, tmp_path):
    """Names with line breaks and quotes do no harm to the file."""
    frames = two_parts()
    odd = 'a "b"\nc'
    frames["city.parquet"] = frames["city.parquet"].assign(**{odd: range(N_ROWS)})
    _, file = drafted(hyfdca, tmp_path, write(tmp_path, frames))
    assert file.clients[1].ignore == [odd]


def test_weights_and_offsets_are_pointed_out(hyfdca, tmp_path):
    """Numbers at all label holders whose names say so stay features until confirmed."""
    frame = pooled().rename(columns={"dose": "sample_weight", "pulse": "log_exposure"})
    frame["weight_class"] = "light"
    frame["body_weight"] = frame["age"]
    rows = {"a.csv": frame[:40].drop(columns="weight"), "b.csv": frame[20:]}
    text, file = drafted(hyfdca, tmp_path, write(tmp_path, rows), "--label", "outcome")
    assert "# If 'sample_weight' is how often each row counts and no feature" in text
    assert '# weight_column = "sample_weight"\n' in text
    assert '# offset_column = "log_exposure"\n' in text
    assert "'weight_class' is" not in text  # text
    assert "'body_weight' is" not in text  # of the patient
    assert "'weight' is" not in text  # a lacks it
    assert (file.study.weight_column, file.study.offset_column) == (None, None)


def test_ids_that_lost_their_zeros_are_pointed_out(hyfdca, tmp_path):
    """A draft says which tables were meant to share more rows, and why they do not."""
    frame = pooled()
    frame["patient"] = [f"{row + 1:03d}" for row in range(N_ROWS)]
    lost = frame[30:].assign(patient=[str(row + 1) for row in range(30, N_ROWS)])
    paths = write(tmp_path, {"a.csv": frame, "b.csv": lost, "c.csv": frame[40:]})
    text, _ = drafted(hyfdca, tmp_path, paths, "--label", "outcome", "--id", "patient")
    assert (
        "# a.csv and b.csv share 0 IDs, and 30 more that differ only in leading "
        "zeros: write them alike.\n" in text
    )
    assert "a.csv and c.csv share" not in text

"""What newcomers' tables had: commas in labels, badly written dates, spellings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from hyfdca import HyFDCAClassifier, HyFDCARegressor
from hyfdca.errors import StudyError
from hyfdca.maths.seeds import stream
from hyfdca.model.model import read_model
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train

pytestmark = pytest.mark.usefixtures("no_figure")

N_ROWS = 60


def frame():
    random = stream(3, "newcomers")
    age = random.normal(50.0, 10.0, N_ROWS)
    return pd.DataFrame(
        {
            "id": [f"P{row:03d}" for row in range(N_ROWS)],
            "age": age,
            "cost": 15_000.5 + 100.25 * age + random.normal(0.0, 50.0, N_ROWS),
            "code": random.choice(["007", "12", "31"], N_ROWS),
            "seen": [f"2024-{1 + row % 12:02d}-1{row % 9}" for row in range(N_ROWS)],
            "y": random.choice(["yes", "no"], N_ROWS),
        }
    )


def study(folder, table, label, writing=None, **settings):
    """Write one organisation's table and its study; return the study's path."""
    table.to_csv(folder / "a.csv", index=False, **(writing or {}))
    given = {"name": '"n"', "encryption": '"none"', "id_column": '"id"', **settings}
    given["label_column"] = f'"{label}"'
    lines = ["[study]", *(f"{key} = {value}" for key, value in given.items())]
    path = folder / "study.toml"
    lines += ["[[clients]]", 'name = "a"', 'data = "a.csv"']
    path.write_text("\n".join(lines) + "\n")
    return path


def outcome_of(path):
    return train(prepare(load(path), path.parent), lambda *_: None)


def test_labels_with_decimal_commas(tmp_path):
    """A target is read with the decimal comma that the file's features have."""
    table = frame()[["id", "age", "cost"]]
    given = {"loss": '"half_squared"', "scale": '"standard"', "tol": "1e-8"}
    path = study(tmp_path, table, "cost", {"sep": ";", "decimal": ","}, **given)
    model = outcome_of(path).model()
    X = (table[["age"]] - table["age"].mean()) / table["age"].std(ddof=0)
    ridge = Ridge(alpha=1e-3 * N_ROWS).fit(X, table["cost"])
    assert model.weights["age"][0] == pytest.approx(ridge.coef_[0], rel=1e-4)
    assert model.intercept[0] == pytest.approx(ridge.intercept_, rel=1e-6)


def test_classes_with_decimal_commas(tmp_path):
    """1,0 and 0,0 are the classes 1 and 0."""
    table = frame()[["id", "age"]].assign(y=[row % 2 for row in range(N_ROWS)])
    table["y"] = table["y"].astype(float)
    path = study(tmp_path, table, "y", {"sep": ";", "decimal": ","})
    assert prepare(load(path), tmp_path).consortium.classes == ("0", "1")


@pytest.mark.parametrize("wrong", ["31.12.2023", "12/31/2023", "soon"])
@pytest.mark.parametrize("rows", [slice(0, 1), slice(None)])
def test_dates_that_are_written_badly(tmp_path, wrong, rows):
    """One bad date, or all of them, are refused instead of becoming a category."""
    if wrong == "soon" and rows == slice(None):
        return  # a text like any other
    table = frame()[["id", "age", "seen", "y"]]
    table.loc[table.index[rows], "seen"] = wrong
    count = r" as in 2024-12-31 \(1 is not\);" if rows.stop == 1 else ""
    with pytest.raises(StudyError, match=f"like dates, but not all cells are.*{count}"):
        prepare(load(study(tmp_path, table, "y")), tmp_path)
    named = study(tmp_path, table, "y", categorical='["seen"]')
    assert "seen" in prepare(load(named), tmp_path).consortium.levels.entries


@pytest.mark.parametrize(
    ("written", "mark"),
    [
        ("{} mmol/l", "a unit"),
        ("{}mg", "a unit"),
        ("{},5 \u00b0C", "a unit"),
        ("\u2212{}", "minus signs that are not hyphens"),
        ("{} W", "a unit"),
        ("{}B", None),
        ("ward {}", None),
    ],
)
def test_numbers_with_units_are_no_categories(tmp_path, written, mark):
    """Each would be a rare level, and the column would be lost; codes are levels."""
    table = frame()[["id", "age", "y"]]
    table["dose"] = [written.format(30 + row) for row in range(N_ROWS)]
    path = study(tmp_path, table, "y")
    if mark is None:
        assert "dose" in prepare(load(path), tmp_path).consortium.levels.entries
        return
    with pytest.raises(StudyError, match=f"look like numbers, but with .*{mark}"):
        prepare(load(path), tmp_path)
    named = study(tmp_path, table, "y", categorical='["dose"]')
    assert "dose" in prepare(load(named), tmp_path).consortium.levels.entries


def test_dates_as_text_in_parquet(tmp_path):
    """They are dates, as in a CSV file; blank cells stay blank."""
    table = frame()[["id", "age", "seen", "y"]]
    table.loc[3, "seen"] = ""
    path = study(tmp_path, table, "y", missing='"mean"', tol="1e-6")
    model = outcome_of(path).model()
    table.to_parquet(tmp_path / "a.parquet", index=False)
    path.write_text(path.read_text().replace("a.csv", "a.parquet"))
    assert outcome_of(path).model().weights == model.weights


def test_classes_that_differ_in_capitals(tmp_path):
    """A label with other capitals is not a new class."""
    table = frame()[["id", "age", "y"]]
    table.loc[0, "y"] = "Yes"
    with pytest.raises(StudyError, match="differ only in capitals or blanks"):
        prepare(load(study(tmp_path, table, "y")), tmp_path)


def test_levels_of_whole_numbers(tmp_path):
    """1 and 1.0 are one level, as pandas writes whole numbers beside blank cells."""
    table = frame()[["id", "age", "y"]]
    table["ward"] = ["1" if row % 2 else "1.0" for row in range(30)] + ["2.0"] * 30
    path = study(tmp_path, table, "y", categorical='["ward"]')
    [entry] = prepare(load(path), tmp_path).consortium.levels.entries.values()
    assert {entry.reference, *entry.levels} == {"1", "2"}


def test_labels_beyond_all_bounds(tmp_path):
    """A huge target yields one sentence."""
    table = frame()[["id", "age", "cost"]]
    table.loc[0, "cost"] = 1e120
    path = study(tmp_path, table, "cost", loss='"squared"')
    with pytest.raises(StudyError, match="beyond 1e50"):
        prepare(load(path), tmp_path)


def test_frames_as_read_csv_leaves_them(tmp_path):
    """Dates as text are dates; codes that became numbers are unknown, and said."""
    table = frame()[["id", "age", "code", "seen", "y"]]
    path = study(tmp_path, table, "y", categorical='["code"]', scale='"standard"')
    outcome = outcome_of(path)
    outcome.write(tmp_path / "out")
    model = HyFDCAClassifier.from_model(tmp_path / "out" / "model.json")
    data = tmp_path / "a.csv"
    margins = model.decision_function(pd.read_csv(data, dtype={"code": str}))
    own = outcome.run.margins(outcome.weights)[:, 0]
    np.testing.assert_allclose(margins, own, rtol=1e-9, atol=1e-9)
    with pytest.warns(UserWarning, match="levels that the model does not know"):
        model.decision_function(pd.read_csv(data))


def test_exported_regressions_name_their_scale(tmp_path):
    """A model file from an estimator says in which units its certificate is."""
    table = frame()
    model = HyFDCARegressor(random_state=0).fit(table[["age"]], table["cost"])
    model.to_model().save(tmp_path / "model.json")
    training = read_model(tmp_path / "model.json").file.training
    assert training.target_centre == pytest.approx(table["cost"].mean())
    assert training.target_scale == pytest.approx(table["cost"].std(ddof=0))

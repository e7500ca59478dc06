"""Columns of IDs in drafts: guessed, given by table, and what is wrong with them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hyfdca.maths.seeds import stream
from hyfdca.study.file import load
from tests.support.consortia import assert_one_sentence

N_ROWS = 60
NUMBERS = [f"0{row:03d}" for row in range(100, 100 + N_ROWS)]


def tables():
    """Return three organisations that name their IDs differently."""
    random = stream(6, "drafted IDs")
    age, income = random.normal(size=(2, N_ROWS))
    outcome = np.where(age > 0, "ill", "well")
    return {
        "bank.csv": pd.DataFrame({"customer": NUMBERS, "income": income}),
        "north.csv": pd.DataFrame({"patient": NUMBERS, "age": age, "outcome": outcome}),
        "town.csv": pd.DataFrame({"citizen": NUMBERS, "rent": income + age}),
    }


def drafted(hyfdca, folder, frames, *options):
    """Draft a study; return the exit code and the errors."""
    paths = [folder / name for name in frames]
    for path, frame in zip(paths, frames.values(), strict=True):
        frame.to_csv(path, index=False)
    study = folder / "study.toml"
    code, _, errors = hyfdca("study", "new", *paths, "--out", study, *options)
    return code, errors


def columns_of(folder):
    file = load(folder / "study.toml")
    return [client.id_column or file.study.id_column for client in file.clients]


def refused(hyfdca, folder, frames, *options):
    code, errors = drafted(hyfdca, folder, frames, *options)
    assert code == 2
    assert_one_sentence(errors)
    assert not (folder / "study.toml").exists()
    return errors


@pytest.mark.parametrize("odd", ["bank.csv", "north.csv", "town.csv"])
def test_the_odd_table_is_named(hyfdca, tmp_path, odd):
    """It is named at any place; the sentence says what its IDs lost."""
    frames = tables()
    name = frames[odd].columns[0]
    frames[odd][name] = frames[odd][name].astype(int)
    errors = refused(hyfdca, tmp_path, frames)
    assert errors.startswith(f"No column of {odd} shares values with the IDs of")
    assert f"60 values of {name!r} are those of" in errors
    assert "except for leading zeros" in errors
    assert f"--id-column {odd}=COLUMN" in errors


def test_ids_in_no_common_form(hyfdca, tmp_path):
    """One table's IDs have a prefix."""
    frames = tables()
    frames["town.csv"]["citizen"] = "DE-" + frames["town.csv"]["citizen"]
    errors = refused(hyfdca, tmp_path, frames)
    assert "No column of town.csv shares" in errors
    assert "(its columns that may be IDs: 'citizen')" in errors


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "('citizen' is blank in 1 row); give each row an ID,"),
        (NUMBERS[5], "('citizen' repeats in 1 row); keep one row per ID,"),
    ],
)
def test_blank_and_repeated_ids(hyfdca, tmp_path, value, said):
    """The advice is that of training."""
    frames = tables()
    frames["town.csv"].loc[0, "citizen"] = value
    assert said in refused(hyfdca, tmp_path, frames)


def test_ids_by_table(hyfdca, tmp_path):
    """Given for one table, guessed for others; or one name for the rest."""
    frames = tables()
    frames["bank.csv"]["account"] = [f"A{row}" for row in range(N_ROWS)]
    code, errors = drafted(hyfdca, tmp_path, frames, "--id", "bank.csv=customer")
    assert (code, errors) == (0, "")
    assert columns_of(tmp_path) == ["customer", "patient", "citizen"]
    frames["town.csv"] = frames["town.csv"].rename(columns={"citizen": "patient"})
    path = f"{tmp_path / 'bank.csv'}=customer"
    options = ("--id", "patient", "--id", path, "--force")
    code, errors = drafted(hyfdca, tmp_path, frames, *options)
    assert (code, errors) == (0, "")
    assert columns_of(tmp_path) == ["customer", "patient", "patient"]


def test_a_given_column_decides_the_others(hyfdca, tmp_path):
    """The column that shares values with the one given is chosen."""
    frames = tables()
    codes = [f"K{row}" for row in range(N_ROWS)]
    frames["bank.csv"].insert(1, "code", codes[:50] + [f"Q{row}" for row in range(10)])
    frames["town.csv"].insert(1, "code2", codes)
    frames["north.csv"].insert(1, "code3", codes)
    code, errors = drafted(hyfdca, tmp_path, frames, "--id", "bank.csv=code")
    assert (code, errors) == (0, "")
    assert columns_of(tmp_path) == ["code", "code3", "code2"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("bank.csv=costumer",),
            "bank.csv has no column 'costumer', which --id-column names",
        ),
        (
            ("customer",),
            "name the column of this table with --id-column north.csv=COLUMN",
        ),
        (
            ("customer", "patient"),
            "Several names are given with --id-column for all tables",
        ),
        (("shop.csv=customer",), "No table has the column 'shop.csv=customer'"),
    ],
)
def test_wrong_options(hyfdca, tmp_path, options, said):
    """Each gets one sentence."""
    given = [part for option in options for part in ("--id-column", option)]
    assert said in refused(hyfdca, tmp_path, tables(), *given)

"""Studies with blank labels: the model of the pooled table."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hyfdca.crypto.schemes.registry import SCHEMES
from hyfdca.errors import StudyError
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.local.training import train_file
from tests.support.consortia import (
    N_ROWS,
    NAMES,
    Files,
    Organisation,
    extra,
    make_files,
    scores,
)
from tests.support.durable_runs import Consortium, numbers, undisturbed
from tests.support.labelled_files import (
    PLAIN,
    VISIBLE,
    add_column,
    blank,
    offset,
    partly_blank,
    remove,
    run_of,
    trained,
    weight,
)

pytestmark = pytest.mark.usefixtures("no_figure")
NOBODY = [3, 25, 44, 58]  # rows whose label nobody has


def four_files(n_clients, **settings):
    """Return organisations with all rows and some columns; only one has each label."""
    labels = ["ill" if s > 0 else "well" for s in scores()]
    settings = {**PLAIN, **VISIBLE, **settings}
    names = ["east", "west", "north", "south"][:n_clients]
    files = make_files(**settings)
    files.organisations = {
        name: Organisation(list(range(N_ROWS)), NAMES[k : k + 2], labels)
        for k, name in enumerate(names)
    }
    return files


# Labels that are blank here and known there


@pytest.mark.parametrize("settings", [{}, {"algorithm": '"hyfdca"'}], ids=str)
def test_blank_here_and_known_there(settings, tmp_path):
    """The run is that of complete labels, bit for bit."""
    complete = make_files(**PLAIN, **VISIBLE, **settings)
    expected = trained(complete, tmp_path / "complete")
    found = trained(partly_blank(**settings), tmp_path / "blank")
    assert found.weights.tobytes() == expected.weights.tobytes()
    assert found.certificate == expected.certificate
    assert found.result()["rows_without_label"] == 0


@pytest.mark.parametrize("n_clients", [2, 3, 4])
def test_one_holder_knows_each_label(n_clients, tmp_path):
    """One holder that knows the label suffices for any number of holders."""
    expected = trained(four_files(n_clients), tmp_path / "complete")
    files = four_files(n_clients)
    for k, name in enumerate(files.organisations):
        others = [row for row in range(N_ROWS) if row % (n_clients - 1) != k - 1]
        blank(files, others if k else range(N_ROWS), name)  # the first knows none
    found = trained(files, tmp_path / "blank")
    assert found.weights.tobytes() == expected.weights.tobytes()


@pytest.mark.parametrize("encryption", ["stream", "bfv"])
def test_sealed_labels_and_weights(encryption, tmp_path):
    """Encrypted runs equal unencrypted ones, bit for bit."""
    found = []
    for scheme in ("none", encryption):
        files = partly_blank(encryption=f'"{scheme}"', class_weight='"balanced"')
        add_column(files, "weight_column", "w", weight)
        run = run_of(files, tmp_path)
        found.append((run, run.training.finish()))
    (plain, expected), (sealed, weights) = found
    assert weights.tobytes() == expected.tobytes()
    assert sealed.sample_weights().tobytes() == plain.sample_weights().tobytes()
    assert encryption in SCHEMES


def test_without_consent_nobody_learns_a_label(tmp_path):
    """The refusal names organisations, counts and the setting."""
    files = partly_blank(labels_visible_to_holders="false")
    with pytest.raises(StudyError, match="10 rows of 'north', 20 rows of 'city' and"):
        run_of(files, tmp_path)


# Rows that nobody knows


def test_rows_that_nobody_labels_are_left_out(tmp_path):
    """It is the run of tables without these rows, and they are counted."""
    expected = trained(remove(make_files(**PLAIN), NOBODY), tmp_path / "without")
    found = trained(blank(make_files(**PLAIN), NOBODY), tmp_path / "blank")
    assert found.weights.tobytes() == expected.weights.tobytes()
    assert found.result()["rows_without_label"] == len(NOBODY)
    assert found.run.consortium.partition.n_samples == N_ROWS - len(NOBODY)
    assert found.result()["accuracy"] == expected.result()["accuracy"]


def test_rows_of_organisations_without_labels(tmp_path):
    """Rows that only they hold have no label anywhere."""
    files = make_files(**PLAIN, **VISIBLE)
    extra("city", "label = false")(files)
    path = files.write(tmp_path)
    train_file(path, tmp_path / "out", lambda *_: None)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["rows_without_label"] == 10
    assert result["rows_of_weight_zero"] == 0


def test_rows_of_weight_0_are_left_out(tmp_path):
    """They are as if they were not there, whatever their label and cells."""

    def without(row):
        return 0.0 if row in NOBODY else weight(row)

    files = add_column(make_files(**PLAIN), "weight_column", "w", without)
    for own in files.organisations.values():
        own.table["y"] = [
            "neither" if row in NOBODY else label
            for row, label in zip(own.rows, own.table["y"], strict=True)
        ]
    expected = remove(make_files(**PLAIN), NOBODY)
    expected = trained(
        add_column(expected, "weight_column", "w", weight), tmp_path / "without"
    )
    found = trained(files, tmp_path / "zero")
    assert found.weights.tobytes() == expected.weights.tobytes()
    assert found.result()["rows_of_weight_zero"] == len(NOBODY)
    assert found.run.consortium.classes == ("ill", "well")


def test_own_names_of_columns(tmp_path):
    """An organisation may have its own names for weights and offsets."""
    files = make_files(**PLAIN)
    add_column(files, "weight_column", "w", weight)
    add_column(files, "offset_column", "o", offset)
    expected = run_of(files, tmp_path / "same")
    city = files.organisations["city"]
    city.table["mass"], city.table["start"] = city.table.pop("w"), city.table.pop("o")
    city.extra = 'weight_column = "mass"\noffset_column = "start"'
    found = run_of(files, tmp_path / "own")
    assert found.consortium.features == expected.consortium.features
    assert found.sample_weights().tobytes() == expected.sample_weights().tobytes()
    assert found.offsets().tobytes() == expected.offsets().tobytes()


def test_columns_of_numbered_tables(tmp_path):
    """In a table without column names, a numbered column may be the weight."""
    random = np.arange(30.0).reshape(10, 3) % 7
    arrays = {"X": random, "y": np.arange(10) % 2, "ids": np.arange(10)}
    np.savez(tmp_path / "a.npz", **arrays)
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "n"\nencryption = "none"\nweight_column = "f1"\n'
        '[[clients]]\nname = "a"\ndata = "a.npz"\n'
    )
    run = prepare(load(tmp_path / "study.toml"), tmp_path)
    assert run.consortium.features == ("f0", "f2")
    weights = random[random[:, 1] > 0, 1]
    found = run.sample_weights()[:, 0]
    np.testing.assert_allclose(found, weights * len(weights) / weights.sum())
    assert run.consortium.alignment.n_without_weight == np.sum(random[:, 1] == 0)
    study = (tmp_path / "study.toml").read_text().replace('"f1"', '"w"')
    (tmp_path / "study.toml").write_text(study)
    with pytest.raises(StudyError, match=r"'a': a.npz has no column 'w'"):
        prepare(load(tmp_path / "study.toml"), tmp_path)


# Restarts


@pytest.mark.parametrize("encryption", ["none", "stream"])
def test_a_restart_repeats_the_labels(encryption, tmp_path):
    """Members and server that start again have the same labels and weights."""
    files: Files = partly_blank(encryption=f'"{encryption}"')
    add_column(files, "weight_column", "w", weight).write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=2)
    for rank in range(3):
        consortium.network.restart(rank)
    runner, found = consortium.train()
    assert found.tobytes() == weights.tobytes()
    assert numbers(runner.history) == numbers(expected.history)

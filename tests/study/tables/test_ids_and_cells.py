"""Studies whose tables have other IDs than was meant, or cells that were rounded."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.consortia import assert_one_sentence, make_files, scores
from tests.support.durable_runs import Consortium, numbers, undisturbed
from tests.support.labelled_files import add_column

pytestmark = pytest.mark.usefixtures("no_figure")

ENCRYPTIONS = ["none", "stream"]
SHARED = {*range(20, 40), *range(50, 60)}  # rows of city that others hold too


def written(files, folder, name, change):
    """Write the study, with the IDs of one organisation changed."""
    ids = files.organisations[name].table["id"]
    ids[:] = [change(place, own) for place, own in enumerate(ids)]
    return files.write(folder)


def numbered(files):
    """Number the IDs of all organisations, with leading zeros."""
    for organisation in files.organisations.values():
        organisation.table["id"] = [f"{row + 1:04d}" for row in organisation.rows]
    return files


CASES = {
    "leading zeros": lambda _, own: own.lstrip("0"),
    "half of the zeros": lambda i, own: own if i % 2 else own.lstrip("0"),
    "zeros after a decimal point": lambda _, own: f"{own}.0",
    "blanks or punctuation": lambda _, own: f"{own[:2]} {own[2:]}",
}


@pytest.mark.parametrize("encryption", ENCRYPTIONS)
@pytest.mark.parametrize("case", CASES)
def test_ids_that_were_meant_to_match(hyfdca, tmp_path, case, encryption):
    """The sentence names both organisations, the counts and what the IDs differ in."""
    files = numbered(make_files(encryption=f'"{encryption}"'))
    path = written(files, tmp_path, "city", CASES[case])
    code, _, errors = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 2
    assert_one_sentence(errors)
    assert "'north' and 'city' share" in errors
    reason = "leading zeros" if case.startswith("half") else case
    assert f"differ only in {reason}" in errors
    assert 'similar_ids = "allow"' in errors
    assert "allow_unshared" not in errors
    assert not (tmp_path / "out").exists()


def test_similar_ids_may_be_allowed(hyfdca, tmp_path):
    """A study that allows them trains on more rows, and says who shares few."""
    files = numbered(make_files(similar_ids='"allow"', encryption='"none"'))
    change = CASES["half of the zeros"]
    path = written(files, tmp_path, "city", change)
    code, output, _ = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 0
    assert "city and coast share 5 of 20 rows." in output


@pytest.mark.parametrize("encryption", ENCRYPTIONS)
def test_single_and_double_precision(hyfdca, tmp_path, encryption):
    """The same cells in single precision at one organisation make the same study."""
    models = []
    for kind in (np.float64, np.float32):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        files = make_files(encryption=f'"{encryption}"')
        table = files.organisations["city"].table
        table["x2"] = [repr(float(kind(cell))) for cell in table["x2"]]
        path = files.write(folder)
        code, *_ = hyfdca("train", path, "--out", folder / "out")
        assert code == 0
        weights = json.loads((folder / "out" / "model.json").read_bytes())["weights"]
        models.append(np.array([weights[name] for name in sorted(weights)]))
    np.testing.assert_allclose(*models, rtol=1e-4)


def test_the_first_holder_counts(hyfdca, tmp_path):
    """Where all cells of a column are held twice, the first holder's alone count."""
    models = []
    for factor in (1.0, 1.0 + 1e-7):
        folder = tmp_path / f"{factor}"
        folder.mkdir()
        files = make_files(encryption='"none"')
        table = files.organisations["coast"].table
        shared = range(10)  # rows of north, which is listed first
        for name in ("x0", "x1"):
            table[name][:10] = [float(table[name][i]) * factor for i in shared]
        hyfdca("train", files.write(folder), "--out", folder / "out")
        models.append((folder / "out" / "model.json").read_bytes())
    assert models[0] == models[1]


def with_targets(**settings):
    """Return a regression with weights and offsets that take double precision."""
    files = make_files(labels=scores().tolist(), loss='"squared"', **settings)
    add_column(files, "weight_column", "w", lambda row: 1.1 + row / 7)
    return add_column(files, "offset_column", "o", lambda row: row / 300)


def in_single(files, column, rows, *names):
    """Write a column in single precision in some rows of some organisations."""
    for name in names:
        own = files.organisations[name]
        own.table[column] = [
            repr(float(np.float32(cell) if row in rows else np.float64(cell)))
            for row, cell in zip(own.rows, own.table[column], strict=True)
        ]
    return files


@pytest.mark.parametrize("column", ["y", "w", "o"])
def test_targets_in_single_precision(hyfdca, tmp_path, column):
    """If a holder has a number in single precision, so have all holders of its row."""
    alone, everywhere = (
        in_single(with_targets(), column, range(20, 60), "city") for _ in range(2)
    )
    for every in ("y", "w", "o"):
        in_single(everywhere, every, SHARED, *everywhere.organisations)
    models = []
    for number, files in enumerate((alone, everywhere)):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        code, *_ = hyfdca("train", files.write(folder), "--out", folder / "out")
        assert code == 0
        models.append((folder / "out" / "model.json").read_bytes())
    assert models[0] == models[1]


def test_targets_without_a_tolerance(hyfdca, tmp_path):
    """A tolerance of zero compares them exactly; the sentence names it."""
    files = in_single(with_targets(cell_tolerance="0.0"), "y", range(60), "city")
    code, _, errors = hyfdca("train", files.write(tmp_path), "--out", tmp_path / "out")
    assert code == 2
    assert_one_sentence(errors)
    assert "different labels (label_column 'y') for rows that they share" in errors
    assert "raise cell_tolerance (now 0) if numbers are only rounded" in errors


def test_without_a_tolerance(hyfdca, tmp_path):
    """A tolerance of zero compares cells exactly."""
    files = make_files(encryption='"none"', cell_tolerance="0.0")
    table = files.organisations["city"].table
    table["x2"] = [repr(float(np.float32(cell))) for cell in table["x2"]]
    code, _, errors = hyfdca("train", files.write(tmp_path), "--out", tmp_path / "out")
    assert code == 2
    assert_one_sentence(errors)
    assert "'north' and 'city' in 20 rows" in errors
    assert "cell_tolerance" in errors


def test_rounded_cells_survive_restarts(tmp_path):
    """Requests with hints or rounded weights are replayed after a restart alike."""
    files = make_files(encryption='"none"')
    table = files.organisations["city"].table
    table["x2"] = [repr(float(np.float32(cell))) for cell in table["x2"]]
    add_column(files, "weight_column", "w", lambda row: 1.1 + row / 7)
    in_single(files, "w", range(60), "city").write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(2)
    for rank in range(3):
        consortium.network.restart(rank)
    rounds, found = consortium.train()
    np.testing.assert_array_equal(found, weights)
    assert numbers(rounds.history) == numbers(expected.history)

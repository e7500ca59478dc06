"""Tables and notes that commands print, from results made by hand."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hyfdca.cli.displays.run import results_table
from hyfdca.study.local.training import train_file
from tests.support.consortia import make_files
from tests.support.labelled_files import add_column


def shown(table):
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    return " ".join(console.file.getvalue().split())


@pytest.fixture(scope="module")
def result(tmp_path_factory, no_figure):
    """Return the result of a study with weights."""
    folder = tmp_path_factory.mktemp("study")
    files = make_files(encryption='"stream"', tol="1e-2")
    add_column(files, "weight_column", "w", lambda row: 1 + row % 2)
    return train_file(files.write(folder), folder / "out", lambda *_: None).result()


def test_a_second_scheme_is_explained(result):
    """It is in the same table, with a warning if there is one."""
    mixed = result | {"encryption": "bfv", "sealed_with": {"samples": "stream"}}
    found = shown(results_table("x", mixed))
    assert "Short vectors are sealed with stream, which needs fewer bytes" in found
    assert 'small_vectors = "same" uses bfv for all.' in found
    assert "Short vectors" not in shown(results_table("x", result))
    both = shown(results_table("x", mixed | {"warning": "Not converged: [1]."}))
    assert "Not converged: [1]. Short vectors" in both


def test_weighted_accuracies_say_so(result):
    """That of a file to predict is not weighted."""
    assert "accuracy on the training rows, weighted" in shown(
        results_table("x", result)
    )

"""The audit of every algorithm: what the server sees is what it may see."""

from __future__ import annotations

import pytest

from hyfdca.algorithms.registry import ALGORITHMS
from tests.audit.audits import GRID, HORIZONTAL, THREE, audited

pytestmark = pytest.mark.usefixtures("no_figure")

SPLITS = {"rows": HORIZONTAL, "columns": THREE, "rows or columns": THREE}


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_recorded_run_has_no_complaints(name, profile, tmp_path):
    """Every message is read, and every vector is sealed as its value demands."""
    audit = audited(
        tmp_path,
        SPLITS.get(ALGORITHMS[name]().needs.split, GRID),
        algorithm=f'"{name}"',
        loss='"logistic"',
        max_rounds="2",
        encryption='"stream"',
        profile=f'"{profile}"',
    )
    assert audit.complaints == []
    assert audit.seen


@pytest.mark.parametrize("encryption", ["stream", "bfv"])
def test_recorded_curves_have_no_complaints(encryption, tmp_path):
    """Their points are read between rounds, and scores are counted and said."""
    audit = audited(
        tmp_path,
        GRID,
        loss='"logistic"',
        max_rounds="4",
        tol="0.0",
        holdout="0.3",
        curves="2",
        min_bin="1",
        encryption=f'"{encryption}"',
    )
    assert audit.complaints == []
    assert max(audit.n_scores) == 3  # two points, and the evaluation
    assert "held-out scores" in {sighting.value for sighting in audit.seen}
    assert any("scores per row set aside" in line for line in audit.exposed())


@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_a_recorded_path_has_no_complaints(profile, tmp_path):
    """Its points, folds and fits are read, and their margins are counted."""
    audit = audited(
        tmp_path,
        GRID,
        l2="[1.0, 0.1]",
        folds="2",
        loss='"logistic"',
        max_rounds="4",
        encryption='"stream"',
        profile=f'"{profile}"',
    )
    assert audit.complaints == []
    values = {sighting.value for sighting in audit.seen}
    assert {"fold weights", "fold shares"} <= values
    assert max(audit.n_margins) > 4

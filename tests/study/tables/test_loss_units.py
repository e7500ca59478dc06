"""The parameter of a regression's loss is in deviations of the target, and says so."""

from __future__ import annotations

import pytest

from hyfdca.report.card import card_of
from hyfdca.report.result_files import read_result_folder
from hyfdca.report.sections.asked import asked
from tests.study.tables.test_scaled_targets import DOLLARS, outcome_of
from tests.support.labelled_files import add_column


def with_offsets(files):
    return add_column(files, "offset_column", "o", lambda row: 1e4 * (row % 5))


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_parameter_in_dollars(tmp_path, loss):
    """A study that has nothing to train ends at once and says why, with offsets too."""
    given = {"loss": f'"{loss}"', "loss_parameter": "500.0", "max_rounds": "3"}
    outcome = outcome_of(tmp_path, prepare_files=with_offsets, **given)
    assert outcome.ending.is_converged
    assert outcome.n_rounds == 0
    notes = " ".join(outcome.summary().notes)
    assert "nothing to train" in notes
    assert f"by its deviation, {DOLLARS.std():.4g}" in notes


def test_parameter_in_both_units(tmp_path):
    """A usual parameter is printed in units of the target, without a warning."""
    outcome = outcome_of(tmp_path, loss='"huber"')
    (note,) = outcome.result()["loss_notes"]
    in_units = f"{1.35 * DOLLARS.std():,.4g}"
    assert f"loss_parameter 1.35 = {in_units} in units of 'y'" in note
    outcome.write(tmp_path / "result")
    card = card_of(read_result_folder(tmp_path / "result"))
    assert "with the huber loss" in card.summary
    assert in_units in str(asked(card).content)


def test_targets_in_their_own_units(tmp_path):
    """Without scaling, a large parameter is what was meant."""
    given = {"loss": '"huber"', "loss_parameter": "500.0", "scale_target": "false"}
    assert outcome_of(tmp_path, **given).result()["loss_notes"] == []

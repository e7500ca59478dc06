"""λ by validation accuracy of the central model."""

from __future__ import annotations

import pytest

from hyfdca.reproduction import central
from hyfdca.reproduction.central import (
    L2_TRIED,
    CentralFit,
    central_fits,
    central_models,
    chosen_l2,
)
from hyfdca.reproduction.paper import DATA_SETS
from hyfdca.reproduction.problems import Choices
from tests.reproduction.small_problem import problem


def fits(*pairs):
    """Return models with these λ and accuracies."""
    return [CentralFit(l2, 1.0, 1.0, accuracy) for l2, accuracy in pairs]


@pytest.mark.parametrize(
    ("accuracies", "published", "chosen"),
    [
        # The standard error of 0.9 is 0.003 with 10,000 rows.
        (((1e-2, 0.80), (1e-3, 0.90), (1e-4, 0.85)), 1e-5, 1e-3),
        (((1e-2, 0.80), (1e-3, 0.90), (1e-4, 0.898)), 1e-4, 1e-4),  # as good, published
        (((1e-2, 0.80), (1e-3, 0.90), (1e-4, 0.890)), 1e-4, 1e-3),  # worse
        (((1e-2, 0.899), (1e-3, 0.90), (1e-4, 0.85)), 1e-5, 1e-2),  # the largest
    ],
)
def test_choosing(accuracies, published, chosen):
    """The choices are those found by hand."""
    assert chosen_l2(fits(*accuracies), 10_000, published) == chosen


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_paper_s_are_among_those_tried(name):
    """Otherwise they could never be chosen."""
    assert min(abs(l2 / DATA_SETS[name].l2 - 1.0) for l2 in L2_TRIED) < 1e-9


def test_accuracies_are_those_of_the_models():
    """The first λ is far too large; later ones are better on the validation rows."""
    found = list(central_fits(problem()))
    assert [fit.l2 for fit in found] == list(L2_TRIED[: len(found)])
    assert all(fit.dual <= fit.primal for fit in found)
    assert max(fit.accuracy for fit in found) > 0.7


def test_what_is_known_of_a_data_set_is_kept(monkeypatch, tmp_path):
    """Optima at both λ, and the facts; the second time nothing is solved."""
    monkeypatch.setattr(central, "held_problem", lambda *_: problem(5e-5))
    first = central_models("covtype", Choices(), "validation", tmp_path)
    assert first.l2 in L2_TRIED
    assert first.optimum.dual <= first.optimum.primal
    assert first.facts.n_samples == 90
    assert first.facts.n_training == 60
    monkeypatch.setattr(central, "reference_optimum", None)
    assert central_models("covtype", Choices(), "validation", tmp_path) == first
    paper = central_models("covtype", Choices(), "paper", tmp_path)
    assert paper.l2 == 5e-5
    assert paper.optimum == paper.published_optimum == first.published_optimum

"""Settings of the estimators: refused in words, or passed on to the training."""

import pytest
from sklearn.exceptions import ConvergenceWarning

from hyfdca import HyFDCAClassifier, HyFDCARegressor
from hyfdca.holdings import partition as parts
from hyfdca.holdings.participation import cyclic

_IN_TURN = cyclic([[0, 1, 2], [3, 4, 5], [6, 7, 8]])


def test_participation_and_paper_settings_are_reachable(cancer):
    """Partial participation, cyclic sets, IIC and both variants are available."""
    X, y = cancer
    for settings in (
        {"participation": 0.5, "iic": 0.1, "step": "paper"},
        {"participation": _IN_TURN, "algorithm": "hyfdca"},
        {"variant": "theory"},
        {"step": "safe", "local_fraction": 0.1, "profile": "open"},
        {"step": "paper", "paper_settings": {"local_steps": 2, "refresh": "all"}},
    ):
        model = HyFDCAClassifier(max_rounds=5, random_state=0, **settings)
        with pytest.warns(ConvergenceWarning):
            model.fit(X, y)
        assert model.certificate_.gap >= 0.0
        assert model.certificate_.primal < 1.0  # P(0) of the hinge


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "nothing"}, "no loss"),
        ({"loss": "huber"}, "regression"),
        ({"l2": 0.0}, "l2"),
        ({"l2": -1.0}, "l2"),
        ({"tol": -1.0}, "tol"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"measure_every": 0}, "measure_every"),
        ({"step": "long"}, "step"),
        ({"encryption": "rot13"}, "encryption"),
        ({"algorithm": "magic"}, "algorithm"),
        ({"profile": "shut"}, "profile"),
        ({"variant": "poetic"}, "variant"),
        ({"participation": 0.0}, "participation"),
        ({"local_fraction": 0.0}, "local_fraction"),
        ({"step": "line_search", "participation": 0.5}, "every client"),
        ({"variant": "theory", "step": "safe"}, "step"),
        ({"grid": (0, 3)}, "group"),
        ({"grid": 3}, "grid"),
        ({"grid": (2.5, 2)}, "grid"),
        ({"iic": 0.0}, "iic"),
        ({"iic": float("nan")}, "iic"),
        ({"local_fraction": 5.0}, "local_fraction"),
        ({"max_rounds": 2.5}, "max_rounds"),
        ({"intercept_scaling": 1e200}, "intercept_scaling"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight"),
        ({"participation": cyclic([[0, 99]])}, "clients"),
        ({"paper_settings": {"colour": 3}}, "colour"),
        ({"paper_settings": {"cap": "none"}}, "cap"),
        ({"paper_settings": {"local_steps": 0}}, "local_steps"),
        ({"grid": parts.grid(7, 7, (2, 2))}, "partition"),
    ],
)
def test_bad_settings_are_refused_in_words(cancer, settings, message):
    """An invalid setting is refused when fitting; the message names it."""
    X, y = cancer
    with pytest.raises(ValueError, match=message):
        HyFDCAClassifier(**settings).fit(X, y)


def test_huge_numbers_are_refused_in_words(cancer):
    """Data whose squares overflow are refused before anything is sent."""
    X, y = cancer
    with pytest.raises(ValueError, match="scale the data"):
        HyFDCAClassifier().fit(1e160 * X, y)
    with pytest.raises(ValueError, match="scale the data"):
        HyFDCARegressor().fit(X, 1e160 * y)


def test_a_paper_setting_chooses_the_papers_method_whatever_its_value(cancer):
    """It does so even with its default value."""
    model = HyFDCAClassifier(paper_settings={"divide_by": "active"}, tol=0.5)
    assert model.fit(*cancer).algorithm_ == "hyfdca"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bundle_settings": 3}, "bundle_settings must be a mapping"),
        ({"bundle_settings": {"max_buckets": True}}, "max_buckets must be a whole"),
        ({"bundle_settings": {1: 2}}, "'bundle' has no setting 1; it has: min_contr"),
        (
            {"bundle_settings": {"max_buckets": 3}, "algorithm": "hyfdca"},
            "max_buckets is a setting of algorithms 'bundle' and 'pooled', not of",
        ),
        (
            {"algorithm": "bundle", "step": "safe"},
            "step is a setting of algorithm 'hyfdca', not of 'bundle'",
        ),
        (
            {"algorithm": "lbfgs", "iic": 0.1},
            "iic is a setting of algorithms 'hyfdca', 'fedavg'",
        ),
        ({"tol": "a"}, "tol must be a number"),
        (
            {"penalise_intercept": False, "intercept_scaling": 2.0},
            "intercept_scaling = 2 scales an intercept with a penalty; leave it at 1",
        ),
        ({"paper_settings": {"aggregation": "decreasing"}}, "with the line search"),
        ({"paper_settings": {"cap": "one"}}, "belongs to variant='theory'"),
        (
            {"step": "paper", "paper_settings": {"second_inner_product": True}},
            "no effect if everybody is always present",
        ),
    ],
)
def test_settings_that_would_be_ignored_are_refused(settings, message, cancer):
    """One sentence names the setting."""
    with pytest.raises(ValueError, match=message):
        HyFDCAClassifier(**settings).fit(*cancer)

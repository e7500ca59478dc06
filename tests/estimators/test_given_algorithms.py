"""Algorithms with their settings, given to estimators."""

import pytest
from sklearn.base import clone

from hyfdca import HyFDCAClassifier
from hyfdca.algorithms.bundle.bundle import Bundle, Lbfgs
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from tests.estimators.findings import found
from tests.support.consortia import assert_one_sentence

SAME = {
    "safe": (
        Hyfdca(step="safe"),
        [{"step": "safe"}, {"step": "safe", "algorithm": "hyfdca"}],
        Hyfdca(step="paper"),  # "auto" is "safe" where clients are absent
    ),
    "paper": (
        Hyfdca(step="paper", iic=0.1, refresh="all"),
        [{"step": "paper", "iic": 0.1, "paper_settings": {"refresh": "all"}}],
        Hyfdca(step="paper", iic=0.2, refresh="all"),
    ),
    "theory": (Hyfdca(variant="theory"), [{"variant": "theory"}], Hyfdca()),
    "bundle": (
        Bundle(sub_groups=2),
        [
            {"bundle_settings": {"sub_groups": 2}},
            {"bundle_settings": {"sub_groups": 2}, "algorithm": "bundle"},
        ],
        Bundle(),
    ),
    "lbfgs": (Lbfgs(), [{"algorithm": "lbfgs"}], Bundle()),
}


@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize("name", SAME)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_algorithms_with_settings_equal_keywords(name, participation, cancer):
    """An algorithm with settings and the keywords find the same, bit for bit.

    Other settings find something else: these are not ignored.
    """
    algorithm, keywords, other = SAME[name]
    given = {"participation": participation, "max_rounds": 12, "random_state": 3}
    given["loss"] = "logistic"

    def fitted(**own):
        return HyFDCAClassifier(**given, **own).fit(*cancer)

    expected = fitted(algorithm=algorithm)
    assert expected.algorithm_ == algorithm.name
    assert expected.n_iter_ > 1
    for own in keywords:
        assert found(fitted(**own)) == found(expected)
    assert found(fitted(algorithm=other)) != found(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"algorithm": Hyfdca(step="safe"), "step": "safe"},
            "step is a setting of the algorithm; pass it to Hyfdca\\(\\)\\.",
        ),
        (
            {"algorithm": Hyfdca(), "paper_settings": {"cap": "one"}},
            "cap is a setting of the algorithm; pass it to Hyfdca",
        ),
        (
            {"algorithm": Bundle(), "bundle_settings": {"sub_groups": 2}},
            "sub_groups is a setting of the algorithm; pass it to Bundle",
        ),
        (
            {"algorithm": Bundle(sub_groups=2), "local_fraction": 0.5},
            "local_fraction is a setting of the algorithm; pass it to Bundle",
        ),
        (
            {"algorithm": Lbfgs(), "loss": "hinge"},
            "algorithm='lbfgs' needs a smooth loss, which 'hinge' is not",
        ),
        (
            {"algorithm": Hyfdca(step="line_search"), "participation": 0.5},
            "step='line_search' needs every client in every round",
        ),
    ],
)
def test_algorithms_take_their_settings_once(settings, message, cancer):
    """A setting given both to an algorithm and beside it is refused."""
    with pytest.raises(ValueError, match=message) as caught:
        HyFDCAClassifier(**settings).fit(*cancer)
    assert_one_sentence(f"{caught.value}\n")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hyfdca(step="long"), "step must be one of auto, paper, safe, line_s"),
        (lambda: Hyfdca(local_fraction=0.0), "local_fraction must be above 0 and at"),
        (lambda: Hyfdca(min_rows=0), "min_rows must be a whole number from 1"),
        (lambda: Hyfdca(iic=-1.0), "iic must be a positive number"),
        (lambda: Bundle(sub_groups=0), "sub_groups must be a whole number from 1"),
        (lambda: Bundle(max_buckets=True), "max_buckets must be a whole number from"),
    ],
)
def test_algorithms_refuse_bad_settings_when_made(make, message):
    """An algorithm that could not run cannot be made."""
    with pytest.raises(ValueError, match=message):
        make()


def test_estimators_with_algorithms_are_cloned():
    """A clone has an algorithm with the same settings, and they are shown."""
    model = HyFDCAClassifier(algorithm=Hyfdca(step="safe", min_rows=2))
    assert clone(model).get_params() == model.get_params()
    assert clone(model).algorithm.min_rows == 2
    assert "min_rows=2" in repr(model)

"""Which algorithm a study runs, and why."""

import pytest

from hyfdca.algorithms.bundle.async_server import AsyncBundleServer
from hyfdca.algorithms.bundle.lbfgs import LbfgsServer
from hyfdca.algorithms.bundle.server import BundleServer, bundle_settings
from hyfdca.algorithms.hyfdca.draws import HyfdcaSettings
from hyfdca.algorithms.registry import Parties, Settings, choose_algorithm
from hyfdca.crypto.schemes.registry import Adders, Encryption
from hyfdca.federation.problem import Problem
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import random_fraction
from hyfdca.holdings.partition import grid
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.protocol.server_session import ServerSession
from tests.support.small_runs import classification, make_training

SMOOTH_REGRESSION = [
    "half_squared",
    "squared",
    "squared_epsilon_insensitive",
    "huber",
    "scaled_huber",
]


def _choice(
    loss="hinge",
    tolerance=1e-3,
    is_complete=True,
    wanted="auto",
    n_features=4,
    **hyfdca,
):
    settings = Settings(HyfdcaSettings(**hyfdca))
    layout = layout_of(grid(30, n_features, (2, 2), seed=0))
    parties = Parties(
        Problem(make_loss(loss), 0.1, 30),
        layout,
        Adders(Encryption(), {"none": b""}),
        ServerSession(b"study--1"),
        is_complete,
    )
    return choose_algorithm(wanted, settings, parties, tolerance)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_complete", [True, False])
def test_the_bundle_is_the_usual_choice(loss, is_complete):
    """For every loss, whoever takes part; the reason names loss and tolerance."""
    choice = _choice(loss, 1e-3, is_complete)
    assert choice.name == "bundle"
    assert loss in choice.reason
    assert "0.001" in choice.reason


@pytest.mark.parametrize("loss", LOSSES)
def test_lbfgs_is_chosen_for_very_small_gaps_of_smooth_regression(loss):
    """Where it was measured to take fewer rounds, and there alone."""
    choice = _choice(loss, 1e-7)
    assert choice.name == ("lbfgs" if loss in SMOOTH_REGRESSION else "bundle")
    assert "1e-07" in choice.reason


@pytest.mark.parametrize("loss", SMOOTH_REGRESSION)
def test_lbfgs_is_not_chosen_where_its_memory_does_not_span_the_features(loss):
    """There it was measured to take twice the rounds of the bundle."""
    assert _choice(loss, 1e-7, n_features=20).name == "lbfgs"
    assert _choice(loss, 1e-7, n_features=21).name == "bundle"


@pytest.mark.parametrize("loss", SMOOTH_REGRESSION)
def test_lbfgs_is_not_chosen_where_clients_may_be_absent(loss):
    """It would wait for everybody three times a round."""
    assert _choice(loss, 1e-7, is_complete=False).name == "bundle"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("step", "safe"), ("local_fraction", 0.5), ("variant", "theory")],
)
def test_settings_of_the_paper_choose_its_method(setting, value):
    """Whoever sets something that only HyFDCA has gets HyFDCA."""
    choice = _choice(**{setting: value})
    assert choice.name == "hyfdca"
    assert setting in choice.reason


def test_the_seed_chooses_nothing():
    """Every algorithm may be given one."""
    assert _choice(seed=5).name == "bundle"
    assert _choice(seed=5, wanted="bundle").name == "bundle"


@pytest.mark.parametrize("wanted", ["bundle", "lbfgs"])
def test_settings_of_the_paper_do_not_go_with_other_algorithms(wanted):
    """A setting that would be ignored is refused, by name."""
    with pytest.raises(ValueError, match=f"step is a setting .* not of '{wanted}'"):
        _choice("logistic", wanted=wanted, step="safe")


@pytest.mark.parametrize("wanted", ["bundle", "lbfgs", "hyfdca"])
def test_a_study_that_names_its_algorithm_gets_it(wanted):
    """As set, whatever would be chosen otherwise."""
    assert _choice("half_squared", 1e-9, wanted=wanted) == (wanted, "as set")
    assert _choice("half_squared", 1e-1, False, wanted=wanted) == (wanted, "as set")


@pytest.mark.parametrize(
    ("algorithm", "profile", "is_complete", "expected"),
    [
        ("bundle", "open", True, BundleServer),
        ("bundle", "sealed", True, BundleServer),
        ("bundle", "open", False, AsyncBundleServer),
        ("bundle", "sealed", False, BundleServer),  # every plane needs everybody
        ("lbfgs", "open", False, LbfgsServer),
        ("lbfgs", "sealed", True, LbfgsServer),
    ],
)
def test_the_server_half_fits_the_study(algorithm, profile, is_complete, expected):
    """Visits are for the open profile and clients that come and go."""
    X, y = classification(30, 4)
    training = make_training(
        X,
        y,
        grid(30, 4, (2, 2), seed=0),
        loss="logistic",
        algorithm=algorithm,
        profile=profile,
        participation=None if is_complete else random_fraction(4, 0.5, seed=0),
    )
    assert type(training.server) is expected
    assert training.algorithm == (algorithm, "as set")


def test_settings_of_the_bundle_by_name():
    """As estimators and study files give them."""
    assert bundle_settings({"sub_groups": 4}).sub_groups == 4
    with pytest.raises(ValueError, match=r"no depth; it takes max_buckets, min_contr"):
        bundle_settings({"depth": 2})


@pytest.mark.parametrize("value", [0, -1, 2.0, "3", None])
def test_buckets_need_whole_numbers(value):
    """Nothing could be made of these; the message names the setting."""
    with pytest.raises(ValueError, match="sub_groups must be a whole number from 1"):
        bundle_settings({"sub_groups": value})

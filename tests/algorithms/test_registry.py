"""Which algorithm a study runs, and why; algorithms by name, with their settings."""

import dataclasses
import re
from dataclasses import dataclass

import numpy as np
import pytest

from hyfdca.algorithms.bundle.async_server import AsyncBundleServer
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.algorithms.bundle.lbfgs import LbfgsServer
from hyfdca.algorithms.bundle.server import BundleServer
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.registry import (
    ALGORITHMS,
    AUTO,
    choose_algorithm,
    make_algorithm,
    settings_of,
)
from hyfdca.crypto.schemes.registry import Adders, Encryption
from hyfdca.federation.algorithm import Needs
from hyfdca.federation.problem import Problem
from hyfdca.federation.server import Federation
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

# Every algorithm with each of its settings, and with those that only others have.
OWN = [
    (name, field.name)
    for name, kind in ALGORITHMS.items()
    for field in dataclasses.fields(kind)
]
OTHERS = [
    (name, setting)
    for name in [AUTO, *ALGORITHMS]
    for setting in sorted({own for _, own in OWN})
    if (name, setting) not in OWN
]


SHAPES = {"rows": (4, 1), "columns": (1, 4), "rows or columns": (1, 4)}


def _federation(
    loss="hinge", is_complete=True, n_features=4, labelled=None, shape=(2, 2)
) -> Federation:
    """Return the server's side of four clients with 30 samples."""
    return Federation(
        Problem(make_loss(loss), 0.1, 30),
        layout_of(grid(30, n_features, shape, seed=0), labelled),
        Adders(Encryption(), {"none": b""}),
        ServerSession(b"study--1"),
        is_complete=is_complete,
    )


def _chosen(loss="hinge", tolerance=1e-3, is_complete=True, n_features=4):
    """Return what runs where the study leaves it open."""
    federation = _federation(loss, is_complete, n_features)
    return choose_algorithm(None, federation, tolerance)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_complete", [True, False])
def test_the_bundle_is_the_usual_choice(loss, is_complete):
    """It is chosen for every loss and presence; the reason names loss and tolerance."""
    choice = _chosen(loss, 1e-3, is_complete)
    assert choice.algorithm == Bundle()
    assert loss in choice.reason
    assert "0.001" in choice.reason


@pytest.mark.parametrize("loss", LOSSES)
def test_lbfgs_is_chosen_for_very_small_gaps_of_smooth_regression(loss):
    """It is chosen only where it was measured to take fewer rounds."""
    choice = _chosen(loss, 1e-7)
    expected = "lbfgs" if loss in SMOOTH_REGRESSION else "bundle"
    assert choice.algorithm.name == expected
    assert "1e-07" in choice.reason


@pytest.mark.parametrize("loss", SMOOTH_REGRESSION)
def test_lbfgs_is_not_chosen_where_its_memory_does_not_span_the_features(loss):
    """There it was measured to take twice as many rounds as the bundle."""
    assert _chosen(loss, 1e-7, n_features=20).algorithm.name == "lbfgs"
    assert _chosen(loss, 1e-7, n_features=21).algorithm.name == "bundle"


@pytest.mark.parametrize("loss", SMOOTH_REGRESSION)
def test_lbfgs_is_not_chosen_where_clients_may_be_absent(loss):
    """It would wait for everybody three times a round."""
    assert _chosen(loss, 1e-7, is_complete=False).algorithm.name == "bundle"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_study_that_names_its_algorithm_gets_it(name):
    """It gets it regardless of what would be chosen otherwise."""
    wanted = make_algorithm(name, {})
    can_miss_some = wanted.needs.presence == "any"
    for tolerance, is_complete in ((1e-9, True), (1e-1, not can_miss_some)):
        shape = SHAPES.get(wanted.needs.split, (2, 2))
        federation = _federation("half_squared", is_complete, shape=shape)
        choice = choose_algorithm(wanted, federation, tolerance)
        assert choice == (wanted, "as set")
        assert choice.algorithm is wanted


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
    assert training.runner.algorithm == (make_algorithm(algorithm, {}), "as set")


# What does not apply


@dataclass(frozen=True)
class _NeedsEverybody(Bundle):
    """A method that cannot continue while somebody is absent."""

    @property
    def needs(self) -> Needs:
        return Needs(presence="everyone")


@dataclass(frozen=True)
class _NeedsAllLabels(Bundle):
    """A method in which every client steps by its own loss."""

    @property
    def needs(self) -> Needs:
        return Needs(labels="all")


@pytest.mark.parametrize(
    ("algorithm", "fitting", "other", "message"),
    [
        (
            make_algorithm("lbfgs", {}),
            {"loss": "logistic"},
            {"loss": "hinge"},
            "algorithm='lbfgs' needs a smooth loss, which 'hinge' is not; use "
            "algorithm='bundle'.",
        ),
        (
            _NeedsEverybody(),
            {},
            {"is_complete": False},
            "algorithm='bundle' needs every client in every round; use "
            "participation=1 and a quorum of all, or algorithm='bundle'.",
        ),
        (
            _NeedsAllLabels(),
            {},
            {"labelled": [True, False, True, False]},
            "algorithm='bundle' needs labels at every client; use algorithm='bundle'.",
        ),
        (
            Hyfdca(step="line_search"),
            {},
            {"is_complete": False},
            "step='line_search' needs every client in every round; use step='safe' "
            "or 'paper' under partial participation.",
        ),
    ],
)
def test_a_federation_that_a_method_does_not_apply_to_is_refused(
    algorithm, fitting, other, message
):
    """One sentence says what to do, before anything is exchanged."""
    assert choose_algorithm(algorithm, _federation(**fitting), 0.1).reason == "as set"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        choose_algorithm(algorithm, _federation(**other), 0.1)


@pytest.mark.parametrize("step", ["safe", "line_search"])
def test_the_theory_variant_has_a_step_of_its_own(step):
    """Another one would be ignored, so it is refused."""
    message = "variant='theory' brings its own step; use step='auto'."
    for its_own in ("auto", "paper"):
        choose_algorithm(Hyfdca("theory", its_own), _federation(), 0.1)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        choose_algorithm(Hyfdca("theory", step), _federation(), 0.1)


# By name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_by_name_has_its_default_settings(name):
    """It is registered under its own name."""
    made = make_algorithm(name, {})
    assert type(made) is ALGORITHMS[name]
    assert made.name == name
    assert made == ALGORITHMS[name]()


def test_settings_are_taken_by_name():
    """Given settings are taken; all others have their defaults."""
    assert make_algorithm("bundle", {"sub_groups": 4}) == Bundle(sub_groups=4)
    given = {"step": "safe", "local_fraction": 0.5, "iic": 2.0, "min_rows": 3}
    assert make_algorithm("hyfdca", given) == Hyfdca(**given)


def test_auto_leaves_the_choice_open():
    """There is no algorithm yet, so there are no settings of one."""
    assert make_algorithm(AUTO, {}) is None
    assert settings_of(AUTO) == []


@pytest.mark.parametrize("name", ["", "sgd", "Bundle", "bundle ", None, 3])
def test_an_unknown_name_is_refused(name):
    """One sentence lists the existing names."""
    known = ", ".join([AUTO, *ALGORITHMS])
    message = f"algorithm must be one of {known}, got {name!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_algorithm(name, {})


@pytest.mark.parametrize("setting", ["depth", "seed", "name", "phases", "loss"])
@pytest.mark.parametrize("name", [AUTO, *ALGORITHMS])
def test_an_unknown_setting_is_refused(name, setting):
    """One sentence lists the algorithm's settings."""
    fields = () if name == AUTO else dataclasses.fields(ALGORITHMS[name])
    known = ", ".join(field.name for field in fields) or "none"
    message = f"algorithm {name!r} has no setting {setting!r}; it has: {known}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_algorithm(name, {setting: 1})


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "setting"), OTHERS)
def test_a_setting_of_another_algorithm_is_refused(name, setting):
    """A setting that would be ignored is refused with the name of its owner."""
    owners = [repr(owner) for owner, own in OWN if own == setting]
    *others, last = owners
    several = f"algorithms {', '.join(others)} and {last}"
    them, advice = (
        several if others else f"algorithm {last}",
        "; name the algorithm too",
    )
    message = f"{setting} is a setting of {them}, not of {name!r}"
    message += f"{advice if name == 'auto' else ''}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_algorithm(name, {setting: 1})


def test_a_class_in_place_of_an_algorithm_is_refused():
    """The sentence says how it is written."""
    with pytest.raises(ValueError, match=r"must be Hyfdca\(\.\.\.\), not the class"):
        make_algorithm(Hyfdca, {})


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("bundle", "sub_groups", np.int64(4)),
        ("bundle", "max_buckets", np.uint8(4)),
        ("hyfdca", "local_steps", np.int32(4)),
        ("hyfdca", "min_rows", np.int64(4)),
        ("hyfdca", "iic", np.int64(4)),
        ("hyfdca", "local_fraction", np.float64(0.25)),
        ("hyfdca", "iic", np.float32(0.25)),
        ("hyfdca", "second_inner_product", np.bool_(True)),
    ],
)
def test_numbers_of_numpy_are_numbers(name, setting, value):
    """They are kept as Python's own, as study files and messages need them."""
    made = make_algorithm(name, {setting: value})
    kept = getattr(made, setting)
    assert kept == value
    assert type(kept) is type(value.item())
    assert made == make_algorithm(name, {setting: value.item()})


@pytest.mark.parametrize(("name", "setting"), OWN)
def test_a_wrong_value_is_refused_by_the_name_of_its_setting(name, setting):
    """The sentence begins with the setting and says what it should be."""
    for value in (object(), [], "nonsense"):
        message = rf"^{setting} must be .*, got {re.escape(repr(value))}\.$"
        with pytest.raises(ValueError, match=message):
            make_algorithm(name, {setting: value})
        with pytest.raises(ValueError, match=message):
            ALGORITHMS[name](**{setting: value})


@pytest.mark.parametrize(
    "value", [0, -1, 2.0, "3", None, True, np.int64(0), np.float64(2.0)]
)
@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("bundle", "min_contributors"),
        ("bundle", "sub_groups"),
        ("bundle", "min_group_size"),
        ("bundle", "max_buckets"),
        ("hyfdca", "min_rows"),
    ],
)
def test_counts_are_whole_numbers(name, setting, value):
    """Nothing could be made of others; the message names the setting."""
    with pytest.raises(
        ValueError, match=f"^{setting} must be a whole number from 1, got "
    ):
        make_algorithm(name, {setting: value})


@pytest.mark.parametrize("value", [0.0, -0.5, 1.0001, float("nan"), float("inf")])
def test_a_share_of_samples_is_above_zero_and_at_most_one(value):
    """The message says so, and what was given."""
    message = rf"^local_fraction must be above 0 and at most 1, got {value}\.$"
    with pytest.raises(ValueError, match=message):
        make_algorithm("hyfdca", {"local_fraction": value})


@pytest.mark.parametrize(
    ("setting", "choices"),
    [
        ("step", ["auto", "paper", "safe", "line_search"]),
        ("variant", ["practical", "theory"]),
        ("cap", ["printed", "largest", "one"]),
    ],
)
def test_choices_are_listed_where_a_word_is_none_of_them(setting, choices):
    """Each of them is taken, and no other word."""
    for word in choices:
        assert getattr(make_algorithm("hyfdca", {setting: word}), setting) == word
    message = f"{setting} must be one of {', '.join(choices)}, got 'other'."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_algorithm("hyfdca", {setting: "other"})

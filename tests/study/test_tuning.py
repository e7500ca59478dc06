"""The table [tuning]: which ranges a study file may have, and which runs they allow."""

from __future__ import annotations

import pytest

from hyfdca.errors import StudyError
from hyfdca.study.file import load
from hyfdca.study.identity import study_fingerprint
from hyfdca.study.plan import plan_of
from hyfdca.study.tuning import (
    FIRST_RUN,
    RunChoice,
    check_choice,
    choice_of,
    run_folder,
    run_sentence,
    tuned,
)
from tests.support.consortia import assert_one_sentence
from tests.support.durable_runs import write

RANGES = """\
l2 = {least = 1e-5, most = 1.0}
tol = {least = 1e-6, most = 1e-2}
max_rounds = {most = 2000}
most_runs = 3
"""


def study_of(folder, tuning=RANGES, **settings):
    """Return a study file with these lines in [tuning]."""
    return load(write(folder, tuning=tuning, **settings) / "study.toml")


@pytest.mark.parametrize(
    ("tuning", "settings", "said"),
    [
        ("l2 = {least = 1.0, most = 0.01}", {}, "least (1.0) is above its most (0.01)"),
        (
            "l2 = {least = 0.1, most = 1.0}",
            {},
            "has l2 = 0.05, but its [tuning]",
        ),
        ("tol = {least = 0.0, most = 1e-5}", {}, "tol = 0.0001, but its [tuning]"),
        ("max_rounds = {most = 999}", {}, "max_rounds = 1000, but its [tuning] allows"),
        ("max_rounds = {least = 5}", {}, "missing key `most`"),
        ("l2 = {least = 1e-5}", {}, "missing key `most`"),
        ("l2 = {least = 0, most = 1}", {}, "at tuning.l2.least"),
        ("l2 = [1e-3, 1e-2]", {}, "at tuning.l2"),
        ("most_runs = 7", {}, "leaves nothing open"),
        ("most_runs = 1\nmax_rounds = {most = 2000}", {}, "at tuning.most_runs"),
        ("seed = {least = 1, most = 2}", {}, "the keys are l2, max_rounds, most_runs"),
        (
            "l2 = {least = 1e-5, most = 1.0}",
            {"l2": "[0.1, 0.01]", "folds": "3"},
            "l2 chosen among several values and also leaves it open",
        ),
        (
            "l2 = {least = 1e-5, most = 1.0}",
            {"l2": '"auto"', "folds": "3"},
            "l2 chosen among several values and also leaves it open",
        ),
    ],
)
def test_ranges_that_cannot_be_are_refused(tuning, settings, said, tmp_path):
    """One sentence names the study file."""
    with pytest.raises(StudyError) as raised:
        study_of(tmp_path, tuning, **settings)
    assert said in str(raised.value)
    assert str(tmp_path) in str(raised.value)
    assert_one_sentence(f"{raised.value}\n".replace(". ", " "))


def test_ranges_are_part_of_what_organisations_compare(tmp_path):
    """A wider range is another study."""
    contents = []
    for most in ("1.0", "2.0"):
        write(tmp_path, tuning=f"l2 = {{least = 1e-5, most = {most}}}")
        contents.append((tmp_path / "study.toml").read_bytes())
    assert len(set(map(study_fingerprint, contents))) == 2


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (
            RunChoice(number=2, l2=1.5),
            "l2 = 1.5, but the study file allows l2",
        ),
        (RunChoice(number=2, l2=9e-6), "allows l2 from 1e-05 to 1.0"),
        (RunChoice(tol=0.0), "Run 1 has tol = 0.0, but the study file"),
        (RunChoice(number=3, max_rounds=2001), "allows max_rounds from 1 to 2000"),
        (RunChoice(number=4, l2=0.1), "Run 4 is not allowed, because the study file"),
    ],
)
def test_what_is_outside_of_a_range_is_refused(choice, said, tmp_path):
    """The sentence names the setting and its range."""
    file = study_of(tmp_path)
    with pytest.raises(ValueError, match=r"\.\Z") as raised:
        check_choice(choice, file)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "choice", [RunChoice(l2=0.1), RunChoice(number=2), RunChoice(number=2, tol=0.05)]
)
def test_without_the_table_nothing_may_change(choice, tmp_path):
    """There is one run, with the settings of the file."""
    file = study_of(tmp_path, "")
    check_choice(FIRST_RUN, file)
    with pytest.raises(ValueError, match="no table \\[tuning\\]"):
        tuned(file, choice)


def test_a_setting_without_a_range_stays(tmp_path):
    """It stays even if others are left open."""
    file = study_of(tmp_path, "l2 = {least = 1e-5, most = 1.0}")
    with pytest.raises(ValueError, match=r"tol no range in .*; it leaves l2 open"):
        check_choice(RunChoice(number=2, tol=0.01), file)


def test_the_ends_of_a_range_are_in_it(tmp_path):
    """The plan of a run is that of a file with the chosen values."""
    run = RunChoice(number=3, l2=1.0, tol=1e-6, max_rounds=2000)
    plan = plan_of(study_of(tmp_path), bytes(32), run)
    other = study_of(tmp_path, l2="1.0", tol="1e-6", max_rounds="2000")
    assert plan.training == plan_of(other, bytes(32)).training
    assert plan.run == run


def test_a_tolerance_reaches_the_fits_of_a_path(tmp_path):
    """It does where l2 is chosen among several."""
    path = {"l2": "[0.1, 0.01]", "folds": "3"}
    file = study_of(tmp_path, "tol = {least = 1e-6, most = 1e-2}", **path)
    plan = plan_of(file, bytes(32), RunChoice(number=2, tol=1e-3))
    assert plan.training.path.tolerance == plan.training.tolerance == 1e-3


def test_every_party_gets_the_same_sentence(tmp_path):
    """It has the value, that of the study file, and the range."""
    file = study_of(tmp_path)
    assert run_sentence(file, FIRST_RUN) is None
    assert run_sentence(file, RunChoice(number=2, l2=0.1)) == (
        "Run 2 of the study 'test': l2 = 0.1 (study file: 0.05, allowed: 1e-05 to 1.0)."
    )


def test_options_are_read():
    """They have the form of the command line."""
    run = choice_of(2, ["l2=1e-3", "max_rounds=200"])
    assert run == RunChoice(number=2, l2=1e-3, max_rounds=200)
    assert RunChoice.from_bytes(run.to_bytes()) == run


@pytest.mark.parametrize(
    "options",
    [
        ["l2"],
        ["l2=nan"],
        ["l2=1e300"],
        ["l2=-1"],
        ["tol=-1e-3"],
        ["tol=inf"],
        ["max_rounds=1e3"],
        ["max_rounds=0"],
        ["seed=1"],
        ["=1"],
        ["tol=0.1", "tol=0.1"],
    ],
)
def test_options_that_say_nothing_are_refused(options):
    """One sentence refuses them."""
    with pytest.raises(StudyError) as raised:
        choice_of(2, options)
    assert_one_sentence(f"{raised.value}\n")


def test_each_run_has_a_folder(tmp_path):
    """The first has that of the study."""
    assert run_folder(tmp_path, 1) == tmp_path
    assert run_folder(tmp_path, 12) == tmp_path / "run-12"

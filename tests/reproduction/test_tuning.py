"""Tuning: draws over the paper's ranges, and no divergent run ever wins."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from scipy import stats

from hyfdca.reproduction.criteria import Criteria
from hyfdca.reproduction.jobs import run_jobs
from hyfdca.reproduction.paper import METHODS, search_ranges
from hyfdca.reproduction.processes import Workers
from hyfdca.reproduction.tuning import Search, Trial, ended_trial, tuned
from tests.reproduction.small_problem import SETTING, small_covtype

__all__ = ["small_covtype"]

SEARCH = Search(SETTING, "fedavg", n_rounds=30, measure_every=5)


@pytest.mark.parametrize("method", METHODS)
def test_draws_are_even_on_a_logarithmic_scale(method):
    """Every hyperparameter, over the whole of the paper's range."""
    search = replace(SEARCH, method=method)
    drawn = [search.trial(n).chosen.as_settings() for n in range(300)]
    for name, (low, high) in search_ranges(method, "covtype").items():
        values = np.log([settings[name] for settings in drawn])
        uniform = stats.uniform(np.log(low), np.log(high / low))
        assert stats.kstest(values, uniform.cdf).pvalue > 1e-4, name


def test_trials_are_the_same_for_the_same_seed():
    """Another seed, setting or method has others."""
    others = [
        replace(SEARCH, seed=1),
        replace(SEARCH, method="hyfem"),
        replace(SEARCH, setting=replace(SETTING, fraction=0.9)),
    ]
    assert SEARCH.trial(3) == SEARCH.trial(3)
    chosen = {search.trial(3).chosen for search in (SEARCH, *others)}
    assert len({replace(own, mu=None) for own in chosen}) == 4


def test_trials_end_by_number_or_by_time():
    """The first limit counts; there is always one trial."""
    assert len(list(SEARCH.trials(4, None))) == 4
    assert len(list(SEARCH.trials(None, 0.0))) == 1
    assert len(list(SEARCH.trials(3, 1e9))) == 3
    assert len(list(islice(SEARCH.trials(None, None), 20))) == 20


def test_the_best_trial_learns_and_did_not_diverge(small_covtype, tmp_path):
    """It holds over ranges in which most trials diverge or hardly move."""
    trials = replace(SEARCH, method="hyfem").trials(25, None)
    outcomes = list(run_jobs(trials, tmp_path, None, Workers(1)))
    outcome = tuned(tuple(ended_trial(*found) for found in outcomes))
    runs = dict(outcomes)
    assert any(trial.criteria is None for trial in outcome.trials)
    assert outcome.best is not None
    best = runs[outcome.best.job]
    assert not best.curve.is_divergent
    assert best.losses[-1] < best.losses[0]
    front = [outcome.trials[n] for n in outcome.grades]
    assert outcome.best in front
    assert all(trial.criteria is not None for trial in front)


def test_the_choice_does_not_depend_on_the_order_of_trials():
    """Trials come as processes finish them."""
    random = np.random.RandomState(0)
    rows = [Trial(SEARCH.trial(n), Criteria(*random.rand(7))) for n in range(12)]
    best = tuned(tuple(rows)).best
    assert tuned(tuple(reversed(rows))).best == best


def test_without_a_trial_that_learns_nothing_is_chosen():
    """If all runs diverged, there is no best one."""
    outcome = tuned((Trial(SEARCH.trial(0), None), Trial(SEARCH.trial(1), None)))
    assert outcome.best is None
    assert outcome.grades == {}

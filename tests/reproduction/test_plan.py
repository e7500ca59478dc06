"""What is run: rounds and times of the paper, or a share of them."""

from __future__ import annotations

import pytest

from hyfdca.reproduction.paper import DATA_SETS, HYPERPARAMETERS, METHODS, SETTINGS
from hyfdca.reproduction.plan import FULL, QUICK, Plan, RunKey, scaled

L2 = {name: data.l2 for name, data in DATA_SETS.items()}
ALL = dict.fromkeys(DATA_SETS, FULL)


def test_all_runs_of_the_paper():
    """3 data sets, 9 settings, 3 methods, 2 clocks; every job is one of its own."""
    runs = list(Plan(ALL, L2).jobs("paper", list(SETTINGS), HYPERPARAMETERS))
    assert len(runs) == len({job.file_name for _, job in runs}) == 27 * 3 * 2
    for key, job in runs:
        assert job.chosen == HYPERPARAMETERS[key.setting][key.method]
        assert job.l2 == L2[key.setting.data_set]


@pytest.mark.parametrize(
    ("data_set", "n_rounds"), [("mnist", 2500), ("news20", 10_000), ("covtype", 30_000)]
)
def test_equal_rounds(data_set, n_rounds):
    """Those of the paper, measured often enough for its moving averages."""
    plan = Plan(ALL, L2)
    setting = next(s for s in SETTINGS if s.data_set == data_set)
    for method in METHODS:
        key = RunKey(setting, method, "rounds", "paper")
        job = plan.job(key, HYPERPARAMETERS[setting][method])
        assert (job.n_rounds, job.limit) == (n_rounds, None)
        assert job.measure_every <= plan.window(data_set) / 2


@pytest.mark.parametrize(
    ("method", "most"), [("hyfdca", 9320), ("fedavg", 41_941), ("hyfem", 41_941)]
)
def test_equal_time(method, most):
    """10,800 s limit the number of rounds of 4.5 or 1 trips of 0.2575 s."""
    setting = SETTINGS[0]
    key = RunKey(setting, method, "seconds", "paper")
    job = Plan(ALL, L2).job(key, HYPERPARAMETERS[setting][method])
    assert job.n_rounds == most + 1  # the first that ends too late
    assert not job.limit.is_over(most, 0.0)
    assert job.limit.is_over(most + 1, 0.0)
    assert job.limit.is_over(most, 1.0)


@pytest.mark.parametrize("effort", [QUICK, scaled(0.1)])
def test_a_share_of_the_study(effort):
    """Rounds, time and windows shrink together; all settings remain."""
    plan = Plan({"covtype": effort}, {"covtype": 5e-5})
    assert len(plan.settings) == 9
    assert len(plan.shown) == 3
    assert plan.n_rounds("covtype") == 30_000 * effort.scale
    assert abs(plan.window("covtype") - 300 * effort.scale) <= 0.5
    assert plan.seconds("covtype") == 10_800 * effort.scale


def test_a_method_without_hyperparameters_is_left_out():
    """Its trials all diverged."""
    plan = Plan(ALL, {"covtype": 5e-5})
    chosen = {s: {"hyfdca": HYPERPARAMETERS[s]["hyfdca"]} for s in plan.shown}
    runs = list(plan.jobs("tuned", plan.shown, chosen))
    assert [key.method for key, _ in runs] == ["hyfdca"] * 6

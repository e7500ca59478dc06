"""The transcribed tables have the structure of the paper's study."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hyfdca.algorithms.registry import make_algorithm
from hyfdca.reproduction.paper import (
    DATA_SETS,
    DIAGONAL,
    FRACTIONS,
    HYPERPARAMETERS,
    METHODS,
    NOT_WON,
    REPLACED_HYFEM_IIC,
    ROUND_SECONDS,
    ROUND_TRIPS,
    SETTINGS,
    WON,
    WON_IN_ALL,
    Setting,
    search_ranges,
)


def test_every_data_set_has_nine_different_settings():
    """Three numbers of clients times three fractions, 27 in all."""
    assert len(SETTINGS) == len(set(SETTINGS)) == 27
    for name in DATA_SETS:
        own = [setting for setting in SETTINGS if setting.data_set == name]
        assert len({setting.clients for setting in own}) == 3
        assert {setting.fraction for setting in own} == set(FRACTIONS)
        assert len(own) == 9


def test_labels_and_counts_of_clients():
    """Two numbers are sample groups and feature groups, which multiply."""
    one, two = Setting("mnist", 500, 0.5), Setting("news20", (12, 12), 0.1)
    assert (one.label, one.n_clients) == ("500, 0.5", 500)
    assert (two.label, two.n_clients) == ("12, 12, 0.1", 144)


def test_the_diagonal_has_more_clients_and_fewer_of_them_present():
    """Three settings per data set, from the easiest to the hardest."""
    assert len(DIAGONAL) == 9
    assert set(DIAGONAL) < set(SETTINGS)
    for name in DATA_SETS:
        own = [setting for setting in DIAGONAL if setting.data_set == name]
        assert [setting.fraction for setting in own] == [0.9, 0.5, 0.1]
        sizes = [setting.n_clients for setting in own]
        assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s.data_set} {s.label}")
def test_hyperparameters_were_searched_and_are_accepted(setting):
    """They lie in the ranges of the search, and make an algorithm of this package."""
    assert set(HYPERPARAMETERS[setting]) == set(METHODS)
    for method, chosen in HYPERPARAMETERS[setting].items():
        ranges = search_ranges(method, setting.data_set)
        given = chosen.as_settings()
        assert set(given) == set(ranges)
        for name, (low, high) in ranges.items():
            assert low <= given[name] <= high
        algorithm = make_algorithm(method, given)
        assert {name: getattr(algorithm, name) for name in given} == given


def test_the_lowest_iic_is_one_step_per_client():
    """H = ceil(IIC N / KQ) is 1 there, with the fewest clients."""
    low, _ = search_ranges("hyfdca", "covtype", n_samples=900)["iic"]
    assert low == 9 / 900  # 3 by 3 clients
    assert math.ceil(low * 900 / 9) == 1


def test_hyfem_has_the_hyperparameters_of_fedavg_on_news20():
    """It has μ = 1, except for the one IIC that was replaced."""
    for setting in SETTINGS:
        if setting.data_set == "news20":
            chosen = HYPERPARAMETERS[setting]
            hyfem, fedavg = chosen["hyfem"], chosen["fedavg"]
            if setting in REPLACED_HYFEM_IIC:
                assert hyfem.iic != REPLACED_HYFEM_IIC[setting]
                hyfem = replace(hyfem, iic=REPLACED_HYFEM_IIC[setting])
            assert hyfem == replace(fedavg, mu=1.0)
    assert set(REPLACED_HYFEM_IIC) < set(SETTINGS)


def test_times_are_positive_or_not_available():
    """Only rivals miss a time, and they miss it together; only HyFDCA encrypts."""
    assert set(ROUND_SECONDS) == set(SETTINGS)
    missing = {
        setting.label
        for setting, times in ROUND_SECONDS.items()
        for method in METHODS
        if times[method] is None
    }
    assert missing == {"12, 12, 0.5", "12, 12, 0.9"}
    for times in ROUND_SECONDS.values():
        assert (times["fedavg"] is None) == (times["hyfem"] is None)
        for method, time in times.items():
            if time is not None:
                assert 0.0 < time.computation < math.inf
                assert (0.0 < time.encryption < math.inf) == (method == "hyfdca")
    assert all(times["hyfdca"] is not None for times in ROUND_SECONDS.values())


def test_facts_of_data_sets_are_possible():
    """Positive numbers, windows shorter than runs, and percentages."""
    for data in DATA_SETS.values():
        assert 1 < data.window < data.n_rounds
        assert 0.0 < data.l2 < 1.0
        assert 0.0 < data.sparsity < 100.0
        assert 0.0 < data.optimum < 1.0  # that of zero weights is 1
        assert min(data.n_classes, data.n_samples, data.n_features) > 1
    assert set(ROUND_TRIPS) == set(METHODS)


def test_counts_of_wins_add_up():
    """What was not won is listed."""
    won, made = map(sum, zip(*WON.values(), strict=True))
    assert (won, made) == WON_IN_ALL
    assert len(set(NOT_WON)) == len(NOT_WON) == made - won
    assert made == len(DIAGONAL) * 2 * 2 * 2  # rivals, clocks, measures
    for setting, rival, clock, _ in NOT_WON:
        assert setting in DIAGONAL
        assert rival in METHODS
        assert WON[clock][0] < WON[clock][1]

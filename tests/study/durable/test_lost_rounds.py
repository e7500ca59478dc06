"""Rounds that a party has lost are run again, and members that fail come back."""

import numpy as np
import pytest

from hyfdca.errors import StudyError
from tests.support.durable_runs import (
    Consortium,
    numbers,
    replayed,
    spoil,
    undisturbed,
    write,
)

ROUNDS = 6
LIMITED = {
    "algorithm": '"hyfdca"',
    "tol": "1e-9",
    "max_rounds": str(ROUNDS),
    "quorum": "2",
}


def leave_without(consortium, runner, number):
    """Let the last member leave, and lose its checkpoint of a round."""
    runner.members._presence.present.pop(2)
    spoil(consortium.stores[2], f"round-{number}")
    consortium.network.restart(2)


def listen(runner, after, then):
    """Run all rounds; do something after one of them, the first time."""
    is_done = False
    for report in runner.rounds():
        assert runner.history[-1]["round"] == report.round_number
        if report.round_number == after and not is_done:
            is_done = True
            then()
    assert is_done


@pytest.mark.parametrize("after", [1, 3, ROUNDS - 1, ROUNDS])
@pytest.mark.parametrize("settings", [LIMITED, {"quorum": "2"}], ids=["dual", "primal"])
def test_a_member_that_comes_back_with_an_older_checkpoint(settings, after, tmp_path):
    """Lost rounds are run again, whether it returns within a round or at its end."""
    write(tmp_path, **settings)
    consortium = Consortium(tmp_path)
    runner = consortium.hosted().runner
    listen(runner, after, lambda: leave_without(consortium, runner, after))
    weights = runner.finish()
    n_rounds = len(runner.history)
    assert [r["round"] for r in runner.history] == list(range(1, n_rounds + 1))
    again, expected = replayed(tmp_path, runner.history)
    assert np.array_equal(weights, expected)
    assert numbers(runner.history) == numbers(again.history)
    if settings is LIMITED:
        assert (n_rounds, runner.stop_reason) == (ROUNDS, "round limit")


@pytest.mark.parametrize("is_servers", [False, True], ids=["member", "server"])
@pytest.mark.parametrize("settings", [LIMITED, {}], ids=["dual", "primal"])
def test_a_last_round_that_is_lost_before_the_release_is_run_again(
    settings, is_servers, tmp_path
):
    """The study does not end with the round before it."""
    write(tmp_path, **settings)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    runner = consortium.hosted().runner
    for _ in runner.rounds():
        pass
    last = len(runner.history)
    if is_servers:
        spoil(consortium.server_store, f"round-{last}")
        consortium.network.restart(2)
    else:
        leave_without(consortium, runner, last)
    assert np.array_equal(runner.finish(), weights)
    assert numbers(runner.history) == numbers(expected.history)
    assert runner.stop_reason == expected.stop_reason


def test_a_round_is_lost_and_the_servers_copy_of_the_one_before_too(tmp_path):
    """Everybody returns to the round before that."""
    write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=4)
    spoil(consortium.stores[2], "round-4")
    spoil(consortium.server_store, "round-3")
    consortium.network.restart(2)
    rounds, found = consortium.train()
    assert np.array_equal(found, weights)
    assert numbers(rounds.history) == numbers(expected.history)


def test_a_member_without_a_whole_round_says_so(tmp_path):
    """The error names it, and it is not asked forever."""
    write(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=4)
    for name in ("round-2", "round-3", "round-4"):
        spoil(consortium.stores[2], name)
    consortium.network.restart(2)
    with pytest.raises(StudyError, match=r"Organisation 'coast' failed .* damaged"):
        consortium.train()

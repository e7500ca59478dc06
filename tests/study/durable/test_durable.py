"""Studies that stop, crash and resume give the same numbers, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from hyfdca.errors import StudyError
from hyfdca.maths.objective import Measurement
from hyfdca.protocol import checkpoint
from hyfdca.protocol.codec import ProtocolError
from hyfdca.runtime.faulty import Faults
from hyfdca.runtime.store import Archive, StoreError
from hyfdca.study.durable import ServerRound
from hyfdca.study.resume import ServerPreparation
from tests.support.durable_runs import (
    Consortium,
    numbers,
    replayed,
    spoil,
    undisturbed,
    write,
)

STUDIES = {
    "bundle": {},
    "stream": {"encryption": '"stream"'},
    "open": {"profile": '"open"'},
    "lbfgs": {"algorithm": '"lbfgs"'},
    "line search": {"algorithm": '"hyfdca"', "tol": "0.05"},
    "safe": {"algorithm": '"hyfdca"', "step": '"safe"', "tol": "0.5"},
    "partial": {
        "algorithm": '"hyfdca"',
        "participation": "0.67",
        "max_rounds": "12",
    },
    "path": {"l2": "[1.0, 0.1, 0.01]", "folds": "3", "tol": "1e-3"},
    "automatic path": {
        "l2": '"auto"',
        "folds": "2",
        "profile": '"open"',
        "tol": "1e-2",
        "encryption": '"stream"',
    },
    "partial path": {
        "l2": "[1.0, 0.1]",
        "folds": "2",
        "participation": "0.67",
        "max_rounds": "30",
    },
    "partial bundle": {"participation": "0.67", "max_rounds": "30"},
    "partial open": {
        "participation": "0.67",
        "profile": '"open"',
        "max_rounds": "30",
    },
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("settings", STUDIES.values(), ids=STUDIES)
@pytest.mark.parametrize("unlabelled", [False, True], ids=["labelled", "unlabelled"])
def test_a_run_that_keeps_everything_has_the_numbers_of_one_that_keeps_nothing(
    settings, unlabelled, tmp_path
):
    """Checkpoints change no bit."""
    write(tmp_path, unlabelled, **settings)
    expected, weights = undisturbed(tmp_path)
    rounds, found = Consortium(tmp_path).train()
    assert np.array_equal(found, weights)
    assert numbers(rounds.history) == numbers(expected.history)
    assert rounds.stop_reason == expected.stop_reason


@pytest.mark.slow
@pytest.mark.sampled(11)
@pytest.mark.parametrize("settings", STUDIES.values(), ids=STUDIES)
@pytest.mark.parametrize("every", [1, 3])
def test_a_server_that_stops_after_any_round_resumes(settings, every, tmp_path):
    """Members may keep running, or restart too."""
    write(tmp_path, checkpoint_every=str(every), **settings)
    expected, weights = undisturbed(tmp_path)
    for restarts in (False, True):
        consortium = Consortium(tmp_path)
        stop_reason = None
        while stop_reason is None:
            runner = consortium.hosted().runner
            for place, _ in enumerate(runner.rounds()):
                if place == every:
                    break
            stop_reason = runner.stop_reason
            if restarts:
                for rank in range(3):
                    consortium.network.restart(rank)
        assert np.array_equal(consortium.hosted().runner.finish(), weights)
        assert numbers(runner.history) == numbers(expected.history)


@pytest.mark.slow
@pytest.mark.sampled(11)
@pytest.mark.parametrize("settings", STUDIES.values(), ids=STUDIES)
@pytest.mark.parametrize("seed", range(3))
def test_members_that_crash_at_any_time_come_back(settings, seed, tmp_path):
    """A lost round is repeated; the final weights are the same."""
    write(tmp_path, unlabelled=seed == 1, **settings)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path, Faults(crash=0.01), seed)
    rounds, found = consortium.train()
    assert consortium.network.met["crash"] > 0
    assert np.array_equal(found, weights)
    assert numbers(rounds.history) == numbers(expected.history)


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["partial", "partial open", "safe"])
@pytest.mark.parametrize("seed", range(3))
def test_with_a_smaller_quorum_it_is_the_run_of_those_who_were_there(
    name, seed, tmp_path
):
    """A replay in one process with the recorded participants has the same numbers."""
    write(tmp_path, quorum="1", **{**STUDIES[name], "max_rounds": "15"})
    consortium = Consortium(tmp_path, Faults(drop=0.04), seed)
    rounds, weights = consortium.train()
    again, expected = replayed(tmp_path, rounds.history)
    assert np.array_equal(weights, expected)
    assert numbers(rounds.history) == numbers(again.history)


def test_a_damaged_round_of_the_server_is_not_believed(tmp_path):
    """The study resumes from the one before, which everybody has saved too."""
    write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=4)
    store = consortium.server_store
    content = bytearray(store.read("round-4"))
    content[len(content) // 2] ^= 1
    store.write("round-4", bytes(content))
    rounds, found = consortium.train()
    assert np.array_equal(found, weights)
    assert numbers(rounds.history) == numbers(expected.history)


def test_a_damaged_round_after_a_crash_between_two_commits(tmp_path):
    """Members have saved a round that the server has not, and its last is damaged."""
    write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=5)
    consortium.server_store.remove("round-5")
    spoil(consortium.server_store, "round-4")
    rounds, found = consortium.train()
    assert np.array_equal(found, weights)
    assert numbers(rounds.history) == numbers(expected.history)


@pytest.mark.parametrize("kept", ["round-4", "preparation", "starts"])
def test_a_server_without_a_whole_round_says_so(kept, tmp_path):
    """It neither guesses nor restarts on its own."""
    write(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=4)
    store = consortium.server_store
    for name in ("round-2", "round-3"):
        store.remove(name)
    store.write(kept, store.read(kept)[:-1])
    with pytest.raises(StoreError, match=f"The file {kept} is damaged; restore it"):
        consortium.train()


def test_a_round_that_forgets_a_member_is_not_believed(tmp_path):
    """Its bytes are whole, so only what it says shows that nobody wrote it so."""
    write(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=1)
    archive = Archive(consortium.server_store)
    for number in archive.rounds:
        kept = checkpoint.decode(ServerRound, archive.read_round(number))
        kept_by = {client: kept.kept_by[client] for client in (0, 1)}
        spoilt = checkpoint.encode(replace(kept, kept_by=kept_by))
        archive.write_round(number, spoilt)
    with pytest.raises(StoreError, match=r"The file round-\d is damaged; restore it"):
        consortium.train()


@pytest.mark.parametrize("number", [-(2**33), 2**64 - 1])
def test_numbers_that_no_request_has_are_not_believed(number, tmp_path):
    """Neither those of the beginning, nor a count of starts that leads to them."""
    write(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=1)
    archive = Archive(consortium.server_store)
    kept = checkpoint.decode(ServerPreparation, archive.read("preparation"))
    spoilt = checkpoint.encode(replace(kept, number=number))
    archive.write("preparation", spoilt)
    with pytest.raises(StoreError, match="The file preparation is damaged; restore it"):
        consortium.train()
    archive.write("preparation", checkpoint.encode(kept))
    archive.write("starts", b"%d" % number)
    with pytest.raises(StoreError, match="The file starts is damaged; restore it"):
        consortium.train()


def test_a_copy_of_a_round_under_another_number_is_not_believed(tmp_path):
    """The study resumes from the round before, and files that are none are ignored."""
    write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=4)
    for store in (consortium.server_store, *consortium.stores):
        for name in ("round-9", "round-9.bak", "round-", "round-007", "round-\u0664"):
            store.write(name, store.read("round-3"))
    rounds, found = consortium.train()
    assert np.array_equal(found, weights)
    assert numbers(rounds.history) == numbers(expected.history)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("restarts", [(0, 1, 2), (2,), ()], ids=str)
@pytest.mark.parametrize("name", ["bundle", "partial", "partial open"])
def test_everybody_returns_to_the_round_that_nobody_has_lost(name, restarts, tmp_path):
    """A member's last round is damaged: the one before is repeated, bit for bit."""
    write(tmp_path, **STUDIES[name])
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=4)
    spoil(consortium.stores[2], "round-4")
    for rank in restarts:
        consortium.network.restart(rank)
    rounds, found = consortium.train()
    assert np.array_equal(found, weights)
    assert numbers(rounds.history) == numbers(expected.history)


def test_a_round_damaged_while_the_server_runs_is_repeated(tmp_path):
    """The member is restarted between two rounds, and the server has never stopped."""
    write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    runner = consortium.hosted().runner
    for report in runner.rounds():
        if report.round_number == 4:
            spoil(consortium.stores[1], "round-4")
            consortium.network.restart(1)
            break
    assert np.array_equal(runner.finish(), weights)
    assert numbers(runner.history) == numbers(expected.history)


@pytest.mark.parametrize("stage", ["keys", "alignment", "scaling", "training"])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_member_that_drops_out_of_the_set_up_joins_the_next_attempt(
    stage, rank, tmp_path
):
    """Keys that were agreed on before are neither made nor sealed again."""
    write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    network, n_lost = consortium.network, [0]
    deliver = network._delivered

    def losing(to, at, phase, payload):
        if (to, at) == (rank, stage) and phase != "make keys" and n_lost[0] < 2:
            n_lost[0] += 1
            raise ProtocolError("it was lost")
        return deliver(to, at, phase, payload)

    network._delivered = losing
    rounds, found = consortium.train()
    assert n_lost == [network.n_tries]
    name = consortium.plan.names[rank]
    unavailable = [said for said in consortium.sentences if "unavailable" in said]
    assert unavailable == [f"Organisation {name!r} is unavailable: it was lost."]
    assert np.array_equal(found, weights)
    assert numbers(rounds.history) == numbers(expected.history)


@pytest.mark.parametrize("after", [1, 3])
def test_rounds_that_one_member_often_fails_to_save_accuse_nobody(after, tmp_path):
    """The others give accounts that the server never gets all of."""
    write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    network, n_lost = consortium.network, [0]
    most = 8 * network.n_tries
    deliver = network._delivered
    runner = consortium.hosted().runner

    def losing(to, at, phase, payload):
        is_due = len(runner.history) > after
        if (to, phase) == (1, "keep") and is_due and n_lost[0] < most:
            n_lost[0] += 1
            raise ProtocolError("it was lost")
        return deliver(to, at, phase, payload)

    network._delivered = losing
    assert np.array_equal(runner.finish(), weights)
    assert n_lost == [most]
    assert numbers(runner.history) == numbers(expected.history)
    refused = [said for said in consortium.sentences if "withholds" in said]
    assert not refused


@pytest.mark.parametrize("change", ["order", "cell", "label"])
def test_a_member_that_comes_back_with_another_table_is_refused(change, tmp_path):
    """Its duals belong to the rows it began with; equal counts prove nothing."""
    write(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=4)
    table = consortium.tables[0]
    rows = list(range(len(table.ids)))
    cells, labels = table.cells.copy(), list(table.labels)
    if change == "order":
        rows[5], rows[20] = rows[20], rows[5]
    elif change == "cell":
        cells.data[7] += 1e-9
    else:
        labels[3] = table.labels[next(i for i in rows if labels[i] != labels[3])]
    consortium.tables[0] = replace(
        table,
        ids=tuple(table.ids[row] for row in rows),
        cells=cells[rows],
        labels=tuple(labels[row] for row in rows),
    )
    consortium.network.restart(0)
    with pytest.raises(StudyError, match=r"'north' .* its table has changed"):
        consortium.train()


def test_a_bound_above_the_loss_is_no_proof(tmp_path, monkeypatch):
    """It ends the study instead of counting as reached."""
    write(tmp_path)
    wrong = Measurement(1.0, 1.001)
    consortium = Consortium(tmp_path)
    runner = consortium.hosted().runner
    run = type(runner.driver).run

    def lie(driver, conversation, traffic):
        answer = run(driver, conversation, traffic)
        return wrong if isinstance(answer, Measurement) else answer

    monkeypatch.setattr(type(runner.driver), "run", lie)
    with pytest.raises(StudyError, match="lower bound is above the loss"):
        runner.finish()

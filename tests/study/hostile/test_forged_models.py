"""What is released is what was certified: forged weights, models and scalings.

The liars frame their own messages (``tests/support/liars.py``). Each test passes only
if the lie is found out.
"""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np
import pytest

from hyfdca.errors import StudyError
from hyfdca.model.file import as_bytes
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import BadReplyError
from hyfdca.runtime.store import Archive, StoreError
from hyfdca.study.local.run import Consortium as Names
from hyfdca.study.local.run import Run
from hyfdca.study.outcome import Outcome, conclude
from hyfdca.study.presence import Presence
from hyfdca.study.resume import ResumableStudy
from tests.support.durable_runs import Consortium, undisturbed, write
from tests.support.liars import Liar, framed, times, unframed
from tests.support.small_runs import classification, make_training, partition_of

NAMES = ["north", "city", "coast"]
METHODS = {
    "bundle": {"algorithm": '"bundle"', "tol": "1e-3"},
    "hyfdca": {"algorithm": '"hyfdca"', "max_rounds": "3"},
    "fedavg": {"algorithm": '"fedavg"', "max_rounds": "3"},
}


class LyingConsortium(Consortium):
    """A study one of whose organisations lies."""

    def __init__(self, folder, rank, *lies):
        self._rank, self._lies = rank, lies
        super().__init__(folder)

    def member(self, rank):
        """Start a member, the liar with its lies."""
        member = super().member(rank)
        return Liar(member, *self._lies) if rank == self._rank else member

    @property
    def liar(self):
        """The member that lies."""
        return self.network._members[self._rank]


def forged(*features):
    """Return what multiplies the released weights of some features by -3.

    The liar takes its lie for the truth when the model's weights come back to it.
    """
    released = []

    def forge(content):
        released[:] = content
        numbers = np.frombuffer(content[0], "<f8").copy()
        numbers[list(features) or slice(None)] *= -3.0
        return [numbers.astype("<f8").tobytes()]

    return {"release": forge}, {"confirm": lambda content: [*released, *content[1:]]}


def refusal(folder, rank, lies):
    """Return the sentence with which a study ends because of a liar."""
    consortium = LyingConsortium(folder, rank, *lies)
    with pytest.raises(StudyError) as ended:
        consortium.train()
    assert consortium.liar.n_lies > 0
    return str(ended.value)


@pytest.mark.parametrize("profile", ["sealed", "open"])
@pytest.mark.parametrize("method", METHODS)
def test_a_forged_release_is_noticed_and_named(method, profile, tmp_path):
    """City shares a column with north and the intercept with all, so it is outvoted."""
    folder = write(tmp_path, profile=f'"{profile}"', **METHODS[method])
    sentence = refusal(folder, 1, forged())
    assert "'city'" in sentence or "different weights" in sentence
    assert "ends without a model" in sentence


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_one_of_three_holders_is_outvoted(rank):
    """All three have all columns; only the liar is named, whichever counts them."""
    X, labels = classification(60, 4)
    run = make_training(X, labels, partition_of("3x1", 60, 4), algorithm="bundle")
    clients = run.driver._clients
    run.driver._clients = {**clients, rank: Liar(clients[rank], *forged(2))}
    with pytest.raises(BadReplyError, match="other weights than those") as ended:
        run.finish()
    assert ended.value.clients == (rank,)


def test_of_two_holders_both_are_named(tmp_path):
    """Nobody can tell which of them lies; the third is not blamed."""
    sentence = refusal(write(tmp_path, **METHODS["bundle"]), 2, forged(0))
    assert "'north', 'coast'" in sentence
    assert "'city'" not in sentence


@pytest.mark.parametrize("profile", ["sealed", "open"])
@pytest.mark.parametrize("method", METHODS)
def test_a_forged_weight_that_nobody_else_holds_shows_in_the_loss(
    method, profile, tmp_path
):
    """Only city has x3 and x4: the loss at the forged weights is not the certified."""
    folder = write(tmp_path, profile=f'"{profile}"', **METHODS[method])
    sentence = refusal(folder, 1, forged(1, 2))
    everybody = "One of the organisations 'north', 'city', 'coast' is wrong: "
    assert sentence.startswith(f"{everybody}at the released weights the loss is")
    assert "certified" in sentence


@pytest.mark.parametrize("encryption", ["none", "stream"])
def test_honest_studies_release_what_they_did(encryption, tmp_path):
    """So do studies with a free intercept, offsets of rows and scaled targets."""
    folder = write(tmp_path, encryption=f'"{encryption}"', **METHODS["bundle"])
    _, weights = Consortium(folder).train()
    assert weights.tobytes() == undisturbed(folder)[1].tobytes()


# The file


def model_of(consortium):
    """Train a study; return its model file and its last accounts."""
    hosted = consortium.hosted()
    weights, runner, prepared = hosted.runner.finish(), hosted.runner, hosted.prepared
    run = Run(
        consortium.file.study,
        Names(consortium.plan.names, prepared.levels),
        prepared.scaling,
        hosted.traffic,
        runner,
        target=prepared.target,
    )
    model = Outcome(run, weights, runner.certificate, 0.0).model()
    accounts = hosted.checkpoints._presence.accounts
    return model, msgspec.msgpack.decode(msgspec.msgpack.encode(accounts))


def hand_over(consortium, model, accounts, rank):
    """Give a member a model file, as a server of its own would."""
    content = [as_bytes(model), accounts]
    member = consortium.member(rank)  # a new process, with what it has saved
    member.handle("study", "finish", framed(b"hyfdca:1", 2**60, content))
    return member


def changed(model, **fields):
    """Return a model with some of its fields changed."""
    return msgspec.structs.replace(model, **fields)


def with_weight(model, name):
    """Return a model with another weight, in its last bit."""
    weights = {**model.weights}
    weights[name] = tuple(np.nextafter(weights[name], 9.0).tolist())
    return changed(model, weights=weights)


def with_scaling(model, field, name):
    """Return a model with a column scaled otherwise."""
    values = {**getattr(model.scaling, field)}
    values[name] *= 1.5
    return changed(model, scaling=changed(model.scaling, **{field: values}))


FORGERIES = {
    "the weight of 'x2'": lambda model: with_weight(model, "x2"),
    "the weight of 'x4'": lambda model: with_weight(model, "x4"),
    "the scaling of 'x3'": lambda model: with_scaling(model, "scales", "x3"),
    "the scaling of 'x4'": lambda model: with_scaling(model, "offsets", "x4"),
    "the intercept": lambda model: changed(model, intercept=(0.5,)),
    "the certificate": lambda model: changed(
        model, certificate=changed(model.certificate, relative_gap=1e-9)
    ),
    "the loss": lambda model: changed(model, loss="squared_hinge"),
    "what becomes of blank cells": lambda model: changed(
        model, scaling=changed(model.scaling, missing="mean")
    ),
    "which columns are dates": lambda model: changed(model, dates=("x3",)),
}
STUDIES = {
    "classes": {},
    "penalised": {"penalise_intercept": "true"},
    "chosen l2": {"l2": "[1.0, 0.1]", "folds": "2"},
    "regression": {"loss": '"half_squared"', "labels": True},
}


def test_classes_the_other_way_round_are_refused(tmp_path):
    """All weights are right, and every prediction is wrong."""
    consortium = Consortium(write(tmp_path, tol="1e-2"))
    model, accounts = model_of(consortium)
    swapped = changed(model, classes=model.classes[::-1])
    for rank in range(3):
        with pytest.raises(RemoteProtocolError, match="order of the classes differs"):
            hand_over(consortium, swapped, accounts, rank)


def test_another_l2_is_refused(tmp_path):
    """Organisations know l2, unless the run chooses it."""
    consortium = Consortium(write(tmp_path, tol="1e-2"))
    model, accounts = model_of(consortium)
    with pytest.raises(RemoteProtocolError, match="released: l2 differs"):
        hand_over(consortium, changed(model, l2=2 * model.l2), accounts, 1)


@pytest.mark.parametrize("kind", STUDIES)
def test_a_forged_model_is_refused_by_who_holds_the_column(kind, tmp_path):
    """City compares the file with its own part, also after a restart."""
    settings = dict(STUDIES[kind])
    if settings.pop("labels", False):
        settings["labels"] = [float(row % 7) for row in range(60)]
    consortium = Consortium(write(tmp_path, tol="1e-2", **settings))
    model, accounts = model_of(consortium)
    for rank in range(3):
        assert hand_over(consortium, model, accounts, rank).model == as_bytes(model)
    for what, forge in FORGERIES.items():
        with pytest.raises(RemoteProtocolError) as refused:
            hand_over(consortium, forge(model), accounts, 1)
        assert f"the model does not fit what this organisation released: {what}" in str(
            refused.value
        )


def test_a_new_process_still_wants_the_accounts_of_the_last_round(tmp_path):
    """A server that starts another job has not escaped the comparison."""
    consortium = Consortium(write(tmp_path, tol="1e-2"))
    model, accounts = model_of(consortium)
    withheld = ([], accounts[:2], [*accounts[:2], accounts[0]])
    for rank, given in product(range(3), withheld):
        if rank == 2 and given:
            continue  # its own account is the one that is missing
        with pytest.raises(RemoteProtocolError, match="withholds what other"):
            hand_over(consortium, model, given, rank)
    for _ in range(2):
        assert hand_over(consortium, model, accounts, 1).model == as_bytes(model)


def test_a_new_process_notices_what_the_old_one_was_sent(tmp_path):
    """One organisation was sent something else with the last round."""
    consortium = Consortium(write(tmp_path, tol="0.0", max_rounds="3"))
    deliver = consortium.network._delivered

    def lying(rank, stage, phase, payload):
        if phase == "keep" and rank == 1:
            token, number, content = unframed(payload)
            if content[0] == 3:
                content[2] = content[2][::-1]  # who is present
            payload = framed(token, number, content)
        return deliver(rank, stage, phase, payload)

    consortium.network._delivered = lying
    model, accounts = model_of(consortium)
    for rank in range(3):
        with pytest.raises(RemoteProtocolError, match="something different from"):
            hand_over(consortium, model, accounts, rank)


@pytest.mark.parametrize("phase", ["return", "begin"])
def test_where_training_continues_the_model_is_confirmed_again(phase, tmp_path):
    """Otherwise the accounts of later rounds would not be compared."""
    consortium = Consortium(write(tmp_path, tol="0.0", max_rounds="3"))
    model, accounts = model_of(consortium)
    content = [2, 2**50] if phase == "return" else [2**50, 1, None, None, None]
    member = consortium.member(1)
    member.handle("study", phase, framed(b"hyfdca:1", 2**50, content))
    with pytest.raises(RemoteProtocolError, match="no record of weights"):
        hand_over(consortium, model, accounts, 1)


def hosts(consortium):
    """Return a server that has just started, with everybody restarted too."""
    for rank in range(3):
        consortium.network.restart(rank)
    plan, archive = consortium.plan, Archive(consortium.server_store)
    presence = Presence(plan, consortium.network, consortium.sentences.append)
    return ResumableStudy(plan, consortium.network, presence, archive), presence


def test_a_server_that_restarts_hands_the_accounts_over_too(tmp_path):
    """Everybody has a new process, and the model is accepted as often as it comes."""
    consortium = Consortium(write(tmp_path, tol="1e-2"))
    model, _ = model_of(consortium)
    for _ in range(2):
        host, presence = hosts(consortium)
        host.hand_over()
        presence.call(presence.everyone)
        for _ in range(2):
            assert presence.finish(as_bytes(model), presence.everyone) == [0, 1, 2]


def test_a_damaged_last_round_of_the_server_is_run_again(tmp_path):
    """The accounts are lost, and the model is the same."""
    consortium = Consortium(write(tmp_path, tol="1e-2"))
    model, _ = model_of(consortium)
    archive = Archive(consortium.server_store)
    name = f"round-{archive.rounds[-1]}"
    consortium.server_store.write(name, consortium.server_store.read(name)[:-1])
    host, _ = hosts(consortium)
    with pytest.raises(StoreError, match="damaged"):
        host.hand_over()
    again, accounts = model_of(consortium)
    assert again.weights == model.weights
    assert hand_over(consortium, again, accounts, 1).model == as_bytes(again)


@pytest.mark.parametrize("restarts", [False, True])
def test_who_was_away_in_the_last_rounds_gets_the_model(restarts, tmp_path):
    """Its account is of an earlier round, so everybody gives another one."""
    settings = {"quorum": "2", "profile": '"open"', "tol": "0.0", "max_rounds": "7"}
    consortium = Consortium(write(tmp_path, algorithm='"bundle"', **settings))
    deliver, is_away = consortium.network._delivered, False

    def partly(rank, stage, phase, payload):
        if is_away and rank == 2:
            raise RemoteProtocolError("it is away")
        return deliver(rank, stage, phase, payload)

    def wait(missing):
        nonlocal is_away
        is_away = False
        if restarts:
            consortium.network.restart(2)

    consortium.network._delivered, consortium.network.wait = partly, wait
    hosted = consortium.hosted()
    for report in hosted.runner.rounds():
        is_away = report.round_number >= 4
    assert report.participants == (0, 1)
    model = conclude(consortium._run(hosted)).model()
    presence = hosted.checkpoints._presence
    assert presence.finish(as_bytes(model), presence.everyone) == [0, 1, 2]


def test_a_model_before_the_end_is_refused(tmp_path):
    """A client that has released no weights takes no model."""
    consortium = Consortium(write(tmp_path, tol="1e-2"))
    consortium.begin(1)
    member = consortium.member(0)
    notice = framed(b"hyfdca:1", 2**60, [b"{}", []])
    with pytest.raises(RemoteProtocolError, match="no record of weights"):
        member.handle("study", "finish", notice)


# Scaling


def test_statistics_that_differ_between_holders_name_them(tmp_path):
    """North and city both have x2; who alone has a column is believed."""
    lies = {
        "statistics": lambda content: [content[0], times(content[1], 2.0), content[2]]
    }
    consortium = LyingConsortium(write(tmp_path), 1, lies)
    with pytest.raises(StudyError, match="different statistics") as ended:
        consortium.train()
    assert "'coast'" not in str(ended.value)

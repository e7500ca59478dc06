"""A little fuzzing: a few hundred cases of what ``make fuzz`` tries by the thousand."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from hyfdca.audit.values import VALUES
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.server_session import BadReplyError
from tests.fuzz.again import run_again
from tests.fuzz.cases import Case, Finding, Tally, attempt
from tests.fuzz.corpus import make_corpus
from tests.fuzz.files import KINDS, FileKind, try_file
from tests.fuzz.lies import (
    _CHECKED_REPLIES,
    _CHECKED_REQUESTS,
    CONTRADICTION,
    is_contradiction,
    n_untold,
    verdict,
)
from tests.fuzz.messages import Walk, Whole, check_blame, try_whole
from tests.fuzz.parties import Place, Straight, prediction, training
from tests.fuzz.snapshots import Frozen, share_what_never_changes

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.xdist_group("fuzz"),  # one set of files for all of them
]

SEED = 20261118


@pytest.fixture
def snapshots():
    """Let halves be copied, for this test only."""
    with share_what_never_changes():
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Return small real files of every kind."""
    root = tmp_path_factory.mktemp("fuzz") / "corpus"
    make_corpus(root)
    return root


def ignore(case):
    """Watch nothing."""


@pytest.mark.slow
@pytest.mark.usefixtures("snapshots")
@pytest.mark.parametrize(
    "name",
    [
        "bundle-tested",
        "hyfdca-safe",
        pytest.param("bundle", marks=pytest.mark.thorough),  # as tested, but shorter
    ],
)
def test_changed_messages_are_refused_in_our_own_words(name, tmp_path):
    """Whatever is changed, no half crashes, and errors name the right client."""
    conversation, tally = training(tmp_path, name), Tally(folder=tmp_path / "findings")
    undisturbed = conversation.run(Straight(), str)
    walk = Walk(conversation, tally, SEED, 0.7, ignore)
    assert walk.run() == undisturbed
    for case in walk.accepted[:: len(walk.accepted) // 4]:
        try_whole(Whole(conversation, case), undisturbed, tally, ignore)
    assert not tally.failures
    assert sum(tally.outcomes.values()) > 100
    assert tally.outcomes["request: refused"] > tally.outcomes["request: accepted"] > 0
    assert tally.outcomes["reply: refused"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("snapshots")
def test_changed_messages_of_predictions(corpus, tmp_path):
    """Predictions of split rows handle changed messages in the same way."""
    conversation = prediction(corpus, corpus / "out" / "model.json")
    tally = Tally(folder=tmp_path / "findings")
    undisturbed = conversation.run(Straight(), str)
    assert Walk(conversation, tally, SEED, 1.0, ignore).run() == undisturbed
    assert not tally.failures
    assert sum(tally.outcomes.values()) > 50


@pytest.mark.parametrize(
    "kind", ["CSV table", "study file", "model", "view", "request", "package"]
)
def test_spoilt_files_are_refused_in_our_own_words(kind, corpus, tmp_path):
    """Whatever is spoilt, a file is read or refused; then it is as it was."""
    tally = Tally(folder=tmp_path / "findings")
    before = (corpus / KINDS[kind].path).read_bytes()
    for number in range(25):
        try_file(corpus, Case("file", kind, 0, number, SEED), tally, ignore)
    assert not tally.failures
    assert tally.outcomes["file: refused"] > 0
    assert (corpus / KINDS[kind].path).read_bytes() == before


def test_every_kind_of_file_is_read_as_it_is(corpus):
    """Findings are of what was changed: unchanged files have something to read."""
    found = {name: kind.read(corpus) for name, kind in KINDS.items()}
    assert [name for name, content in found.items() if not content] == []


def test_a_failing_case_can_be_run_again(corpus, tmp_path, monkeypatch):
    """What is written down holds all that it takes, and the failure comes back."""

    def break_down(root: Path) -> None:
        raise ZeroDivisionError("a bug")

    broken = FileKind("study.toml", lambda content, _: content, break_down)
    monkeypatch.setitem(KINDS, "broken", broken)
    tally = Tally(folder=tmp_path / "findings")
    try_file(corpus, Case("file", "broken", 0, 1, SEED), tally, ignore)
    [written] = (tmp_path / "findings").glob("*.json")
    content = json.loads(written.read_text())
    assert "a bug" in content["error"]
    monkeypatch.setattr("tests.fuzz.again.make_corpus", partial(copytree, corpus))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        run_again(content["case"])


@pytest.mark.parametrize(
    ("error", "is_right"),
    [
        (BadReplyError("bounds", 1, "too large"), True),
        (BadReplyError("bounds", 0, "too large"), False),
        (RemoteProtocolError("too large"), False),
    ],
)
def test_blame_is_checked(error, is_right):
    """An error must name the client whose reply was changed."""
    if is_right:
        check_blame(error, 1, str(error))
        return
    with pytest.raises(Finding, match=r"names (another|no) client"):
        check_blame(error, 1, str(error))


def test_foreign_exceptions_are_failures(tmp_path):
    """The project's own errors count as refusals, all others as failures."""
    tally = Tally(folder=tmp_path / "findings")

    def refuse() -> str:
        raise RemoteProtocolError("no")

    def crash() -> str:
        raise KeyError("no")

    for number, act in enumerate((refuse, crash)):
        case = Case("file", "model", 0, number, SEED)
        attempt(tally, case, act, lambda: ("", b""))
    assert tally.outcomes == {"file: refused": 1}
    assert [name.split(" at ")[0] for name in tally.failures] == ["file: KeyError"]


@pytest.mark.parametrize(
    ("kind", "values", "is_untold"),
    [
        ("whole reply", {"margins"}, True),  # a table may have such numbers
        ("whole reply", {"TooLarge instead of Part"}, True),
        ("whole reply", {"released weights"}, False),  # other holders have them too
        ("whole reply", {"margins", "keys"}, False),
        ("whole reply", {"Vouched instead of Opened"}, False),
        ("whole reply", set(), False),  # it did not even decode
        ("whole request", {"margins"}, True),  # a sum, which the server alone has made
        ("whole request", {"plane weights"}, False),  # clients compare them
    ],
)
def test_lies_that_somebody_could_have_detected(kind, values, is_untold):
    """Another model without a name is a finding unless data cannot tell."""
    place = Place("training", "trial", 1)
    if is_untold:
        assert n_untold(Counter([verdict(kind, place, values)])) == 1
        return
    with pytest.raises(Finding, match="nobody is named"):
        verdict(kind, place, values)


@pytest.mark.parametrize(
    ("kind", "value", "is_untold"),
    [
        ("whole request", "grids", True),  # a server may say that a run diverged
        ("whole reply", "TooLarge instead of Part", True),
        ("whole reply", "P and D", False),
    ],
)
def test_a_study_that_is_made_to_diverge(kind, value, is_untold):
    """Its model says that it diverged; a name is due only if somebody can tell."""
    place = Place("training", "planes", 0)
    if is_untold:
        assert "diverged" in verdict(kind, place, {value}, is_diverged=True)
        return
    with pytest.raises(Finding, match="nobody is named"):
        verdict(kind, place, {value}, is_diverged=True)


@pytest.mark.parametrize(
    ("said", "values", "is_right"),
    [
        (CONTRADICTION, {"losses"}, True),
        (CONTRADICTION, {"P and D"}, False),  # a witness vouches for them
        (CONTRADICTION, set(), False),
        ("A bug.", {"losses"}, False),
    ],
)
def test_a_contradiction_is_nobodys_in_particular(said, values, is_right):
    """A study may end so if the lie was about numbers that only its sender has."""
    assert is_contradiction(said, values) == is_right


def test_every_value_of_the_tables_exists():
    """A value that is renamed would otherwise silently count as untold."""
    assert VALUES.keys() >= (_CHECKED_REPLIES | _CHECKED_REQUESTS)


@pytest.mark.usefixtures("snapshots")
def test_a_copy_is_as_it_was_when_it_was_frozen():
    """Copies share nothing that changes, neither with the original nor each other."""
    original = {"numbers": np.arange(3), "list": [1]}
    frozen = Frozen(original)
    original["numbers"][0] = 9
    first, second = frozen.copy(), frozen.copy()
    first["list"].append(2)
    assert second["numbers"].tolist() == [0, 1, 2]
    assert second["list"] == [1]


@pytest.mark.usefixtures("snapshots")
def test_a_copied_closure_has_a_copy_of_what_it_closes_over():
    """Otherwise a copy of a client could change the client itself."""

    def make(numbers):
        return {"add": lambda: numbers.append(1), "numbers": numbers}

    original = make([])
    copied = Frozen(original).copy()
    copied["add"]()
    assert (original["numbers"], copied["numbers"]) == ([], [1])

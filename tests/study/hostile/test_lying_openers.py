"""A client that opens totals and lies about them is found out and named.

The liars frame their own messages (``tests/support/liars.py``). North is the
lowest-ranked organisation and opens totals, city is its witness.
"""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca.errors import StudyError
from tests.study.hostile.test_forged_models import LyingConsortium
from tests.support.durable_runs import undisturbed, write

BUNDLE = {"algorithm": '"bundle"', "tol": "1e-4"}
HYFDCA = {"algorithm": '"hyfdca"', "max_rounds": "3"}
FEDAVG = {"algorithm": '"fedavg"', "max_rounds": "3"}
NORTH, CITY, COAST = range(3)


def numbers_times(factor):
    """Return what multiplies the whole numbers of an answer."""

    def lie(content):
        kind, values = content
        changed = np.frombuffer(values, "<i8") * factor
        return [kind, changed.astype("<i8").tobytes()]

    return lie


def one_more(content):
    """Change a single number by one step of its grid."""
    kind, values = content
    numbers = np.frombuffer(values, "<i8").copy()
    numbers[-1] += 1
    return [kind, numbers.tobytes()]


def ending(folder, rank, lies):
    """Return the sentence with which a study ends because of a liar."""
    consortium = LyingConsortium(folder, rank, lies)
    with pytest.raises(StudyError) as ended:
        consortium.train()
    assert consortium.liar.n_lies == 1, "the first lie is found out"
    return str(ended.value)


ACCUSED = "One of the organisations 'north', 'city', 'coast' is wrong: the first"
LIES = {
    "P along a search": (BUNDLE, "open search", numbers_times(0.83)),
    "planes that are too high": (BUNDLE, "open planes", numbers_times(0.83)),
    "one bit of P": (BUNDLE, "open search", one_more),
    "one bit of the planes": (BUNDLE, "open planes", one_more),
    "P and D of HyFDCA": (HYFDCA, "open", numbers_times(0.5)),
    "D along a direction": (
        {**HYFDCA, "step": '"line_search"', "local_fraction": "0.5"},
        "open step",
        numbers_times(0.5),
    ),
    "P and D of any method": (FEDAVG, "open", one_more),
    "the loss at the end": (BUNDLE, "open confirmed", numbers_times(0.5)),
}


@pytest.mark.parametrize("encryption", ["stream", "none"])
@pytest.mark.parametrize("lie", LIES)
def test_a_lying_opener_is_named(lie, encryption, tmp_path):
    """It is named first, then its witness: nobody can tell which of the two lies.

    Others are named as well, because a wrong part would look the same.
    """
    settings, phase, change = LIES[lie]
    folder = write(tmp_path, encryption=f'"{encryption}"', **settings)
    if encryption == "stream":
        sentence = ending(folder, NORTH, {phase: change})
        assert ACCUSED in sentence
        assert "does not vouch for" in sentence
        return
    # The server has the numbers itself, and tries again before it gives up.
    consortium = LyingConsortium(folder, NORTH, {phase: change})
    with pytest.raises(StudyError, match="other totals than it was sent") as ended:
        consortium.train()
    assert str(ended.value).startswith("Organisation 'north'")


@pytest.mark.parametrize("phase", ["open search", "open planes"])
def test_a_lying_witness_is_named_too(phase, tmp_path):
    """It cannot have somebody else blamed alone."""
    folder = write(tmp_path, encryption='"stream"', **BUNDLE)
    assert ACCUSED in ending(folder, CITY, {phase: one_more})


def garbage(field):
    """Return what spoils a vector that a client sends: its part, or its tags."""

    def lie(content):
        kind, own = content
        spoilt = bytearray(own[field])
        spoilt[31] ^= 0x60  # the first number's highest byte, after the nonce
        own[field] = bytes(spoilt)
        return [kind, own]

    return lie


GARBAGE = {
    "a part of P": ("search", garbage(1)),
    "tags of it": ("search", garbage(2)),
    "margins": ("trial", garbage(1)),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_in_a_sum_blames_nobody_in_particular(what, tmp_path):
    """Only the sum is opened, so the sentence names everybody who sent a part."""
    phase, lie = GARBAGE[what]
    folder = write(tmp_path, encryption='"stream"', **BUNDLE)
    consortium = LyingConsortium(folder, COAST, {phase: lie})
    with pytest.raises(StudyError) as ended:
        consortium.train()
    sentence = str(ended.value)
    assert sentence.startswith("One of the organisations 'north', 'city', 'coast' ")
    if what == "tags of it" and "does not vouch" in sentence:
        # By chance they are within range: opener and witness contradict each other.
        assert "or a part that was sent is wrong" in sentence
        return
    assert "a part of one of them is wrong" in sentence


def certified(content):
    """Report conjugates with which D is just below P, whatever the duals are."""
    kind, values = content
    loss, _, norm, above = np.frombuffer(values, "<i8").tolist()
    primal = loss + norm
    conjugate = -above - round(primal * (1 - 5e-5))
    return [kind, np.array([loss, conjugate, norm, above], "<i8").tobytes()]


def test_no_opener_makes_up_a_certificate(tmp_path, monkeypatch):
    """Without its witness it would end a study at once, far from the optimum."""
    settings = {"algorithm": '"hyfdca"', "tol": "1e-4", "max_rounds": "500"}
    folder = write(tmp_path, encryption='"stream"', **settings)
    best = undisturbed(folder)[0].measurement
    with monkeypatch.context() as patch:
        patch.setattr("hyfdca.federation.totals.check_vouched", lambda *_: None)
        runner, _ = LyingConsortium(folder, NORTH, {"open": certified}).train()
    assert runner.stop_reason == "tolerance"
    assert runner.measurement.relative_gap < 1e-4
    assert (runner.measurement.primal - best.primal) / best.primal > 0.17
    assert ACCUSED in ending(folder, NORTH, {"open": certified})

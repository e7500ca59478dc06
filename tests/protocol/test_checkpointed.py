"""No attribute that changes in rounds is forgotten: a state has it, or it is said."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from hyfdca.protocol.checkpoint import Kept, is_kept, kept_names
from tests.protocol.attributes import forgotten, snapshot
from tests.support.run_cases import AXES, MORE_METHODS, Case
from tests.support.sealed_runs import ENCRYPTIONS

pytestmark = pytest.mark.usefixtures("small_paillier")

SLOW_PAILLIER = pytest.param("paillier", marks=pytest.mark.slow)
METHODS = [*AXES["method"], *MORE_METHODS]


def _seen_in_rounds(run):
    """Run all rounds; return what was forgotten, and all objects there were."""
    changed, everything = set(), {}
    run.driver.run(run.server.set_up(), run.set_up_traffic)
    run._measure(run.set_up_traffic)
    before = snapshot(run.server, *run.clients)
    for _ in run.rounds():
        after = snapshot(run.server, *run.clients)
        changed |= forgotten(before, after)
        everything |= before
        before = after
    run.release()
    changed |= forgotten(before, snapshot(run.server, *run.clients))
    return changed, [seen.thing for seen in everything.values()]


@pytest.mark.parametrize("name", ["stream", SLOW_PAILLIER])
@pytest.mark.parametrize("method", METHODS)
def test_all_that_changes_is_known(method, name):
    """In rounds of every kind only such attributes change as classes say."""
    rest = itertools.product(AXES["profile"], AXES["presence"], AXES["labels"])
    for profile, presence, labels in rest:
        case = Case(method, "overlapping", profile, presence, labels, 1, name)
        if case.is_possible:
            changed, _ = _seen_in_rounds(case.run(ENCRYPTIONS[name]))
            assert changed == set(), case


def test_all_that_is_kept_is_there():
    """No class keeps an attribute that none of its objects ever has."""
    kept, there = set(), set()
    rest = itertools.product(METHODS, AXES["profile"], AXES["presence"])
    for method, profile, presence in rest:
        case = Case(method, "grid", profile, presence, "some", 1, "stream")
        if case.is_possible:
            _, things = _seen_in_rounds(case.run(ENCRYPTIONS["stream"]))
            for thing in filter(is_kept, things):
                names = {(type(thing), name) for name in kept_names(type(thing))}
                kept |= names
                there |= {name for name in names if hasattr(thing, name[1])}
    assert kept == there


# That the test itself notices


@dataclass
class Part(Kept):
    """Something that changes."""

    kept: ClassVar[tuple[str, ...]] = ("known",)
    passing: ClassVar[tuple[str, ...]] = ("cache",)

    known: int = 0
    cache: int = 0
    array: np.ndarray = field(default_factory=lambda: np.zeros(2))

    def change(self):
        """Change what is known to change."""
        self.known += 1
        self.cache += 1


@dataclass
class Whole(Kept):
    """Something with parts, of which one is forgotten."""

    kept: ClassVar[tuple[str, ...]] = ("part",)

    part: Part = field(default_factory=Part)
    other: Part = field(default_factory=Part)


class Phased(Kept):
    """Something with a part that only a phase refers to."""

    def __init__(self):
        self.phases = {"change": Part().change}


def test_known_changes_are_none():
    """An attribute that a class keeps, or that passes, may change."""
    whole = Whole()
    before = snapshot(whole)
    whole.part.change()
    whole.other.cache += 1
    assert forgotten(before, snapshot(whole)) == set()


def test_a_forgotten_attribute_is_noticed():
    """Also one that is changed in place."""
    whole = Whole()
    before = snapshot(whole)
    whole.part.array[1] = 1.0
    assert forgotten(before, snapshot(whole)) == {"Part.array"}
    whole.more = 3
    assert forgotten(before, snapshot(whole)) == {"Part.array", "Whole.more"}


@pytest.mark.parametrize("kind", [Whole, Phased])
def test_a_forgotten_part_is_noticed(kind):
    """What a part keeps is lost if its owner does not keep the part."""
    whole = kind()
    change = whole.other.change if kind is Whole else whole.phases["change"]
    before = snapshot(whole)
    change()
    assert forgotten(before, snapshot(whole)) == {"Part.known"}

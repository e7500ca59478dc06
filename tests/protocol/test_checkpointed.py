"""Checkpoints are complete: a restored run equals the saved one in every attribute."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from hyfdca.algorithms.bundle import server as bundle_server
from hyfdca.crypto.schemes.stream_sums import StreamAdder
from hyfdca.protocol.checkpoint import CheckpointError, encode, load, save
from tests.protocol.attributes import differences
from tests.protocol.kinds import KINDS, make_run, runs_of
from tests.support.run_cases import AXES, coarsen
from tests.support.saved_runs import Saved
from tests.support.small_runs import set_up, start
from tests.support.thoroughness import IS_THOROUGH

pytestmark = pytest.mark.usefixtures("small_paillier")

# Attributes that no checkpoint contains.
TRANSIENT = {
    # Caches, filled again on demand
    "CachedSum._totals",  # the sum of all parts
    "CachedSum._taken",  # extracts of that sum, by place
    "LatestSum._taken",
    "Evaluation._grids",
    "SealedVectors.layouts",  # by kind and width; determined by the holdings
    "PlaneCollection._layouts",  # by width; determined by the buckets
    "VisitedBuckets._rows",  # by bucket; determined by set-up
    "Arrangement._blocks",  # by width and slots; determined by the owner groups
    # Within an evaluation, which is repeated as a whole
    "Evaluated._weights",
    # Within a round, which is repeated as a whole
    "RoundStart._number",
    "RoundStart._value",
    "DiscoClient._solve",
    "DiscoClient._second",
    "D3caClient._duals",
    "FedDcdClient._participation",
    # A suspended conversation; states are saved only where there is none.
    "BundleServer._steps",
    "AsyncBundleServer._steps",
    "LbfgsServer._steps",
    # Planes are compared again from the next round on; repeated rounds may differ.
    "PlaneConsistency._trial",
    "PlaneConsistency.differences",
    # Sealers are never restored, so that no pad is used twice.
    "Sealing._by_kind",
    # Who opens totals that were asked for within a round
    "Federation._openers",
    # What this process has vouched for
    "KnownVectors._ways",
    "KnownVectors._oldest",
    # What it has sealed, which a round that is repeated seals again
    "Sealing.most_sealed",
}

SLOW = pytest.mark.slow


def fresh(run):
    """Return a run with the same settings and keys, after its set-up only."""
    secrecy = run.training.secrecy
    return set_up(
        start(run.settings, run.layout, run.blocks, run.participation, secrecy)
    )


def halves(run):
    """Return the server's half and the clients' halves."""
    return [run.server, *run.clients]


def all_differences(run, other):
    """Return every attribute in which the halves of two runs differ."""
    pairs = zip(halves(run), halves(other), strict=True)
    return [found for pair in pairs for found in differences(*pair, TRANSIENT)]


def saved_states(run, every=1) -> Iterator[Saved]:
    """Run all rounds; yield some of the states, from round 2 on coarser grids."""
    n_states = 0
    for report in run.rounds():
        if report.round_number == 2:
            coarsen(run)
        if run.server.is_between_steps:
            if n_states % every == 0:
                yield Saved.of(run)
            n_states += 1


def history(run):
    """Return a history bit for bit, without its timings."""
    return [
        {name: repr(value) for name, value in record.items() if "seconds" not in name}
        for record in run.history
    ]


@pytest.mark.sampled(17)
@pytest.mark.parametrize(
    "scheme", ["none", "stream", pytest.param("paillier", marks=SLOW)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_back(kind, scheme):
    """A fresh run that is restored equals the saved run in every attribute.

    Both then continue with the same history.
    """
    for run in runs_of(kind, scheme):
        resumed = []
        for saved in saved_states(run, every=1 if IS_THOROUGH else 3):
            other = fresh(run)
            assert all_differences(run, other)  # the rounds changed something
            saved.put_back(other)
            assert all_differences(run, other) == []
            if run.runner.progress.n_rounds >= 2:  # on the grids of the later rounds
                resumed.append(other)
        weights = run.finish()
        assert resumed
        for other in (*resumed[:1], *resumed[1:][-1:]):
            assert other.finish().tobytes() == weights.tobytes()
            assert history(other) == history(run)
            if scheme == "none":  # no two sealed vectors are alike
                assert all_differences(run, other) == []


# Losing any field of a state is noticed


def is_state(value: Any) -> bool:
    """Return whether a value is a state, or a list of states."""
    if isinstance(value, list):
        return bool(value) and all(map(is_state, value))
    return is_state_class(type(value))


def is_state_class(kind: Any) -> bool:
    """Return whether a class is a class of states."""
    return dataclasses.is_dataclass(kind) and kind.__name__.endswith("State")


def losses(state: Any, other: Any) -> Iterator[tuple[str, Any]]:
    """Yield the state with one field replaced by the other's, for each that differs."""
    if isinstance(state, list):
        for place, (own, foreign) in enumerate(zip(state, other, strict=True)):
            for name, lost in losses(own, foreign):
                yield name, [*state[:place], lost, *state[place + 1 :]]
        return
    for entry in dataclasses.fields(state):
        own, foreign = getattr(state, entry.name), getattr(other, entry.name)
        if is_state(own) and is_state(foreign):
            for name, lost in losses(own, foreign):
                yield name, dataclasses.replace(state, **{entry.name: lost})
        elif differences([own], [foreign]):
            name = f"{type(state).__name__}.{entry.name}"
            yield name, dataclasses.replace(state, **{entry.name: foreign})


def fields_of(state: Any) -> Iterator[tuple[str, bool]]:
    """Yield the fields of a state and of nested states, and whether each is nested.

    Fields that are None now are left out.
    """
    if isinstance(state, list):
        for part in state:
            yield from fields_of(part)
        return
    for entry in dataclasses.fields(state):
        value = getattr(state, entry.name)
        if value is not None:
            yield f"{type(state).__name__}.{entry.name}", is_state(value)
        if is_state(value):
            yield from fields_of(value)


def all_fields(kind: Any) -> set[str]:
    """Return the fields of a class of states and of all nested classes."""
    if not is_state_class(kind):
        return set().union(*map(all_fields, get_args(kind)))
    own = {f"{kind.__name__}.{entry.name}" for entry in dataclasses.fields(kind)}
    return own.union(*map(all_fields, get_type_hints(kind).values()))


def check_losses(run, noticed: set[str]) -> None:
    """Lose each field of a run's states in turn; note those whose loss is noticed."""
    other = fresh(run)
    number = other.federation.session.number
    for half, twin in zip(halves(run), halves(other), strict=True):
        state, start = half.state(), twin.state()
        for name, lost in losses(state, start):
            if name in noticed:
                continue
            other.federation.session.number = number  # restoring never lowers it
            load(twin, encode(lost))
            assert differences(half, twin, TRANSIENT), f"losing {name} goes unnoticed"
            noticed.add(name)


@pytest.mark.thorough
def test_losing_any_field_of_a_state_is_noticed(monkeypatch):
    """The comparison above fails without it, whatever the class of the state."""
    monkeypatch.setattr(StreamAdder, "capacity", 4)  # so that sums wear out
    # So that the reach of an intercept grows
    monkeypatch.setattr(bundle_server, "_FIRST_REACH", 0.1)
    expected: set[str] = set()
    nested: set[str] = set()
    noticed: set[str] = set()
    # Clients keep the margins that they sent only for packed schemes.
    packed = [
        make_run(kind, "sealed", "complete", "all", "paillier")
        for kind in ("drawn", "tdcd")
    ]
    others = (run for kind in reversed(KINDS) for run in runs_of(kind, "stream"))
    for run in itertools.chain(packed, others):
        kinds = (get_type_hints(type(half).state)["return"] for half in halves(run))
        own = set().union(*map(all_fields, kinds))
        expected |= own
        if own <= noticed | nested:
            continue  # it has nothing new
        for _ in saved_states(run):
            seen = dict(
                pair for half in halves(run) for pair in fields_of(half.state())
            )
            nested |= {name for name, has_states in seen.items() if has_states}
            if not seen.keys() <= noticed | nested:
                check_losses(run, noticed)
    assert expected - noticed - nested == set()
    assert "DualClientState.sent" in noticed


# States of other halves


@pytest.mark.parametrize("profile", AXES["profile"])
def test_states_of_other_halves_are_refused(profile):
    """A state restores only the kind of half that it was saved from."""
    runs = {kind: make_run(kind, profile, "complete", "all") for kind in KINDS}
    every = [half for run in runs.values() for half in halves(set_up(run))]
    by_class = {type(half): half for half in every}
    assert len(by_class) >= 6
    for one, other in itertools.permutations(by_class.values(), 2):
        if type(one.state()) is type(other.state()):
            continue
        before = save(one)
        with pytest.raises(CheckpointError) as caught:
            load(one, save(other))
        assert str(caught.value).endswith(".")
        assert save(one) == before


# The comparison itself


@dataclass
class Part:
    """Something that changes."""

    known: int = 0
    cache: int = 0
    array: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    sums: dict[int, float] = field(default_factory=lambda: {1: 1.0, 2: 2.0})

    @cached_property
    def made(self) -> list[int]:
        """Something made on first use and changed later."""
        return [self.known]


@dataclass
class Whole:
    """Something with parts, one of them reachable only through a function."""

    part: Part = field(default_factory=Part)
    parts: list[Part] = field(default_factory=lambda: [Part()])

    def __post_init__(self) -> None:
        """Start with a part that is not an attribute."""
        hidden = Part()
        self.hidden = lambda: hidden
        self.same = self.part.array


def _change_array(whole):
    whole.part.array[1, 1] = -0.0


def _change_order(whole):
    whole.part.array = whole.same = whole.part.array.T.copy().T


def _change_keys(whole):
    whole.part.sums = {2: 2.0, 1: 1.0}


def _change_hidden(whole):
    whole.hidden().known = 3


def _change_made(whole):
    whole.parts[0].made.append(4)


def _add_attribute(whole):
    whole.parts[0].more = None


def _unshare(whole):
    whole.same = whole.part.array.copy()


def _change_type(whole):
    whole.part.known = False


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_change_array, "Whole.part.array"),
        (_change_order, "Whole.part.array: order"),
        (_change_keys, "Whole.part.sums: keys[0]"),
        (_change_hidden, "Whole.hidden[0].known"),
        (_change_made, "Whole.parts[0].made: length"),
        (_add_attribute, "Whole.parts[0].more: a NoneType and a object"),
        (_unshare, "Whole.same: another one"),
        (_change_type, "Whole.part.known: a bool and a int"),
    ],
)
def test_a_difference_is_noticed(change, where):
    """Changes in place and changes reachable only through a function are noticed."""
    one, other = Whole(), Whole()
    assert differences(one, other) == []
    change(one)
    assert where in differences(one, other)
    change(other)
    assert differences(one, other) == []


def test_only_named_attributes_may_differ():
    """An attribute is exempt by its class and name; no other one is."""
    one, other = Whole(), Whole()
    one.part.cache = one.part.known = 1
    found = differences(one, other, {"Part.cache"})
    assert found == ["Whole.part.known"]

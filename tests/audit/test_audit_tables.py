"""What the audit reads: every field of every message, every phase, every value."""

from __future__ import annotations

import importlib
import pkgutil
import typing
from functools import cache
from itertools import combinations

import numpy as np
import pytest

import hyfdca
from hyfdca.algorithms.bundle.client import BundleClient
from hyfdca.algorithms.hyfdca.hyfdca import HyfdcaClient
from hyfdca.algorithms.hyfdca.line_search import LineSearchClient
from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.audit.fields import TABLES, phases_named, value_of
from hyfdca.audit.values import VALUES
from hyfdca.federation.evaluation.measuring import Evaluated
from hyfdca.federation.messages import evaluation_phases
from hyfdca.federation.path import Path
from hyfdca.protocol.messages import BY_PHASE, Message, seen_fields
from hyfdca.study.client.client import STAGES
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.model.models import make_model, random_cells
from tests.prediction.split_cases import Split
from tests.support.consortia import make_files
from tests.support.labelled_files import VISIBLE, blank
from tests.support.small_runs import classification, make_training, partition_of

pytestmark = pytest.mark.usefixtures("no_figure")

# Rooms that talk to machines or people, not to parties: they define no messages, and
# some of them need NVFlare.
OUTER = ("flare", "kits", "cli", "demo", "bench", "__main__")
# For methods whose rounds give no bound; an algorithm that uses it adds its phases.
EVALUATION = evaluation_phases()
PHASES = [
    (name, phase)
    for table in (*TABLES, EVALUATION)
    for name, phase in table.items()
]  # fmt: skip

for _, module, _ in pkgutil.walk_packages(hyfdca.__path__, "hyfdca."):
    if module.split(".")[1] not in OUTER:
        importlib.import_module(module)


def all_kinds(kind=Message):
    """Return a kind of message and all kinds derived from it."""
    found = [kind]
    for child in kind.__subclasses__():
        found += all_kinds(child)
    return [k for k in found if k.__module__.startswith("hyfdca.")]


@cache
def top_kinds():
    """Return the kinds of messages that are a request or a reply of some phase."""
    return {
        kind for _, phase in PHASES for kind in (phase.request, *phase.reply)
    }  # fmt: skip


def kinds_within(hint):
    """Return the kinds of messages that an annotation names, however deep."""
    if isinstance(hint, type) and issubclass(hint, Message):
        return {hint}
    return {kind for part in typing.get_args(hint) for kind in kinds_within(part)}


def kinds_inside(kind):
    """Return the kinds of messages in the fields of one, however deep."""
    hints = typing.get_type_hints(kind, include_extras=True)
    own = {k for name in kind.__struct_fields__ for k in kinds_within(hints[name])}
    return own.union(*map(kinds_inside, own))


@cache
def kinds_of_parts():
    """Return the kinds of messages that are a part of another one, however deep."""
    return {part for top in top_kinds() for part in kinds_inside(top)}


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_every_field_is_a_value(kind):
    """Every field of every message declares which value it carries."""
    fields = seen_fields(kind)
    assert set(fields) == set(kind.__struct_fields__)
    assert set(fields.values()) <= {*VALUES, BY_PHASE.value}


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_every_message_is_in_a_table(kind):
    """A message is a request or a reply of some phase, or part of one."""
    assert kind in top_kinds() | kinds_of_parts()


def test_fields_without_a_value_are_refused():
    """The audit fails on a field that nobody has considered."""

    class Careless(Message, frozen=True):
        said: typing.Annotated[int, "not a value"]

    with pytest.raises(TypeError, match=r"Careless\.said needs a Seen annotation"):
        seen_fields(Careless)


def test_every_value_travels():
    """The trust model has no value that nobody sends, and no phase has another."""
    named = {v for kind in top_kinds() for v in seen_fields(kind).values()}
    named |= {phase.seen for _, phase in PHASES}
    assert named - {BY_PHASE.value, ""} == set(VALUES)


@pytest.mark.parametrize(("name", "phase"), PHASES)
def test_phases_say_what_their_replies_carry(name, phase):
    """A phase names a value exactly if a field of a reply depends on it."""
    fields = [value for kind in phase.reply for value in seen_fields(kind).values()]
    assert (BY_PHASE.value in fields) == (phase.seen in VALUES)
    assert BY_PHASE.value not in seen_fields(phase.request).values()
    assert {value_of(value, phase) for value in fields} <= set(VALUES)


@pytest.mark.parametrize("name", sorted({name for name, _ in PHASES}))
def test_phases_of_one_name_can_be_distinguished(name):
    """If algorithms share a phase name, the same bytes are the same value."""
    for one, other in combinations(phases_named(name), 2):
        if set(one.reply) & set(other.reply):
            assert one.seen == other.seen


@pytest.mark.parametrize("table", [*TABLES, EVALUATION])
def test_phases_follow_phases(table):
    """What may come before a phase is a phase, or the start of a stage."""
    known = {"", *(name for names in (*TABLES, EVALUATION) for name in names)}
    for phase in table.values():
        assert set(phase.after or ()) <= known


CLIENTS = {
    "hyfdca": (HyfdcaClient, {"step": "safe"}),
    "line search": (LineSearchClient, {"step": "line_search"}),
    "bundle": (BundleClient, {"algorithm": "bundle"}),
    "lbfgs": (BundleClient, {"algorithm": "lbfgs", "loss": "logistic"}),
}


def client_of(name):
    """Return a client half, and the table of phases that its session has."""
    kind, given = CLIENTS[name]
    X, y = classification(20, 4)
    run = make_training(X, y, partition_of("2x2", 20, 4), **given)
    assert type(run.clients[0]) is kind
    return run.clients[0], run.driver._clients[0].phases


@pytest.mark.parametrize("name", CLIENTS)
def test_every_handler_has_a_phase(name):
    """A client answers no phase that the audit cannot read."""
    client, phases = client_of(name)
    assert phases in TABLES
    assert set(client.handlers) <= set(phases)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_phase_has_a_handler(algorithm):
    """No table of an algorithm names a phase that none of its clients answers."""
    X, y = classification(20, 4)
    [party, *_] = make_training(X, y, partition_of("2x2", 20, 4)).parties
    halves = [ALGORITHMS[algorithm]().client(party)]
    if algorithm == "hyfdca":
        halves = [client_of(half)[0] for half in ("hyfdca", "line search")]
    if algorithm == "bundle":
        path = Path((1.0, 0.1), 2, 1e-3)
        folds = np.arange(20) % 2
        given = {"algorithm": algorithm, "path": path, "folds": folds}
        halves += make_training(X, y, partition_of("2x2", 20, 4), **given).clients
    answered = {name for half in halves for name in half.handlers}
    assert answered == set(ALGORITHMS[algorithm].phases)


def test_every_handler_of_an_evaluation_has_a_phase():
    """Evaluations have all of their phases answered, and no other."""
    X, y = classification(20, 4)
    run = make_training(X, y, partition_of("2x2", 20, 4))
    own = Evaluated(run.parties[0], run.clients[0].dual).handlers
    assert set(own) == set(EVALUATION)


def test_every_handler_of_a_study_has_a_phase(tmp_path):
    """In every stage of a study an organisation answers only phases of tables."""
    given = {"encryption": '"stream"', "small_vectors": '"same"', "holdout": "0.3"}
    given |= {"curves": "1", **VISIBLE}
    files = blank(make_files(**given), [0, 1], "north")
    north = files.organisations["north"].table
    north["ward"] = [f"ward {row % 3}" for row in range(len(north["id"]))]
    run = prepare(load(files.write(tmp_path)), tmp_path)
    train(run, lambda *_: None)
    stages = run.members[0]._sessions
    assert set(stages) == set(STAGES)
    known = [entry for table in TABLES for entry in table.items()]
    for session in stages.values():
        assert set(session.handlers) <= set(session.phases)
        assert all(entry in known for entry in session.phases.items())


def test_every_handler_of_a_prediction_has_a_phase():
    """Parties that ask for or give predictions answer only phases of tables."""
    split = Split(make_model(), random_cells(4), [([0, 1], [0, 1]), ([0, 1], [2, 3])])
    _, members = split.run("north")
    for member in members:
        session = member._session
        assert session.phases in TABLES
        # One evaluates points; the other has its own evaluated, and then no more.
        blinded = {"blind", "evaluate", "recognise"}
        assert set(session.handlers) | blinded == set(session.phases)

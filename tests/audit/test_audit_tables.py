"""The audit's tables: every field of every message, every phase, every value."""

from __future__ import annotations

import pytest

from hyfdca.algorithms.bundle.client import BundleClient
from hyfdca.algorithms.hyfdca.hyfdca import HyfdcaClient
from hyfdca.algorithms.hyfdca.line_search import LineSearchClient
from hyfdca.audit.fields import BY_PHASE, INSIDE, MESSAGES, PHASES
from hyfdca.audit.values import VALUES
from hyfdca.protocol.messages import Message
from tests.support.small_runs import classification, make_training, partition_of


def all_kinds(kind=Message):
    """Return a kind of message and all that are made of it."""
    found = [kind]
    for child in kind.__subclasses__():
        found += all_kinds(child)
    return [k for k in found if k.__module__.startswith("hyfdca.")]


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_every_field_is_a_value(kind):
    """No field of any message travels without being in the table."""
    table = {**MESSAGES, **INSIDE}
    assert set(table[kind]) == set(kind.__struct_fields__)
    assert set(table[kind].values()) <= {*VALUES, BY_PHASE}


def test_every_value_travels():
    """The trust model has no value that nobody sends."""
    named = {v for fields in MESSAGES.values() for v in fields.values()}
    named |= {exchange.part for exchange in PHASES.values()}
    assert named - {BY_PHASE, ""} == set(VALUES)


@pytest.mark.parametrize("algorithm", ["hyfdca", "line search", "bundle"])
def test_every_phase_is_known(algorithm):
    """A client answers no phase, and takes no request, that the audit cannot read."""
    kinds = {
        "hyfdca": (HyfdcaClient, {"step": "safe"}),
        "line search": (LineSearchClient, {"step": "line_search"}),
        "bundle": (BundleClient, {"algorithm": "bundle"}),
    }
    kind, given = kinds[algorithm]
    X, y = classification(20, 4)
    run = make_training(X, y, partition_of("2x2", 20, 4), **given)
    client = run.clients[0]
    assert type(client) is kind
    for name, phase in client.phases.items():
        assert phase.request in PHASES[name].request


def test_parts_are_values_of_the_right_kind():
    """What depends on the phase is a value wherever a reply has such a field."""
    for exchange in PHASES.values():
        fields = [f for kind in exchange.reply for f in MESSAGES[kind].values()]
        assert (BY_PHASE in fields) == (exchange.part in VALUES)

"""Members whose lies others notice: the study ends, and its sentence names them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from hyfdca.errors import StudyError
from hyfdca.federation.client import Party
from hyfdca.federation.messages import Released
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import pack_reals
from hyfdca.stages.evaluation.messages import MeasureParts
from hyfdca.stages.keys.messages import MadeKeys
from tests.fuzz.parties import training
from tests.support.durable_runs import Consortium, write


class Liar:
    """Changes every reply of one client in one phase."""

    def __init__(self, phase, client, kind, change):
        """Take whose replies to change, of which type, and how."""
        self._place, self._kind, self._change = (phase, client), kind, change

    def exchange(self, place, payload, client):
        """Return the client's reply, changed if it is the liar's."""
        reply = client.handle(place.phase, payload)
        if (place.phase, place.client) != self._place:
            return reply
        token = bytes(reply[:8])
        number, body = unframe(reply, token)
        return frame(token, number, self._change(decode(body, self._kind)))


def without_parameters(made):
    """Return keys without what the server needs to add."""
    return msgspec.structs.replace(made, public={})


def spoilt(parts):
    """Return parts of totals of which one is sealed to nobody."""
    vector = parts.vectors[0]
    payload = memoryview(bytes(byte ^ 0x5A for byte in vector.payload))
    first = msgspec.structs.replace(vector, payload=payload)
    return MeasureParts([first, *parts.vectors[1:]])


def huge(released):
    """Return weights that no grid has room for, though each is finite."""
    weights = np.full(len(released.weights) // 8, 1e200)
    return msgspec.structs.replace(released, weights=pack_reals(weights))


def test_a_weight_that_fits_no_grid_names_who_alone_releases_it(tmp_path):
    """Its square is infinite, which must not end the study without a name."""
    liar = Liar("release", 1, Released, huge)
    with pytest.raises(StudyError, match="'city'"):
        training(tmp_path, "bundle").run(liar, str)


@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_margins_of_0_end_a_study_with_a_name(profile, tmp_path, monkeypatch):
    """They can be read, so otherwise the run would continue to its round limit."""
    honest = Party.products

    def products(party, *asked):
        return honest(party, *asked) * (party.rank != 1)

    monkeypatch.setattr(Party, "products", products)
    own = {"algorithm": '"bundle"', "tol": "1e-4", "profile": f'"{profile}"'}
    with pytest.raises(StudyError, match="contradict each other") as ended:
        Consortium(write(tmp_path, **own)).train()
    said = str(ended.value)
    assert "'city'" in said
    assert ("'north'" in said) == (profile == "sealed")


def test_a_maker_that_gives_no_parameters_is_named(tmp_path):
    """The study continues: the keys were made, and their holders are asked again."""
    sentences = []
    liar = Liar("make keys", 0, MadeKeys, without_parameters)
    training(tmp_path, "bundle-tested").run(liar, sentences.append)
    assert any("'north'" in said and "keys have none" in said for said in sentences)


def test_a_total_of_rows_set_aside_that_does_not_open_names_who_sent_it(tmp_path):
    """The sentence names more than the organisation that could not open it."""
    with pytest.raises(StudyError, match="One of the organisations 'north', 'city'"):
        training(tmp_path, "bundle-tested").run(
            Liar("measures", 1, MeasureParts, spoilt), str
        )

"""Ciphertexts that are wrong inside: both sides find out, and nothing has changed."""

from __future__ import annotations

import struct

import msgspec
import pytest
from msgspec.structs import replace

from hyfdca.federation.sealing.unopened import UNOPENED
from hyfdca.protocol import messages as m
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.runtime.driver import Traffic
from tests.protocol.wires import listen
from tests.support.sealed_runs import found_by
from tests.support.small_runs import run_round, set_up
from tests.support.wrong_requests import PARTIAL, make_run, tempt

pytestmark = pytest.mark.usefixtures("small_paillier")


def _in_vectors(change):
    """Return what changes each sealed vector of a request, digest and all mended."""

    def wrong(value):
        for where, parts in _places(value):
            payload = change(bytes(parts.payload))
            if payload is not None:
                sealed = m.Sealed(parts.fraction_bits, memoryview(payload))
                yield where, _with(value, where, sealed)

    return wrong


def _places(value, path=()):
    """Return every sealed vector of a message and where it is."""
    if isinstance(value, m.Sealed):
        yield path, value
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _places(part, (*path, place))
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _places(getattr(value, name), (*path, name))


def _with(value, path, new):
    """Return a message with something else at a place of it."""
    if not path:
        return new
    first, rest = path[0], path[1:]
    if isinstance(value, list):
        inside = _with(value[first], rest, new)
        return [*value[:first], inside, *value[first + 1 :]]
    inside = _with(getattr(value, first), rest, new)
    return msgspec.structs.replace(value, **{first: inside})


def _top_bit(payload):
    """Flip the highest bit of the last number: of a residue, or a ciphertext."""
    if len(payload) < 100:
        return None  # nobody has added to it
    return payload[:-1] + bytes([payload[-1] ^ 0x80])


def _foreign_id(payload):
    """Name a contributor that is not in the list."""
    n_nonces, n_runs, depth, of_length, of_id = struct.unpack_from("<IIIBB", payload)
    if not n_runs * depth:
        return None
    place = 14 + 24 * n_nonces + of_length * n_runs
    foreign = (n_nonces + 1).to_bytes(of_id, "little")
    return payload[:place] + foreign + payload[place + of_id :]


def _other_parameters(payload):
    """Put as many blocks of other parameters in their place."""
    n_blocks = len(payload) // 65536
    return payload[:1] + bytes(98304 * n_blocks) if n_blocks else None


def _one_block_more(payload):
    """Say that there is one block more than there is, and add one."""
    if len(payload) < 100:
        return None
    size = (len(payload) - 1) & -128  # of whole ciphertexts, both of BFV and Paillier
    block = payload[-128:] if size < 65536 else payload[-65536:]
    bits = payload[0] | payload[0] >> 1
    return bytes([bits]) + payload[1:] + block


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bfv-compact", _top_bit),
        ("paillier", _top_bit),
        ("stream", _foreign_id),
        ("bfv-compact", _other_parameters),
        ("bfv-compact", _one_block_more),
        ("paillier", _one_block_more),
    ],
)
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_a_wrong_ciphertext_is_refused(name, change, method):
    """The digest of the message was right: the client finds out when it opens it."""
    given = {"max_rounds": 2}
    undisturbed = found_by(make_run(name, method, **given))
    run = make_run(name, method, **given)
    wires = tempt(run, _in_vectors(change))
    assert found_by(run) == undisturbed
    reasons = [why for wire in wires for why in wire.reasons]
    assert len(reasons) > 10
    assert set(reasons) == {UNOPENED}  # no word says what is wrong


@pytest.mark.parametrize("name", ["stream", "bfv-compact", "paillier"])
@pytest.mark.parametrize("phase", ["norms", "margins", "shares", "step", "losses"])
def test_a_wrong_part_stops_the_server(name, phase):
    """The server names what is wrong and nobody's sum has it in it."""
    run = make_run(name, participation=PARTIAL)
    if phase != "norms":  # which come before the first round, and only there
        set_up(run)
        run_round(run)
    duals = [bytes(v.payload) for v in run.server.dual.duals.take_all()]
    kind = m.TotalsPart if phase == "losses" else m.Part
    for wire in listen(run)[1]:
        wire.tamper[phase] = (
            kind,
            lambda r: kind(replace(r.vector, payload=r.vector.payload[:-1])),
        )
    conversation = {
        "norms": run.server.set_up,
        "losses": run.server.measure,
    }.get(phase, lambda: run.server.round([0, 1, 2, 3]))
    with pytest.raises(RemoteProtocolError, match="does not load"):
        run.driver.run(conversation(), Traffic())
    if phase != "shares":  # which come after duals have changed
        kept = [bytes(v.payload) for v in run.server.dual.duals.take_all()]
        assert kept == duals

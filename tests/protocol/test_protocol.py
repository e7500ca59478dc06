"""Bytes of messages: what survives the wire, and what is refused."""

import inspect
import math
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.algorithms.bundle import messages as bundle
from hyfdca.algorithms.hyfdca import messages as hyfdca
from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.audit.fields import TABLES
from hyfdca.federation import messages as federation
from hyfdca.prediction import messages as prediction
from hyfdca.protocol import messages, transcript
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_bits,
    pack_indices,
    pack_reals,
    pack_tokens,
    unpack_bits,
    unpack_counts,
    unpack_indices,
    unpack_order,
    unpack_reals,
    unpack_tokens,
)
from hyfdca.protocol.messages import Message
from hyfdca.stages import groups
from hyfdca.stages.alignment import messages as alignment
from hyfdca.stages.evaluation import messages as evaluation
from hyfdca.stages.keys import messages as keys
from hyfdca.stages.labels import messages as labels
from hyfdca.stages.levels import messages as levels
from hyfdca.stages.scaling import messages as scaling
from hyfdca.stages.validation import messages as validation
from hyfdca.study import messages as study

TOKEN = b"study--1"


ALGORITHM_MODULES = {
    inspect.getmodule(phase.request)
    for algorithm in ALGORITHMS.values()
    for phase in algorithm.phases.values()
} - {messages, federation}
KINDS = [
    kind
    for module in (
        messages,
        transcript,
        federation,
        *sorted(ALGORITHM_MODULES, key=str),
        groups,
        scaling,
        alignment,
        labels,
        levels,
        keys,
        study,
        evaluation,
        validation,
        prediction,
    )
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, Message) and kind.__module__ == module.__name__
]


def _values(info):
    """Return a strategy for the values of one msgspec type."""
    inspected = msgspec.inspect
    if isinstance(info, inspected.StructType):
        fields = {f.encode_name: _values(f.type) for f in info.fields}
        return st.builds(info.cls, **fields)
    makers = {
        inspected.UnionType: lambda: st.one_of([_values(t) for t in info.types]),
        inspected.ListType: lambda: st.lists(_values(info.item_type), max_size=3),
        inspected.DictType: lambda: st.dictionaries(
            _values(info.key_type), _values(info.value_type), max_size=3
        ),
        inspected.TupleType: lambda: st.tuples(*map(_values, info.item_types)),
        inspected.VarTupleType: lambda: st.lists(
            _values(info.item_type), max_size=3
        ).map(tuple),
        inspected.IntType: lambda: st.integers(info.ge, info.le),
        inspected.FloatType: lambda: st.floats(info.ge, info.le, allow_nan=False),
        inspected.LiteralType: lambda: st.sampled_from(info.values),
        inspected.StrType: lambda: st.text(min_size=info.min_length or 0, max_size=9),
        inspected.BoolType: st.booleans,
        inspected.NoneType: st.none,
        inspected.BytesType: lambda: st.binary(
            min_size=info.min_length or 0, max_size=min(info.max_length or 40, 4096)
        ),
        inspected.MemoryViewType: lambda: st.binary(max_size=40).map(memoryview),
    }
    return makers[type(info)]()


def _message(kind):
    return _values(msgspec.inspect.type_info(kind))


def _decoded(payload, kind):
    return decode(unframe(payload, TOKEN)[1], kind)


def _assert_whole(message, kind):
    """Check that a message is of its kind, and of values that it may have."""
    assert type(message) is kind
    content = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.encode(decode(memoryview(content), kind)) == content


def _kinds(kind):
    """Return a class of messages and all that are made of it, in this package."""
    found = {kind} if kind.__module__.startswith("hyfdca.") else set()
    return found.union(*map(_kinds, kind.__subclasses__()))


def test_no_message_is_left_out():
    """All messages in the tables of phases are tested here."""
    named = {
        kind
        for table in TABLES
        for phase in table.values()
        for kind in (phase.request, *phase.reply)
    }
    assert named <= set(KINDS)
    assert _kinds(Message) == set(KINDS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), number=st.integers(0, 2**64 - 1))
def test_messages_survive_the_wire(kind, data, number):
    """Every message decodes to itself and keeps its number."""
    message = data.draw(_message(kind))
    payload = bytes(frame(TOKEN, number, message))
    assert payload[:8] == TOKEN
    assert unframe(payload, TOKEN)[0] == number
    assert _decoded(payload, kind) == message


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), number=st.integers(0, 2**64 - 1))
def test_damaged_messages_are_refused(kind, data, number):
    """A cut and a flipped bit are noticed, wherever they are."""
    payload = frame(TOKEN, number, data.draw(_message(kind)))
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(RemoteProtocolError):
        _decoded(bytes(payload[:cut]), kind)
    bit = data.draw(st.integers(0, 8 * len(payload) - 1))
    payload[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RemoteProtocolError):
        _decoded(bytes(payload), kind)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_forged_messages_are_refused_or_read(kind, data):
    """Bodies changed by somebody who mends the digest raise nothing unexpected."""
    body = bytearray(msgspec.msgpack.encode(data.draw(_message(kind))))
    bit = data.draw(st.integers(0, 8 * len(body) - 1))
    body[bit // 8] ^= 1 << bit % 8
    try:
        message = decode(memoryview(bytes(body)), kind)
    except RemoteProtocolError:
        return
    _assert_whole(message, kind)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@given(garbage=st.binary(max_size=60))
def test_garbage_is_refused_or_read(kind, garbage):
    """Random bytes raise RemoteProtocolError and nothing else."""
    view = memoryview(garbage)
    for read in (lambda: _decoded(garbage, kind), lambda: decode(view, kind)):
        try:
            message = read()
        except RemoteProtocolError:
            continue
        _assert_whole(message, kind)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        b"\x91" * 100_000,  # nested without end
        b"\xdd\xff\xff\xff\xff",  # an array of 2^32 items, none of them sent
        b"\xc6\xff\xff\xff\xff",  # 2^32 bytes, none of them sent
        b"\xc1",  # a byte that means nothing
        b"\x80",  # a map
        b"",
    ],
    ids=["nested", "long array", "long bytes", "reserved", "map", "empty"],
)
def test_hostile_bytes_are_refused(kind, body):
    """Depth and lengths off the wire exhaust neither stack nor memory."""
    with pytest.raises(RemoteProtocolError):
        decode(memoryview(body), kind)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_messages_with_more_than_their_fields_are_refused(kind, data):
    """A field too many, or bytes after the end, is an error."""
    message = data.draw(_message(kind))
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    for body in (
        msgspec.msgpack.encode([*fields, 1]),
        msgspec.msgpack.encode(message) + b"\x00",
    ):
        with pytest.raises(RemoteProtocolError, match="does not decode"):
            decode(memoryview(body), kind)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (messages.Sealed, [901, b""]),
        (messages.Sealed, [-901, b""]),
        (messages.Sealed, [1.5, b""]),
        (messages.Sealed, [1, "text"]),
        (messages.Sealed, [1]),
        (messages.GridSpec, [0, 0]),
        (messages.GridSpec, [0, 63]),
        (messages.GridSpec, [2**63, 10]),
        (federation.OpenRequest, [[], [[1, 0]]]),
        (federation.OpenRequest, [[], [[1, 100_000_001]]]),
        (federation.Opened, [["1.0"]]),
        (bundle.Move, [1, [-0.1]]),
        (bundle.Move, [1, [2.1]]),
        (federation.Bounds, [1.0, 2.0, 3.0]),
        (hyfdca.LossesRequest, [[], 1, 3, [0, 10]]),
        (messages.Part, ["image", [1, b""]]),
        (messages.Part | messages.TooLarge, ["too small"]),
    ],
)
def test_values_outside_their_range_are_refused(kind, fields):
    """Types and ranges are checked while decoding, never converted."""
    with pytest.raises(RemoteProtocolError, match="does not decode"):
        decode(memoryview(msgspec.msgpack.encode(fields)), kind)


@pytest.mark.parametrize("length", [0, 1, 15])
def test_a_message_shorter_than_its_header_is_refused(length):
    """There is no message without token and number."""
    with pytest.raises(RemoteProtocolError, match="shorter than its header"):
        unframe(b"x" * length, TOKEN)


@given(st.lists(st.integers(0, 2**32 - 2), unique=True))
def test_positions_survive_the_wire(positions):
    """Sorted positions come back as they were."""
    indices = np.array(sorted(positions), dtype=np.int64)
    unpacked = unpack_indices(pack_indices(indices), 2**32 - 1)
    assert unpacked.dtype == np.int64
    np.testing.assert_array_equal(unpacked, indices)


def test_no_positions_stay_none():
    """None means all, and stays so."""
    assert pack_indices(None) is None


@pytest.mark.parametrize(
    "positions", [[1, 0], [0, 0], [0, 2, 1], [3], [0, 1, 3], [2**32 - 1], [5, 1]]
)
def test_bad_positions_are_refused(positions):
    """Positions are sorted, distinct and below the size of the receiver's table."""
    payload = memoryview(np.array(positions, dtype="<u4").tobytes())
    with pytest.raises(RemoteProtocolError, match="sorted and below 3"):
        unpack_indices(payload, 3)


@pytest.mark.parametrize("n_bytes", [1, 3, 5, 9])
def test_odd_lengths_are_refused(n_bytes):
    """Bytes that are not a whole number of items are an error for every reader."""
    payload = memoryview(bytes(n_bytes))
    for read in (unpack_indices, unpack_counts, unpack_reals):
        with pytest.raises(RemoteProtocolError, match=f"{n_bytes} bytes do not divide"):
            read(payload, 1)


def test_counts_survive_the_wire_or_are_refused():
    """There are as many counts as expected, all of at least 1."""
    payload = memoryview(np.array([1, 7, 2**32 - 1], dtype="<u4").tobytes())
    assert unpack_counts(payload, 3).tolist() == [1, 7, 2**32 - 1]
    assert unpack_counts(memoryview(b""), 0).tolist() == []
    with pytest.raises(RemoteProtocolError, match="expected 4 items, got 3"):
        unpack_counts(payload, 4)
    zero = memoryview(np.array([1, 0], dtype="<u4").tobytes())
    with pytest.raises(RemoteProtocolError, match="below 1"):
        unpack_counts(zero, 2)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_reals_survive_the_wire(values):
    """Finite reals come back bit for bit, in the number expected only."""
    payload = pack_reals(np.array(values))
    assert bytes(payload) == struct.pack(f"<{len(values)}d", *values)
    unpacked = unpack_reals(payload, len(values))
    assert unpacked.tobytes() == np.array(values).tobytes()
    with pytest.raises(RemoteProtocolError, match=f"expected {len(values) + 1} items"):
        unpack_reals(payload, len(values) + 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_reals_that_are_no_numbers_are_refused(bad):
    """NaN and infinities do not pass."""
    with pytest.raises(RemoteProtocolError, match="infinite or not a number"):
        unpack_reals(pack_reals(np.array([1.0, bad])), 2)


def test_a_tag_that_is_no_text_is_refused():
    """A tag of invalid UTF-8 raises RemoteProtocolError."""
    with pytest.raises(RemoteProtocolError):
        decode(memoryview(b"\x92\xa1\xff\x00"), messages.Part | messages.TooLarge)


@given(st.lists(st.booleans(), max_size=40))
def test_flags_survive(flags):
    """Flags keep their places; another number of them is refused."""
    payload = pack_bits(np.array(flags, dtype=bool))
    assert unpack_bits(payload, (len(flags),)).tolist() == flags
    with pytest.raises(RemoteProtocolError):
        unpack_bits(payload, (len(flags) + 8,))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=9))
def test_tokens_survive(tokens):
    """Tokens keep their bits; another number of them is refused."""
    payload = pack_tokens(np.array(tokens, dtype=np.uint64))
    assert unpack_tokens(payload).tolist() == tokens
    assert unpack_tokens(payload, len(tokens)).tolist() == tokens
    with pytest.raises(RemoteProtocolError):
        unpack_tokens(payload, len(tokens) + 1)
    with pytest.raises(RemoteProtocolError):
        unpack_tokens(memoryview(bytes(payload) + b"0"))


@given(st.permutations(range(6)))
def test_orders_survive(order):
    """An order has every place once."""
    payload = pack_indices(np.array(order))
    assert unpack_order(payload, 6).tolist() == list(order)
    for bad in ([0, 1, 1], [0, 1, 3], [0, 1]):
        with pytest.raises(RemoteProtocolError):
            unpack_order(pack_indices(np.array(bad)), 3)

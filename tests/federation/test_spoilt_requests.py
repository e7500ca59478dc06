"""Requests that are spoilt, late or damaged are refused, and the run continues."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from hyfdca.algorithms.hyfdca.messages import MoveRequest
from hyfdca.holdings.participation import cyclic
from hyfdca.protocol.client_session import decode, frame, unframe
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import GridSpec
from tests.protocol.wires import LACKING
from tests.support.sealed_runs import found_by
from tests.support.wrong_requests import (
    PARTIAL,
    SLOW_PAILLIER,
    make_run,
    state_of,
    tempt,
)

pytestmark = pytest.mark.usefixtures("small_paillier")


# Every request, spoilt in every place


def spoilt(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return a message with one array in it spoilt, for each array and each way."""
    if isinstance(value, memoryview):
        content = bytes(value)
        wrong = [content + b"\1\2\3"]  # not a whole number of anything
        if path.endswith("payload"):
            wrong += [content[:-1], content[8:], content + bytes(8), b""]
        yield from ((path, memoryview(w)) for w in wrong if w != content)
    elif isinstance(value, list):
        parts = dict(enumerate(value))
        for place, where, wrong in _spoilt_parts(parts, path):
            yield where, [*value[:place], wrong, *value[place + 1 :]]
    elif isinstance(value, msgspec.Struct):
        parts = {name: getattr(value, name) for name in value.__struct_fields__}
        for name, where, wrong in _spoilt_parts(parts, path):
            yield where, msgspec.structs.replace(value, **{name: wrong})


def _spoilt_parts(parts: dict[Any, Any], path: str) -> Iterator[tuple[Any, str, Any]]:
    for name, part in parts.items():
        for where, wrong in spoilt(part, f"{path}.{name}"):
            yield name, where, wrong


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("drawn", {"participation": PARTIAL}),
        ("drawn", {"partition": "3x1", "participation": cyclic([[0, 1], [1, 2]])}),
        ("safe", {}),
        ("search", {}),
        ("search", {"local_fraction": 1.0, "labelled": LACKING}),
        ("bundle", {}),
        ("bundle", {"labelled": LACKING}),
        ("bundle", {"profile": "open", "participation": PARTIAL, "labelled": LACKING}),
        ("bundle", {"n_features": 40}),
    ],
    ids=[
        "partial",
        "horizontal",
        "safe",
        "search",
        "search-forwarded",
        "bundle",
        "bundle-forwarded",
        "visits-forwarded",
        "wide",
    ],
)
@pytest.mark.parametrize("name", ["stream", "bfv-compact", SLOW_PAILLIER])
def test_an_array_that_does_not_fit_is_refused_wherever_it_is(name, method, given):
    """For any array of any request, the client is unchanged afterwards."""
    given = {"max_rounds": 2, **given}
    undisturbed = found_by(make_run(name, method, **given))
    run = make_run(name, method, **given)
    wires = tempt(run, spoilt)
    assert found_by(run) == undisturbed
    assert all(len(wire.reasons) > 15 for wire in wires)


def test_a_step_on_a_grid_that_its_duals_do_not_fit_is_refused():
    """A line search moves on the grid of its direction or not at all."""

    def finer(request):
        if isinstance(request, MoveRequest) and any(request.steps):
            grid = GridSpec(request.duals_grid.fraction_bits + 62, 1)
            yield "grid", msgspec.structs.replace(request, duals_grid=grid)

    undisturbed = found_by(make_run("stream", "search", local_fraction=1.0))
    run = make_run("stream", "search", local_fraction=1.0)
    wires = tempt(run, finer)
    assert found_by(run) == undisturbed
    assert sum(len(wire.reasons) for wire in wires) > 4


# Messages that are not of this study, not of now, or damaged


class Meddler:
    """A wire on which wrong bytes come before the right ones."""

    def __init__(self, run: Any, client: int, wrong: Callable[..., Any]) -> None:
        self._session, self._half = run.driver._clients[client], run.clients[client]
        self._wrong, self._past, self.reasons = wrong, [], []

    def handle(self, phase: str, payload: bytes | bytearray) -> bytearray:
        """Pass a request on, after bytes that must be refused."""
        for said_in, wrong in self._wrong(phase, bytes(payload), self._past):
            before = state_of(self._half)
            with pytest.raises(RemoteProtocolError) as raised:
                self._session.handle(said_in, wrong)
            assert state_of(self._half) == before
            self.reasons.append(str(raised.value))
        self._past.append((phase, bytes(payload)))
        return self._session.handle(phase, payload)


def _of_another_study(phase, payload, _):
    number = unframe(payload, payload[:8])[0]
    body = decode(unframe(payload, payload[:8])[1], msgspec.Raw)
    mended = frame(b"another!", number, body)
    yield phase, bytes(mended)


def _again(phase, payload, past):
    """Replay everything that was said, except the very last request."""
    yield from past[:-1]


def _damaged(phase, payload, _):
    for place in (9, 20, len(payload) // 2, len(payload) - 1):
        flipped = bytearray(payload)
        flipped[place] ^= 0x10
        yield phase, bytes(flipped)
    for size in (0, 5, 31, len(payload) // 2, len(payload) - 1):
        yield phase, payload[:size]
    yield phase, payload + b"\0"
    yield phase, b"another!" + payload[8:]  # the digest is of the token, too


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["none", "stream", "bfv-compact", SLOW_PAILLIER])
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (_of_another_study, "another study"),
        (_again, "answered long ago"),
        (_damaged, r"damaged|shorter"),
    ],
)
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_bytes_that_are_not_of_this_moment_are_refused(name, wrong, reason, method):
    """The run survives requests of another study or round, damaged or cut ones."""
    undisturbed = found_by(make_run(name, method, max_rounds=2))
    run = make_run(name, method, max_rounds=2)
    wires = {k: Meddler(run, k, wrong) for k in range(len(run.clients))}
    run.driver._clients = wires
    assert found_by(run) == undisturbed
    for wire in wires.values():
        assert len(wire.reasons) > 10
        assert all(re.search(reason, why) for why in wire.reasons)

"""What goes wrong on the way is refused, changes nothing, and the run goes on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.algorithms.coordinator import Coordinator, DivergenceError
from hyfdca.crypto.fixedpoint import COARSER_BITS, Grid
from hyfdca.crypto.schemes import Encryption
from hyfdca.participation import cyclic
from hyfdca.protocol import messages as m
from hyfdca.protocol.codec import RemoteProtocolError, decode, frame, unframe
from hyfdca.runtimes.driver import Traffic
from tests.sealed_runs import ENCRYPTIONS, found_by, keys_of
from tests.small_runs import (
    classification,
    make_training,
    partition_of,
    run_round,
    set_up,
)
from tests.wires import LACKING, listen

pytestmark = pytest.mark.usefixtures("small_paillier")

SLOW_PAILLIER = pytest.param("paillier", marks=pytest.mark.slow)

N_SAMPLES, N_FEATURES = 24, 4

METHODS = {
    "drawn": {"step": "paper", "local_steps": 3, "refresh": "drawn"},
    "safe": {"step": "safe", "local_steps": 3},
    "search": {"step": "line_search", "local_fraction": 0.5},
    "bundle": {"algorithm": "bundle"},
}
PARTIAL = cyclic([[0, 1, 2], [1, 2, 3], [0, 1, 2, 3]])


def make_run(
    name="stream",
    method="drawn",
    partition="overlapping",
    n_features=N_FEATURES,
    **given,
):
    """Return a small run of four clients that overlap."""
    X, y = classification(N_SAMPLES, n_features, noise=0.5)
    encryption = given.pop("encryption", ENCRYPTIONS.get(name, Encryption()))
    return make_training(
        X,
        y,
        partition_of(partition, N_SAMPLES, n_features),
        bias=1.0,
        encryption=encryption,
        keys=keys_of(encryption),
        **{"max_rounds": 3, **METHODS[method], **given},
    )


# Every request, spoilt in every place


def spoilt(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return a message with one array in it spoilt, for each array and each way."""
    if isinstance(value, memoryview):
        content = bytes(value)
        wrong = [content + b"\1\2\3"]  # no whole number of anything
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


_CACHES = ("._picked", "._partial_norms", "Visiting._rows")


def state_of(half: Any) -> dict[str, Any]:
    """Return what a client, and whoever answers for it, keeps between requests."""
    answering = {id(p.handle.__self__): p.handle.__self__ for p in half.phases.values()}
    kept = {
        f"{type(part).__name__}.{name}": value
        for part in answering.values()
        for name, value in vars(part).items()
        if isinstance(value, np.ndarray | int | float | slice | dict)
    }
    return {
        name: _frozen(value)
        for name, value in kept.items()
        if not name.endswith((*_CACHES, ".phases"))
    }


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: _frozen(part) for key, part in value.items()}
    return repr(value)


class Tempter:
    """A wire on which wrong requests come before the right ones."""

    def __init__(self, run: Any, client: int, wrong: Callable[..., Any]) -> None:
        self._session, self._half = run.driver._clients[client], run.clients[client]
        self._wrong, self.reasons = wrong, []

    def handle(self, phase: str, payload: bytes | bytearray) -> bytearray:
        """Pass a request on, after some that must be refused."""
        token = self._session._token
        number, body = unframe(payload, token)
        request = decode(body, self._half.phases[phase].request)
        for what, message in self._wrong(request):
            if phase == "search" and self._half.block.labels is None:
                continue  # it has no margins to look at
            before = state_of(self._half)
            try:
                self._session.handle(phase, frame(token, number, message))
            except RemoteProtocolError as error:
                self.reasons.append(str(error))
            else:
                pytest.fail(f"{phase}{what} was taken")
            assert state_of(self._half) == before, f"{phase}{what} changed something"
        return self._session.handle(phase, payload)


def tempt(run, wrong):
    """Put wires with wrong requests to all clients."""
    clients = range(len(run.clients))
    wires = {client: Tempter(run, client, wrong) for client in clients}
    run.driver._clients = wires
    return list(wires.values())


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
        "search-lent",
        "bundle",
        "bundle-lent",
        "visits-lent",
        "wide",
    ],
)
@pytest.mark.parametrize("name", ["stream", "bfv-compact", SLOW_PAILLIER])
def test_an_array_that_does_not_fit_is_refused_wherever_it_is(name, method, given):
    """Whichever array of whichever request it is, the client is as it was before."""
    given = {"max_rounds": 2, **given}
    undisturbed = found_by(make_run(name, method, **given))
    run = make_run(name, method, **given)
    wires = tempt(run, spoilt)
    assert found_by(run) == undisturbed
    assert all(len(wire.reasons) > 15 for wire in wires)


# Ciphertexts that are wrong inside


def _in_vectors(change):
    """Return what changes each sealed vector of a request, digest and all mended."""

    def wrong(value, path=""):
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
    n_nonces, n_runs, depth = np.frombuffer(payload, np.uint32, 3).tolist()
    if not n_runs * depth:
        return None
    place = 12 + 24 * n_nonces + 4 * n_runs
    return payload[:place] + (n_nonces + 1).to_bytes(4, "little") + payload[place + 4 :]


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
    ("name", "change", "reason"),
    [
        ("bfv-compact", _top_bit, "no ciphertext"),
        ("paillier", _top_bit, r"no ciphertext|no sum of sealed"),
        ("stream", _foreign_id, "contributors do not fit"),
        ("bfv-compact", _other_parameters, "expected .* blocks"),
        ("bfv-compact", _one_block_more, "expected .* blocks"),
        ("paillier", _one_block_more, "expected .* blocks"),
    ],
)
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_a_wrong_ciphertext_is_refused(name, change, reason, method):
    """The digest of the message was right: the client finds out when it opens it."""
    given = {"max_rounds": 2}
    undisturbed = found_by(make_run(name, method, **given))
    run = make_run(name, method, **given)
    wires = tempt(run, _in_vectors(change))
    assert found_by(run) == undisturbed
    reasons = [why for wire in wires for why in wire.reasons]
    assert len(reasons) > 10
    for why in reasons:
        assert "does not open" in why
    assert any(re.search(reason, why) for why in reasons)


@pytest.mark.parametrize("name", ["stream", "bfv-compact", "paillier"])
@pytest.mark.parametrize("phase", ["norms", "margins", "shares", "step", "losses"])
def test_a_wrong_part_stops_the_server(name, phase):
    """The server names what is wrong and nobody's sum has it in it."""
    run = make_run(name, participation=PARTIAL)
    set_up(run)
    run_round(run)
    duals = [bytes(v.payload) for v in run.server.coordinator.duals.take_all()]
    for wire in listen(run)[1]:
        wire.tamper[phase] = (
            m.Part,
            lambda r: m.Part(m.Sealed(r.vector.fraction_bits, r.vector.payload[:-1])),
        )
    conversation = {
        "norms": run.server.set_up,
        "losses": run.server.certify,
    }.get(phase, lambda: run.server.round([0, 1, 2, 3]))
    with pytest.raises(RemoteProtocolError, match="does not load"):
        run.driver.run(conversation(), Traffic())
    if phase != "shares":  # which come after duals have changed
        kept = [bytes(v.payload) for v in run.server.coordinator.duals.take_all()]
        assert kept == duals


def test_a_step_on_a_grid_that_its_duals_do_not_fit_is_refused():
    """A line search moves on the grid of its direction or not at all."""

    def finer(request):
        if isinstance(request, m.MoveRequest) and any(request.steps):
            grid = m.GridSpec(request.duals_grid.fraction_bits + 62, 1)
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
    yield phase, b"another!" + payload[8:]


def _again(phase, payload, past):
    """Replay everything that was said, but for the very last request."""
    yield from past[:-1]


def _damaged(phase, payload, _):
    for place in (9, 20, len(payload) // 2, len(payload) - 1):
        flipped = bytearray(payload)
        flipped[place] ^= 0x10
        yield phase, bytes(flipped)
    for size in (0, 5, 31, len(payload) // 2, len(payload) - 1):
        yield phase, payload[:size]
    yield phase, payload + b"\0"


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
    """Of another study, of an earlier round, damaged or cut: the run goes on."""
    undisturbed = found_by(make_run(name, method, max_rounds=2))
    run = make_run(name, method, max_rounds=2)
    wires = {k: Meddler(run, k, wrong) for k in range(len(run.clients))}
    run.driver._clients = wires
    assert found_by(run) == undisturbed
    for wire in wires.values():
        assert len(wire.reasons) > 10
        assert all(re.search(reason, why) for why in wire.reasons)


# Schemes


@pytest.mark.parametrize("kind", ["samples", "features", "totals"])
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("stream", "none"),
        ("stream", "bfv"),
        ("bfv-compact", "none"),
        ("bfv-compact", "stream"),
        ("paillier", "none"),
        ("paillier", ""),
    ],
)
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_a_server_cannot_pick_what_the_study_does_not_allow(name, other, kind, method):
    """A client refuses, keeps the schemes it has, and the run goes on."""
    undisturbed = found_by(make_run(name, method, max_rounds=2))
    run = make_run(name, method, max_rounds=2)

    def downgraded(request):
        if isinstance(request, m.Arrangements):
            yield kind, msgspec.structs.replace(request, **{kind: other})

    wires = tempt(run, downgraded)
    assert found_by(run) == undisturbed
    assert all(len(wire.reasons) == 1 for wire in wires)
    assert all("does not allow" in wire.reasons[0] for wire in wires)


def test_later_downgrades_are_refused_too():
    """In the middle of a run the server cannot change its mind."""
    run = make_run("stream", max_rounds=3)
    undisturbed = found_by(make_run("stream", max_rounds=3))
    for _ in run.rounds():
        for half in run.clients:
            notice = m.Arrangements("none", "none", "none", None, None)
            with pytest.raises(RemoteProtocolError, match="does not allow"):
                half.phases["arrange"].handle(notice)
    assert found_by(run) == undisturbed


def test_the_open_profile_seals_samples_all_the_same():
    """Only sums by feature are the server's to read."""
    run = set_up(make_run("stream", profile="open"))
    for half in run.clients:
        groups = memoryview(np.zeros(half.n_held, np.uint32).tobytes())
        for samples, totals in (("none", "stream"), ("stream", "none")):
            notice = m.Arrangements(samples, "none", totals, groups, None)
            with pytest.raises(RemoteProtocolError, match="does not allow"):
                half.phases["arrange"].handle(notice)


@pytest.mark.parametrize("name", ["stream", "bfv-compact", "paillier"])
@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_nothing_is_sealed_before_anybody_said_how(name, profile):
    """A client gives no vector in the clear just because nobody told it the scheme."""
    run = make_run(name, profile=profile)
    undisturbed = found_by(make_run(name, profile=profile))
    for half in run.clients:
        before = state_of(half)
        for phase, request in [
            ("norms", m.GridRequest(m.GridSpec(20, 40))),
            ("margins", m.MarginsRequest(None, None, m.GridSpec(20, 40))),
            ("measure margins", m.MarginsRequest(None, None, m.GridSpec(20, 40))),
        ]:
            with pytest.raises(RemoteProtocolError, match="how vectors are sealed"):
                half.phases[phase].handle(request)
        assert state_of(half) == before
    assert found_by(run) == undisturbed


# Numbers


@pytest.mark.parametrize("name", ENCRYPTIONS)
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_an_overflow_asks_for_a_coarser_grid_and_goes_on(name, method, monkeypatch):
    """Sealed or not, clients say so for the same numbers, and find the same model."""
    fit, too_fine = Coordinator.grid_for, COARSER_BITS + 4

    def finer(coordinator, *given):
        grid = fit(coordinator, *given)
        return Grid(grid.fraction_bits + too_fine, grid.limit_bits)

    monkeypatch.setattr(Coordinator, "grid_for", finer)
    found = []
    for encryption in (ENCRYPTIONS[name], _bare(name)):
        run = make_run(name, method, encryption=encryption, max_rounds=2)
        heard, _ = listen(run)
        found.append(found_by(run))
        assert b"too large" in b"".join(said.reply for said in heard)
        assert len(run.history) == 2
    assert found[0] == found[1]


def _bare(name):
    return Encryption("none", ENCRYPTIONS[name].precision)


@pytest.mark.parametrize("name", ["none", "stream", "bfv-compact", "paillier"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_data_that_are_no_numbers_never_become_ciphertexts(name, value, method):
    """The client that has them asks for coarser grids until the run gives up."""
    X, y = classification(N_SAMPLES, N_FEATURES)
    table = X.toarray()
    table[3, 1] = value
    encryption = ENCRYPTIONS.get(name, Encryption())
    run = make_training(
        sp.csr_array(table),
        y,
        partition_of("overlapping", N_SAMPLES, N_FEATURES),
        encryption=encryption,
        keys=keys_of(encryption),
        **METHODS[method],
    )
    heard, _ = listen(run)
    with pytest.raises(DivergenceError, match="outgrew every grid"):
        run.finish()
    owner = [said for said in heard if (said.client, said.phase) == (0, "norms")]
    assert len(owner) > 10
    assert all(b"too large" in said.reply for said in owner)

"""What reaches a client, on the bytes: its own samples and features, nothing else."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyfdca.algorithms.bundle import messages as b
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.holdings.participation import cyclic
from hyfdca.holdings.partition import from_holdings
from hyfdca.maths.seeds import stream
from hyfdca.protocol import messages as m
from tests.crypto.owner_blocks import check_packed, owners_of, with_checks
from tests.protocol.wires import Said, listen
from tests.support.holding_strategies import overlapping_holdings
from tests.support.sealed_runs import ENCRYPTIONS, keys_of
from tests.support.seen_vectors import rows_asked, sealed_in, vectors_in
from tests.support.small_runs import make_training
from tests.support.thoroughness import examples

pytestmark = pytest.mark.usefixtures("small_paillier")

N_SAMPLES, N_FEATURES = 9, 5

# A fixture that is the same for all examples may be shared by them.
FEW = settings(
    max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SOME = settings(FEW, max_examples=examples(12))
MANY = settings(FEW, max_examples=examples(40))

METHODS = {
    "drawn": {"step": "paper", "local_steps": 2, "refresh": "drawn"},
    "all": {"step": "safe", "local_steps": 2, "refresh": "all"},
    "search": {"step": "line_search", "local_fraction": 0.5},
    "bundle": {"algorithm": "bundle"},
}


def _check_stream(run, vector, held, plain, items, client):
    """Read the list of contributors and subtract their pads."""
    sealers = [party.sealing.sealer(vector.kind) for party in run.parties]
    vector, owners, _ = with_checks(vector, *held)
    payload = bytes(vector.sealed.payload)
    n_nonces, n_runs, depth, *widths = struct.unpack_from("<IIIBB", payload)
    n_numbers, (of_length, of_id) = len(vector.rows) * vector.width, widths
    sizes = [14, 24 * n_nonces, of_length * n_runs, of_id * n_runs * depth]
    starts = np.cumsum(sizes)
    assert len(payload) == starts[-1] + 8 * n_numbers
    lengths = np.frombuffer(payload, f"<u{of_length}", n_runs, starts[1])
    assert lengths.sum() == len(vector.rows)
    ids = np.frombuffer(payload, f"<u{of_id}", n_runs * depth, starts[2])
    of_rows = np.repeat(ids.reshape(n_runs, depth), lengths, axis=0)
    rank_of = {bare(sealer)._identity: k for k, sealer in enumerate(sealers)}
    nonces = [payload[14 + 24 * j :][:24] for j in range(n_nonces)]
    for row, contributors in zip(vector.rows, of_rows.tolist(), strict=True):
        found = [rank_of[nonces[j - 1][:16]] for j in contributors if j]
        assert set(found) <= set(owners[row])
    assert set(ids.tolist()) - {0} == set(range(1, n_nonces + 1))
    own = sealers[client]
    if vector.kind.is_checked:
        own = own.on_grid(vector.sealed.fraction_bits)
    opened = own.open(memoryview(payload), vector.width, *items)
    assert opened.reshape(-1).tolist() == plain


def _check_vector(run, said, vector, plain):
    sealing = run.parties[said.client].sealing
    layout = run.layout
    is_samples = vector.kind.axis == "samples"
    axis = layout.samples if is_samples else layout.features
    owners = owners_of(axis, said.client)
    n_numbers = len(vector.rows) * vector.width
    assert len(plain.payload) == 8 * n_numbers
    expected = np.frombuffer(plain.payload, np.int64).tolist()
    scheme = run.federation.vectors.picks[vector.kind.axis].scheme
    if scheme == "none":
        assert bytes(vector.sealed.payload) == bytes(plain.payload)
        return
    vectors = run.federation.vectors
    groups = vectors.sample_groups if is_samples else vectors.feature_groups
    own_groups = groups[axis.items[said.client]]
    if scheme != "stream":
        cipher = bare(sealing.sealer(vector.kind))._cipher
        check_packed(cipher, vector, owners, own_groups, expected)
        return
    own = sealing._samples if is_samples else sealing._features
    rows = np.array(vector.rows, np.int64)
    items = (own.restricted(rows), None) if vector.is_apart else (own, rows)
    held = (owners, own_groups)
    _check_stream(run, vector, held, expected, items, said.client)


def bare(sealer):
    """Return what seals the numbers and check rows of a sealer."""
    return getattr(sealer, "_sealer", sealer)


# Other information in arrays: about samples or features held or requested, or
# planes and buckets, which are not secret.
_BY_SAMPLE = {"sample_groups", "sample_holders", "label_holders", "buckets", "factors"}


_BY_FEATURE = {"feature_groups", "feature_holders"}


_OF_NOBODY = {"numbers", "kept", "units", "plane_weights", "mixture", "point_of"}


_POSITIONS = {"positions", "drawn"}


def _check_arrays(run, said):
    """Look at the arrays that a request has in the clear."""
    request = said.request
    n_held = len(run.layout.samples.items[said.client])
    n_features = len(run.layout.features.items[said.client])
    is_visit = isinstance(
        request, b.VisitRequest | b.VisitPlanesRequest | b.ForwardedVisit
    )
    for name in request.__struct_fields__:
        value = getattr(request, name)
        if not isinstance(value, memoryview) or name in _OF_NOBODY:
            continue
        if name in _POSITIONS:
            assert max(np.frombuffer(value, np.uint32), default=-1) < n_held
        elif name == "divisors":
            assert len(value) == 4 * len(rows_asked(run, said, list(range(n_held))))
        elif name == "buckets" and is_visit:
            n_buckets = run.clients[said.client].n_buckets
            assert max(np.frombuffer(value, np.uint32), default=-1) < n_buckets
        elif name in _BY_SAMPLE:
            assert len(value) == n_held * (8 if name == "factors" else 4)
        elif name in _BY_FEATURE:
            assert len(value) == n_features * 4
        else:
            # Weights in the clear are of the open profile alone.
            assert run.settings.profile == "open"
            assert name in ("weights", "points")
            n_points = len(value) // max(8 * n_features, 1)
            assert len(value) == 8 * n_features * n_points


def _margins_in(said: Said) -> list[m.Sealed]:
    return list(sealed_in(getattr(said.request, "margins", None)))


def _check_run(run, twin):
    heard, expected = listen(run)[0], listen(twin)[0]
    weights = run.finish()
    assert weights.tobytes() == twin.finish().tobytes()
    # Where nothing is sealed, nobody vouches.
    heard = [said for said in heard if not getattr(said.request, "seed", b"")]
    assert len(heard) == len(expected)
    n_vectors = 0
    for said, plain in zip(heard, expected, strict=True):
        assert (said.client, said.phase) == (plain.client, plain.phase)
        vectors = list(vectors_in(run, said)), list(vectors_in(twin, plain))
        for vector, in_plain in zip(*vectors, strict=True):
            assert vector.rows == in_plain.rows
            _check_vector(run, said, vector, in_plain.sealed)
            n_vectors += 1
        _check_arrays(run, said)
        if not run.layout.labelled[said.client]:
            margins = [v for v in vectors[0] if v.sealed in _margins_in(said)]
            assert not any(vector.rows for vector in margins)
    assert n_vectors > 0
    for client, features in enumerate(run.layout.features.items):
        foreign = np.delete(weights, features, axis=0)
        needles = [struct.pack("<d", w) for w in foreign.ravel() if w]
        received = b"".join(said.payload for said in heard if said.client == client)
        assert not any(needle in received for needle in needles)


@st.composite
def consortia(draw):
    """Draw holdings, and who has labels so that every sample has one."""
    holdings = draw(overlapping_holdings(N_SAMPLES, N_FEATURES, max_clients=3))
    labelled = [draw(st.booleans()) for _ in holdings]
    covered = {
        i
        for (rows, _), has in zip(holdings, labelled, strict=True)
        if has
        for i in rows
    }
    if len(covered) < N_SAMPLES:
        labelled = [True] * len(holdings)
    return holdings, labelled


def _run(consortium, method, profile, encryption):
    holdings, labelled = consortium
    random = stream(5, "layout privacy")
    X = sp.csr_array(random.normal(size=(N_SAMPLES, N_FEATURES)))
    y = np.where(random.random((N_SAMPLES, 1)) < 0.5, 1.0, -1.0)
    turns = [[0], list(range(len(holdings)))]
    return make_training(
        X,
        y,
        from_holdings(N_SAMPLES, N_FEATURES, holdings),
        labelled=labelled,
        bias=1.0,
        profile=profile,
        participation=None if method == "search" else cyclic(turns),
        max_rounds=4,
        measure_every=2,
        encryption=encryption,
        keys=keys_of(encryption),
        **METHODS[method],
    )


def _check(consortium, name, method, profile):
    encryption = ENCRYPTIONS[name]
    bare = Encryption("none", encryption.precision)
    _check_run(
        _run(consortium, method, profile, encryption),
        _run(consortium, method, profile, bare),
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("name", "profile"),
    [("stream", "sealed"), ("paillier", "sealed"), ("paillier", "open")],
)
@SOME
@given(consortium=consortia())
def test_a_client_gets_its_own_samples_and_features_alone(
    name, profile, method, consortium
):
    """No slot, row or array of any message is of an item that it does not hold."""
    _check(consortium, name, method, profile)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@FEW
@given(consortium=consortia())
def test_blocks_of_bfv_have_their_clients_own_numbers_alone(method, consortium):
    """Every one of the 4,096 slots is of an item that the client holds, or zero."""
    _check(consortium, "bfv-compact", method, "sealed")


@pytest.mark.sampled(7)
@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("name", ["stream", "paillier", "bfv"])
@MANY
@given(consortium=consortia())
def test_of_many_consortia_no_client_gets_more(name, profile, method, consortium):
    """The same holds for many more holdings."""
    _check(consortium, name, method, profile)

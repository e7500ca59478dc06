"""Sealed or not, a run finds the same numbers, bit for bit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hyfdca.crypto.schemes import bfv_blocks
from hyfdca.crypto.schemes.paillier import PaillierAddition
from hyfdca.crypto.schemes.registry import (
    Adders,
    Encryption,
    new_keys,
    public_parameters,
)
from hyfdca.crypto.schemes.stream_sums import StreamAdder
from hyfdca.data.tables import stored_densely
from hyfdca.holdings.ownership import owned_cells
from hyfdca.maths.seeds import stream
from hyfdca.protocol.client_session import ClientSession
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess
from hyfdca.stages.scaling.client import ScalingClient
from hyfdca.stages.scaling.messages import PHASES
from hyfdca.stages.scaling.server import ScalingServer
from tests.protocol.wires import listen
from tests.support.holding_strategies import PARTITIONS
from tests.support.run_cases import (
    AXES,
    METHODS,
    Case,
    cases_of,
    coarsen,
    covering,
    name_of,
)
from tests.support.sealed_runs import ENCRYPTIONS, found_by, keys_of
from tests.support.set_keys import sealers_of
from tests.support.small_runs import classification, make_training, partition_of
from tests.support.thoroughness import sampled

SLOW = pytest.mark.slow

pytestmark = pytest.mark.usefixtures("small_paillier")


def _check(case, **given):
    encryption = ENCRYPTIONS[case.encryption]
    plain = case.run(replace(encryption, scheme="none"), **given)
    sealed = case.run(encryption, **given)
    expected = found_by(plain)
    assert found_by(sealed) == expected
    assert len(sealed.history) == sealed.settings.max_rounds
    assert np.abs(sealed.release()).max() > 0
    return sealed


@pytest.mark.parametrize("case", covering(cases_of(AXES)), ids=name_of)
def test_encryption_changes_no_bit(case):
    """Weights, duals, margins and history are those of the run that is not sealed."""
    sealed = _check(case)
    picks = sealed.federation.vectors.picks
    is_sealed = {kind: pick.scheme != "none" for kind, pick in picks.items()}
    by_feature = case.profile == "sealed"
    assert is_sealed == {"samples": True, "features": by_feature, "totals": True}


@pytest.mark.slow
@pytest.mark.sampled(7)
@pytest.mark.parametrize("shape", AXES["shape"])
@pytest.mark.parametrize("method", AXES["method"])
def test_encryption_changes_no_bit_anywhere(method, shape):
    """The same for every scheme with every method, shape, profile and presence."""
    expected = {}
    rest = (AXES[name] for name in ("profile", "presence", "encryption"))
    numbered = list(enumerate(itertools.product(*rest)))
    # Each method and shape starts elsewhere, so that together they try all of them.
    start = AXES["method"].index(method) + AXES["shape"].index(shape)
    for number, (profile, presence, name) in sampled(numbered, 9, start):
        labels = "some" if number % 2 and shape != "horizontal" else "all"
        case = Case(method, shape, profile, presence, labels, 1 + number % 3 // 2, name)
        if not case.is_possible:
            continue
        encryption = ENCRYPTIONS[name]
        bare = replace(encryption, scheme="none", small_vectors="auto")
        what = (case._replace(encryption=""), bare)
        if what not in expected:
            expected[what] = found_by(case.run(bare))
        assert found_by(case.run(encryption)) == expected[what], case


@pytest.mark.parametrize("method", ["drawn", "bundle"])
@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_one_number_a_ciphertext_changes_no_bit(method, profile, small_paillier):
    """Paillier's values that stand alone give the same run too."""
    case = Case(method, "overlapping", profile, "partial", "some", 1, "paillier")
    encryption = Encryption("paillier-single")
    sealed = case.run(encryption)
    expected = found_by(case.run(Encryption()))
    assert found_by(sealed) == expected
    assert sealed.federation.vectors.picks["samples"].scheme == "paillier-single"


@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_schemes_side_by_side_change_no_bit(method):
    """Where samples fill blocks and features do not, each has its own scheme."""
    X, y = classification(2400, 4, noise=0.5)
    given = {**METHODS[method], "local_steps": 1800} if method == "drawn" else {}
    given = given or METHODS[method]

    def run(encryption):
        partition = partition_of("1x2", 2400, 4)
        return make_training(
            X, y, partition, encryption=encryption, max_rounds=2, **given
        )

    sealed = run(Encryption("bfv"))
    assert found_by(sealed) == found_by(run(Encryption()))
    picks = sealed.federation.vectors.picks
    schemes = {kind: pick.scheme for kind, pick in picks.items()}
    assert schemes == {"samples": "bfv", "features": "stream", "totals": "stream"}


@pytest.mark.parametrize("name", ["stream", "bfv"])
@pytest.mark.parametrize("method", ["bundle", "lbfgs"])
def test_buckets_that_not_all_clients_have_change_no_bit(method, name):
    """The witness vouches for each part by the buckets that its sender has."""
    X, y = classification(60, 8, noise=0.5)

    def run(encryption):
        partition = partition_of("6x2")
        keys = keys_of(encryption)
        given = {**METHODS[method], "keys": keys, "profile": "sealed", "max_rounds": 4}
        return make_training(X, y, partition, encryption=encryption, **given)

    sealed = run(ENCRYPTIONS[name])
    assert found_by(sealed) == found_by(run(Encryption()))
    if method == "bundle":
        assert sealed.server.buckets.n_buckets == 2


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("bits", [2048, 3072])
@pytest.mark.parametrize("method", ["drawn", "bundle"])
def test_paillier_of_real_size_changes_no_bit(method, bits):
    """The keys have the size that studies use."""
    case = Case(method, "grid", "sealed", "partial", "some", 1, "paillier")
    encryption = Encryption("paillier", paillier_bits=bits)
    sealed = case.run(encryption, keys=new_keys(encryption))
    assert found_by(sealed) == found_by(case.run(Encryption()))


# Long runs

ONE_OF_A_KIND = ["stream", "bfv-compact", "paillier", pytest.param("bfv", marks=SLOW)]


@pytest.fixture
def small_capacity(monkeypatch):
    """Limit sums of all schemes to four summands, one per client."""
    monkeypatch.setattr(StreamAdder, "capacity", 4)
    monkeypatch.setattr(PaillierAddition, "capacity", 4)
    for name in ("FULL", "COMPACT"):
        parameters = replace(getattr(bfv_blocks, name), capacity=4)
        monkeypatch.setattr(bfv_blocks, name, parameters)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("presence", ["complete", "partial"])
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("stream", "drawn"),
        ("stream", "theory"),  # whose duals are measured right after
        ("bfv-compact", "drawn"),
        ("paillier", "drawn"),
        pytest.param("bfv-compact", "theory", marks=SLOW),
        pytest.param("paillier", "theory", marks=SLOW),
        pytest.param("bfv", "drawn", marks=SLOW),
        pytest.param("bfv", "theory", marks=SLOW),
    ],
)
def test_resealing_duals_changes_no_bit(name, method, presence, small_capacity):
    """Sums of many changes are sealed again now and then, and nobody sees it."""
    case = Case(method, "overlapping", "sealed", presence, "some", 1, name)
    encryption = ENCRYPTIONS[name]
    sealed = case.run(encryption, max_rounds=16)
    heard, _ = listen(sealed)
    plain = case.run(replace(encryption, scheme="none"), max_rounds=16)
    assert found_by(sealed) == found_by(plain)
    resealed = [said for said in heard if said.phase == "reseal"]
    assert len({said.client for said in resealed}) > 1
    assert sealed.server.dual.duals._n_summands.max() <= 4 + 2 * 4


@pytest.mark.sampled(3)
@pytest.mark.parametrize("presence", ["complete", "partial"])
@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_sums_on_several_grids_change_no_bit(name, presence, small_capacity):
    """Duals and parts of absent clients stay on the grids that they came on."""
    case = Case("drawn", "overlapping", "sealed", presence, "some", 2, name)
    encryption = ENCRYPTIONS[name]
    found = []
    for scheme in (encryption.scheme, "none"):
        run = case.run(replace(encryption, scheme=scheme), max_rounds=8)
        for report in run.rounds():
            if report.round_number in (2, 4, 7):
                coarsen(run)
        found.append(found_by(run))
        assert len(run.server.dual.duals.take_all()) > 2
    assert found[0] == found[1]


# Scaling


def _scaled(partition, X, encryption, scale, missing):
    """Return what each client and the server know of the scaling."""
    keys = keys_of(encryption)
    clients = {
        k: ScalingClient(
            owned_cells(
                partition.own_cells(k), stored_densely(X[h.samples][:, h.features])
            ),
            scale,
            missing,
            sealers_of(encryption, keys, k, partition.n_clients),
        )
        for k, h in enumerate(partition.holdings)
    }
    token = b"scaling!"
    driver = InProcess(
        {k: ClientSession(token, PHASES, c.handlers) for k, c in clients.items()}
    )
    server = ScalingServer(
        partition.features,
        partition.n_samples,
        Adders(encryption, public_parameters(keys)),
        ServerSession(token, PHASES),
    )
    driver.run(server.run(scale, missing), Traffic())
    released = driver.run(server.release(), Traffic())
    known = [released, *(client.scaling for client in clients.values())]
    return [(s.offset.tobytes(), s.scale.tobytes(), s.filling.tobytes()) for s in known]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("shape", PARTITIONS)
@pytest.mark.parametrize("name", ENCRYPTIONS)
def test_encryption_changes_no_bit_of_the_scaling(name, shape, seed):
    """Means, deviations and maxima are those of the exchange that is not sealed."""
    partition, encryption = PARTITIONS[shape], ENCRYPTIONS[name]
    random = stream(seed, "table")
    X = random.normal(size=(partition.n_samples, partition.n_features))
    X *= 10.0 ** np.arange(-3, 3)
    X[random.random(X.shape) < 0.1] = np.nan
    bare = replace(encryption, scheme="none")
    for settings in (("standard", "mean"), ("maxabs", "mean")):
        sealed = _scaled(partition, X, encryption, *settings)
        assert sealed == _scaled(partition, X, bare, *settings)
        assert np.frombuffer(sealed[0][2]).all()  # means

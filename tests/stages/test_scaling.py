"""Scaling by sums over holders against scikit-learn on the pooled table."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from hyfdca.crypto.schemes.registry import Adders, Encryption
from hyfdca.data.tables import stored_densely
from hyfdca.federation.messages import Arrangements
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.ownership import owned_cells
from hyfdca.holdings.partition import from_holdings, vertical
from hyfdca.maths.seeds import stream
from hyfdca.model.scaling import Scaling
from hyfdca.protocol.client_session import ClientSession, frame
from hyfdca.protocol.codec import RemoteProtocolError, pack_reals
from hyfdca.protocol.messages import GridSpec, Message, Sealed
from hyfdca.protocol.server_session import BadReplyError, ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess
from hyfdca.stages.scaling.client import ScalingClient
from hyfdca.stages.scaling.messages import (
    PHASES,
    ScalingNotice,
    Statistics,
    StatisticsRequest,
    exchanges,
)
from hyfdca.stages.scaling.server import ScalingServer
from hyfdca.stages.secure_max import DIGITS, SecureMax
from tests.support.holding_strategies import (
    N_FEATURES,
    N_SAMPLES,
    OVERLAPPING,
    PARTITIONS,
)
from tests.support.set_keys import sealers_of

TOKEN = b"scaling!"
SEALERS = sealers_of(Encryption(), {"none": b""})
ADDERS = Adders(Encryption(), {"none": b""})


def run(partition, X, scale, missing, precision="full"):
    """Return the released scaling and the table that scaled clients add up to."""
    pick = stored_densely if isinstance(X, np.ndarray) else sp.csr_array
    tables = [pick(X[h.samples][:, h.features]) for h in partition.holdings]
    encryption, keys = Encryption(precision=precision), {"none": b""}
    sealers, adders = sealers_of(encryption, keys), Adders(encryption, keys)
    clients = [
        ScalingClient(
            owned_cells(partition.own_cells(k), table), scale, missing, sealers
        )
        for k, table in enumerate(tables)
    ]
    driver = InProcess(
        {
            k: ClientSession(TOKEN, PHASES, client.handlers)
            for k, client in enumerate(clients)
        }
    )
    server = ScalingServer(
        partition.features, partition.n_samples, adders, ServerSession(TOKEN, PHASES)
    )
    driver.run(server.run(scale, missing), Traffic())
    pooled = np.zeros(X.shape)
    for k, (client, holding) in enumerate(
        zip(clients, partition.holdings, strict=True)
    ):
        own = owned_cells(partition.own_cells(k), tables[k]).stored
        scaled = client.scaling.apply(own).toarray()
        pooled[np.ix_(holding.samples, holding.features)] += scaled
    return driver.run(server.release(), Traffic()), pooled


@pytest.fixture
def table():
    """Return features of very different sizes, one constant and one zero."""
    random = stream(3, "table")
    X = random.normal(size=(N_SAMPLES, N_FEATURES)) * [1e-6, 1.0, 1e5, 3.0, 0.0, 0.0]
    X += [2e-6, 0.0, 1e6, -50.0, 0.1, 0.0]
    X[3:9, 1] = 0.0
    return X


def with_gaps(X):
    holes = stream(4, "holes").random(X.shape) < 0.15
    return np.where(holes, np.nan, X)


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("has_gaps", [False, True])
def test_standard_scaling_is_that_of_the_pooled_table(name, has_gaps, table):
    """Standard scaling equals StandardScaler, a missing cell becoming the mean."""
    X = with_gaps(table) if has_gaps else table
    partition = PARTITIONS[name]
    X = np.where(held(partition), X, np.nan)
    scaling, scaled = run(partition, np.nan_to_num(X) if not has_gaps else X, *STANDARD)
    reference = StandardScaler().fit(X)
    np.testing.assert_allclose(scaling.offset, reference.mean_, rtol=1e-12)
    np.testing.assert_allclose(scaling.scale, reference.scale_, rtol=1e-12)
    expected = np.nan_to_num(reference.transform(X))
    np.testing.assert_allclose(scaled, expected, rtol=1e-11, atol=1e-12)


STANDARD = ("standard", "mean")


def held(partition):
    """Return which cells somebody holds."""
    mask = np.zeros((partition.n_samples, partition.n_features), dtype=bool)
    for holding in partition.holdings:
        mask[np.ix_(holding.samples, holding.features)] = True
    return mask


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_maxabs_is_exact(name, kind, table):
    """Maxabs scaling equals MaxAbsScaler to the last bit, dense or sparse."""
    partition = PARTITIONS[name]
    X = np.where(held(partition), table, 0.0)
    scaling, scaled = run(partition, kind(X), "maxabs", "refuse")
    reference = MaxAbsScaler().fit(X)
    np.testing.assert_array_equal(scaling.scale, reference.scale_)
    np.testing.assert_array_equal(scaled, X / reference.scale_)
    np.testing.assert_array_equal(scaling.offset, 0.0)


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("scale", ["none", "maxabs"])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_missing_cells_become_the_mean(name, scale, kind, table):
    """A missing cell gets the mean of the observed owned cells, as SimpleImputer."""
    partition = PARTITIONS[name]
    X = np.where(held(partition), with_gaps(table), 0.0)
    _, scaled = run(partition, kind(X), scale, "mean")
    imputer = SimpleImputer(keep_empty_features=True)
    imputer.fit(np.where(held(partition), X, np.nan))
    expected = np.where(held(partition), imputer.transform(X), 0.0)
    if scale == "maxabs":
        expected = MaxAbsScaler().fit_transform(expected)
    np.testing.assert_allclose(scaled, expected, rtol=1e-12)


def test_nothing_is_asked_where_nothing_is_scaled(table):
    """Without scaling and filling there is no exchange and no change."""
    assert exchanges("none", "refuse") == []
    scaling, scaled = run(OVERLAPPING, table, "none", "refuse")
    np.testing.assert_array_equal(scaling.scale, 1.0)
    np.testing.assert_array_equal(scaled, np.where(held(OVERLAPPING), table, 0.0))


def test_feature_without_observed_cell(table):
    """A feature that nobody observed is left alone and counts as zero."""
    table[:, 2] = np.nan
    scaling, scaled = run(OVERLAPPING, table, *STANDARD)
    assert (scaling.offset[2], scaling.scale[2]) == (0.0, 1.0)
    assert not scaled[:, 2].any()


def test_feature_nobody_holds():
    """A feature without holder has offset 0 and scale 1."""
    partition = from_holdings(4, 3, [(range(4), [0]), (range(2), [2])])
    scaling, _ = run(partition, np.arange(12.0).reshape(4, 3), *STANDARD)
    assert (scaling.offset[1], scaling.scale[1], scaling.filling[1]) == (0.0, 1.0, 0.0)


def test_offsets_do_not_drown_small_spreads():
    """A spread of 1 around a million keeps its digits, thanks to two exchanges."""
    X = 1e6 + stream(5, "offset").normal(size=(200, 2))
    scaling, _ = run(vertical(200, 2, 2), X, "standard", "refuse")
    np.testing.assert_allclose(scaling.scale, X.std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("precision", ["full", "compact"])
@pytest.mark.parametrize("constant", [0.1, -1 / 3, 1e-7, 123456.7])
def test_constant_features(precision, constant):
    """What differs from the mean by the grid alone is constant; small spreads stay."""
    X = np.full((101, 2), constant)
    X[:, 1] += 1e-9 * constant * stream(6, "small").normal(size=len(X))
    parts = [(range(51), [0, 1]), (range(51, 101), [0, 1])]
    partition = from_holdings(101, 2, parts)
    scaling, scaled = run(partition, X, "standard", "refuse", precision)
    assert scaling.scale[0] == 1.0
    np.testing.assert_allclose(scaled[:, 0], 0.0, atol=1e-10 * abs(constant))
    np.testing.assert_allclose(scaling.scale[1], X[:, 1].std(), rtol=1e-3)


def test_standard_refuses_sparse_tables():
    """Centring would fill a sparse table, so the sentence says to use maxabs."""
    with pytest.raises(ValueError, match="use scale='maxabs'"):
        run(vertical(3, 2, 2), sp.csr_array(np.eye(3)[:, :2]), "standard", "refuse")


@pytest.mark.parametrize("numbers", [(0.0, 0.0), (5e-324, 0.0), (1.5, 1.7e308)])
def test_largest_of_any_floats(numbers):
    """Digits give the maximum exactly, from zero over subnormals to the last float."""
    holders = [np.array([number]) for number in numbers]
    largest = SecureMax(1)
    for _ in range(DIGITS):
        largest.take(sum(largest.next_digit(own) for own in holders))
    assert largest.number() == max(numbers)
    assert 0.5 * max(numbers) < largest.unit() or max(numbers) == 0.0


@pytest.fixture
def session(table):
    """Return a client of a standard scaling that has received the schemes."""
    return session_of(table)


def client_of(table):
    """Return the first of the clients with some columns each."""
    partition = PARTITIONS["vertical"]
    held = stored_densely(table[:, partition.holdings[0].features])
    cells = owned_cells(partition.own_cells(0), held)
    return ScalingClient(cells, "standard", "refuse", SEALERS)


def session_of(table):
    """Return its session, whose next request has the number 2."""
    session = ClientSession(TOKEN, PHASES, client_of(table).handlers)
    plain = Arrangements("none", "none")
    session.handle("arrange", frame(TOKEN, 1, plain))
    return session


FIRST = StatisticsRequest(None, GridSpec(40, 50))


@pytest.mark.parametrize(
    ("phase", "request_", "message"),
    [
        ("means", FIRST, "'means' is out of order"),
        ("spread", FIRST, "'spread' is out of order"),
        ("deviations", FIRST, "'deviations' is out of order"),
        ("scaling", ScalingNotice([]), "'scaling' is out of order"),
        ("statistics", Message(), "'statistics' is out of order"),
        ("digits", StatisticsRequest([], GridSpec(40, 50)), "exchange before"),
        ("digits", StatisticsRequest(None, GridSpec(48, 50)), "too fine"),
    ],
)
def test_messages_out_of_order(session, phase, request_, message):
    """A message that cannot come now is refused, and the right one still works."""
    with pytest.raises(RemoteProtocolError, match=message):
        session.handle(phase, frame(TOKEN, 2, request_))
    assert session.handle("digits", frame(TOKEN, 3, FIRST))


@pytest.mark.parametrize(
    ("phase", "request_", "message"),
    [
        ("means", FIRST, "'means' is out of order"),
        ("spread", FIRST, "'spread' is out of order"),
        ("deviations", FIRST, "'deviations' is out of order"),
        ("scaling", ScalingNotice([]), "ends before"),
        ("statistics", Message(), "not known yet"),
    ],
)
def test_a_client_counts_its_exchanges_by_itself(table, phase, request_, message):
    """A table of phases does not say how many digits there are; a client knows."""
    client = client_of(table)
    with pytest.raises(RemoteProtocolError, match=message):
        client.handlers[phase](request_)
    assert client.handlers["digits"](FIRST)


@pytest.mark.parametrize(
    ("phase", "message"),
    [("means", "'means' is out of order"), ("scaling", "ends before")],
)
def test_a_digit_too_few_is_refused(session, phase, message):
    """What may follow digits by the table is refused before there are enough."""
    session.handle("digits", frame(TOKEN, 2, FIRST))
    nothing = [Sealed(40, memoryview(bytes(2 * 16 * 8)))]
    again = StatisticsRequest(nothing, FIRST.grid)
    request = ScalingNotice(nothing) if phase == "scaling" else again
    with pytest.raises(RemoteProtocolError, match=message):
        session.handle(phase, frame(TOKEN, 3, request))
    assert session.handle("digits", frame(TOKEN, 4, again))


def test_client_needs_the_sum_of_the_exchange_before(session):
    """A request without the sum it should bring, or with a wrong one, is refused."""
    session.handle("digits", frame(TOKEN, 2, FIRST))
    with pytest.raises(RemoteProtocolError, match="exchange before"):
        session.handle("digits", frame(TOKEN, 3, FIRST))
    short = StatisticsRequest([Sealed(40, memoryview(b"short"))], FIRST.grid)
    with pytest.raises(RemoteProtocolError, match="does not open"):
        session.handle("digits", frame(TOKEN, 4, short))


def test_a_maximum_below_ones_own(table):
    """A server that hides how large numbers are is found out, not believed."""
    session = session_of(1e9 * table)
    session.handle("digits", frame(TOKEN, 2, FIRST))
    nothing = memoryview(bytes(2 * 16 * 8))  # two features, no digit counted
    request = StatisticsRequest([Sealed(40, nothing)], FIRST.grid)
    for number in (3, 4):
        session.handle("digits", frame(TOKEN, number, request))
    with pytest.raises(RemoteProtocolError, match="below this client's own"):
        session.handle("means", frame(TOKEN, 5, request))


def test_a_refused_sum_leaves_no_trace(table):
    """The sum comes with the request: what is refused with it was never taken."""
    client, undisturbed = client_of(1e9 * table), client_of(1e9 * table)
    digits = [StatisticsRequest([Sealed(40, _counted(d))], FIRST.grid) for d in (4, 1)]
    for own in (client, undisturbed):
        own.handlers["digits"](FIRST)
        for request in digits:
            own.handlers["digits"](request)
    nothing = StatisticsRequest([Sealed(40, _counted(None))], FIRST.grid)
    with pytest.raises(RemoteProtocolError, match="below this client's own"):
        client.handlers["means"](nothing)
    good = StatisticsRequest([Sealed(40, _counted(13))], FIRST.grid)
    expected = undisturbed.handlers["means"](good).vector.payload
    assert bytes(client.handlers["means"](good).vector.payload) == bytes(expected)


def _counted(digit):
    """Return counts in which everybody's digit is this one, of two features."""
    counts = np.zeros((2, 16), "<i8")
    if digit is not None:
        counts[:, digit] = 1 << 40
    return memoryview(counts.tobytes())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda scale: scale * 2, r"clients 0 and 1 .*different statistics"),
        (lambda scale: -scale, r"client 1 .*not positive"),
    ],
)
def test_holders_that_release_other_statistics_are_named(change, message):
    """All holders of a column found the same sums, so they release the same."""
    axis = Axis(N_FEATURES, (np.arange(N_FEATURES),) * 2)
    server = ScalingServer(axis, N_SAMPLES, ADDERS, ServerSession(TOKEN, PHASES))
    replies = [np.zeros(N_FEATURES), np.ones(N_FEATURES), np.zeros(N_FEATURES)]
    good = Statistics(*map(pack_reals, replies))
    bad = Statistics(good.offset, pack_reals(change(replies[1])), good.filling)
    handlers = [{"statistics": lambda _, own=own: own} for own in (good, bad)]
    sessions = [ClientSession(TOKEN, PHASES, own) for own in handlers]
    with pytest.raises(BadReplyError, match=message):
        InProcess(dict(enumerate(sessions))).run(server.release(), Traffic())


def test_applying_does_not_store_zeros():
    """What scaling makes zero is not stored."""
    one = np.ones(1)
    cells = sp.csr_array(np.array([[1.0], [np.nan], [3.0]]))
    scaled = Scaling(one, 2 * one, one).apply(cells)
    assert scaled.nnz == 1
    assert scaled.toarray().ravel().tolist() == [0.0, 0.0, 1.0]

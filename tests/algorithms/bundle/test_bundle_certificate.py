"""Certificates of the bundle method: never optimistic, only improving."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.holdings import participation
from hyfdca.holdings import partition as parts
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.maths.seeds import stream
from tests.support.holding_strategies import subsets
from tests.support.small_runs import (
    PROFILES,
    bundle_run,
    coarse_grids,
    partition_of,
    pooled,
    table_for,
)

PARTITIONS = [
    "1x1",
    "3x3",
    pytest.param("5x2", marks=pytest.mark.slow),
    "overlapping",
]


@st.composite
def _studies(draw):
    """Draw who holds what, who has labels, whose samples weigh how much."""
    n_samples, n_features = draw(st.integers(1, 9)), draw(st.integers(1, 12))
    pairs = st.tuples(subsets(n_samples), subsets(n_features))
    holdings = draw(st.lists(pairs, max_size=4))
    labelled = [draw(st.booleans()) for _ in holdings]
    known = {
        sample
        for (samples, _), has_labels in zip(holdings, labelled, strict=True)
        for sample in samples
        if has_labels
    }
    left = [sample for sample in range(n_samples) if sample not in known]
    holdings.append((left, draw(subsets(n_features))))
    partition = parts.from_holdings(n_samples, n_features, holdings)
    return partition, [*labelled, True], draw(st.booleans()), draw(st.integers(0, 999))


def _random_problem(study, loss, l2):
    """Return a study's blocks and layout, and its problem on what is held at all."""
    partition, labelled, is_weighted, seed = study
    random = stream(seed, "study")
    shape = (partition.n_samples, partition.n_features)
    X = random.normal(size=shape) * (random.random(shape) < 0.8)
    X *= 10.0 ** random.uniform(-2, 2, size=(1, shape[1]))
    held = np.zeros(shape)
    for holding in partition.holdings:
        held[np.ix_(holding.samples, holding.features)] = 1.0
    X = sp.csr_array(X * held)
    y = random.normal(size=(shape[0], 1)) * 10.0 ** random.uniform(-1, 1)
    if loss.task == "classification":
        y = np.where(y > 0, 1.0, -1.0)
    weights = random.uniform(0.1, 4.0, (shape[0], 1)) if is_weighted else None
    layout = layout_of(partition, labelled)
    blocks = split_blocks(X, y, partition, layout, sample_weights=weights)
    return blocks, Objective(X, y, loss, l2, weights)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("lost_bits", [0, pytest.param(20, marks=pytest.mark.slow), 36])
@pytest.mark.parametrize("is_complete", [True, False])
@settings(max_examples=15)
@given(
    study=_studies(),
    name=st.sampled_from(sorted(LOSSES)),
    l2=st.sampled_from([0.003, 0.05, 1.0]),
)
def test_the_certificate_is_never_optimistic(
    profile, lost_bits, is_complete, study, name, l2
):
    """After any round P is at least that of the weights released, D at most P*.

    On coarse grids too, where rounding is no longer too small to be seen.
    """
    blocks, objective = _random_problem(study, make_loss(name), l2)
    partition, labelled, _, seed = study
    coins = participation.bernoulli(partition.n_clients, 0.7, seed)
    run = bundle_run(
        objective.X,
        objective.labels,
        partition,
        loss=name,
        l2=l2,
        profile=profile,
        labelled=labelled,
        blocks=blocks,
        participation=None if is_complete else coins,
        max_rounds=6 if is_complete else 12,
        min_contributors=2,
        sub_groups=2,
        min_group_size=2,
    )
    optimum = reference_optimum(objective, 1e-10, max_epochs=300)
    with coarse_grids(lost_bits):
        for report in run.rounds():
            primal = objective.primal(run.release())
            # 1e-12: the objective on plain arrays is rounded too.
            assert report.measurement.primal >= primal * (1 - 1e-12)
            assert primal >= optimum.dual * (1 - 1e-12)
            assert report.measurement.dual <= optimum.primal * (1 + 1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_solved_wherever_the_data_are(loss, profile, partition, seed):
    """The gap is reached, and the certificate is that of the weights released."""
    X, y = table_for(loss, seed=seed)
    run = bundle_run(
        X,
        y,
        partition_of(partition),
        loss=loss,
        l2=0.003,
        profile=profile,
        tolerance=1e-3,
    )
    weights = run.finish()
    assert run.stop_reason == "tolerance"
    primal = pooled(X, y, loss, 0.003).primal(weights)
    assert run.measurement.primal == pytest.approx(primal, rel=1e-9)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "absolute", "huber"])
def test_certificates_only_improve(loss, profile, seed):
    """P never rises except by rounding, and D never falls."""
    X, y = table_for(loss, seed=seed)
    run = bundle_run(
        X,
        y,
        partition_of("3x3"),
        loss=loss,
        l2=0.003,
        profile=profile,
        max_rounds=15,
    )
    run.finish()
    primals = np.array([record["primal"] for record in run.history])
    duals = np.array([record["dual"] for record in run.history])
    assert np.all(np.diff(primals) <= 1e-9 * primals[:-1])
    assert np.all(np.diff(duals) >= 0.0)
    assert primals[-1] - duals[-1] < 0.1 * (primals[0] - duals[0])

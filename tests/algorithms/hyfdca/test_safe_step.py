"""The safe step and what it is made of; a run whose step is not safe."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.algorithms.hyfdca.draws import check_drawn
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfdca.safe_step import (
    SAFETY,
    _check_start,
    estimate_interaction,
    safe_factors,
)
from hyfdca.holdings import partition as parts
from hyfdca.holdings.layout import layout_of
from hyfdca.maths.seeds import stream
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.runtime.driver import Traffic
from tests.support.small_runs import (
    alike_rows,
    classification,
    diverging_run,
    duals_of,
    make_training,
    partition_of,
    pooled,
    run_round,
    set_up,
)
from tests.support.thoroughness import sampled

N, M = 120, 24


@pytest.mark.slow
def test_safe_step_never_lowers_the_mean_dual(seed, monkeypatch):
    """With the exact interaction the mean dual rises in every round, for every H."""
    # Factors follow a probe, whose estimate is replaced here.
    monkeypatch.setattr("hyfdca.algorithms.hyfdca.safe_step.ITERATIONS", 1)
    X, y = classification(40, 10, noise=1.0)
    partition = parts.grid(40, 10, (2, 2), seed=seed)
    normalised = X.toarray() / np.linalg.norm(X.toarray(), axis=1, keepdims=True)
    interaction = float(np.linalg.eigvalsh(normalised @ normalised.T)[-1])

    def exact(federation):
        yield from estimate_interaction(federation)
        return interaction / SAFETY

    monkeypatch.setattr("hyfdca.algorithms.hyfdca.hyfdca.estimate_interaction", exact)
    n_runs, n_rounds = 40, 12
    for local_steps in sampled((1, 2, 5, 10, 15, 20), 3):
        duals = np.zeros((n_runs, n_rounds + 1))
        for run in range(n_runs):
            training = make_training(
                X,
                y,
                partition,
                l2=0.005,
                local_steps=local_steps,
                step="safe",
                seed=run,
            )
            set_up(training)
            for t in range(1, n_rounds + 1):
                run_round(training)
                duals[run, t] = pooled(X, y, l2=0.005).dual(duals_of(training))
        assert np.all(np.diff(duals.mean(axis=0)) > 0.0), local_steps


def test_interaction_estimate_approaches_the_eigenvalue_from_below():
    """A few power iterations over the primitives find Λ within the safety factor."""
    X, y = classification(N, M)
    X = sp.csr_array(X.multiply(np.linspace(0.5, 9.0, N)[:, None]))
    training = set_up(make_training(X, y, parts.grid(N, M, (3, 3), seed=1)))
    conversation = estimate_interaction(training.federation)
    estimate = training.driver.run(conversation, Traffic())
    rows = X.toarray() / np.linalg.norm(X.toarray(), axis=1, keepdims=True)
    exact = float(np.linalg.eigvalsh(rows @ rows.T)[-1])
    assert exact / SAFETY <= estimate <= exact * (1 + 1e-9)


def test_a_diverging_run_stops_with_its_reason():
    """Where the printed step blows numbers up, the run ends with a reason."""
    training = diverging_run(measure_every=50)
    training.finish()
    assert training.stop_reason == "diverged"
    assert training.measurement.relative_gap > 0.5


@pytest.mark.parametrize(("l2", "measure_every"), [(1e-12, 21), (1e-4, 20)])
def test_a_run_that_diverges_while_it_is_measured_gives_its_last_model(
    l2, measure_every
):
    """Whichever exchange outgrows every grid, the model last measured is released."""
    X, y = alike_rows()
    run = make_training(
        X,
        y,
        partition_of("4x1", 200, 4),
        loss="half_squared",
        l2=l2,
        max_rounds=3000,
        measure_every=measure_every,
    )
    assert np.all(np.isfinite(run.finish()))
    assert run.stop_reason == "diverged"


@pytest.mark.parametrize("interaction", [1.0, 2.5])
@pytest.mark.parametrize("n_drawn", [1, 2, 4])
def test_factors_are_those_of_all_draws_enumerated(n_drawn, interaction):
    """(Var θ N/(N-1) + p² Λ) / p, with moments over every draw there is (E4 (ii))."""
    n_samples = 5
    layout = layout_of(partition_of("1x1", n_samples, 2))
    drawn = [
        [i in d for i in range(n_samples)] for d in combinations(range(5), n_drawn)
    ]
    chance, spread = np.mean(drawn, axis=0), np.var(drawn, axis=0)
    expected = spread * n_samples / (n_samples - 1) + chance**2 * interaction
    factors = safe_factors(layout, lambda _: n_drawn, interaction)
    most = np.minimum(expected / chance, n_drawn)  # E4 (i)
    assert factors == pytest.approx(most)


@pytest.mark.slow
def test_the_start_of_the_probe_is_not_the_servers_choice():
    """A client knows the study's seed, and refuses any other start on its features."""
    _check_start(3, np.empty(0))
    whole = stream(3, "interaction").standard_normal(5_000)
    _check_start(3, whole[[0, 7, 4_999]])
    for wrong in (
        whole[[7, 0]],
        whole[[7, 7]],
        np.array([1.0, 0.0, 0.0]),
        stream(4, "interaction").standard_normal(3),
    ):
        with pytest.raises(RemoteProtocolError, match="is not the study's"):
            _check_start(3, wrong)


@pytest.mark.parametrize(
    ("given", "n_drawn"),
    [
        ({"local_steps": 5}, 5),
        ({"local_fraction": 0.25}, 5),
        ({"iic": 0.5}, 5),
        ({"local_steps": 50}, 20),
    ],
)
def test_a_draw_has_the_studys_size(given, n_drawn):
    """Otherwise a server could request a step for one row at a time."""
    block = SimpleNamespace(counts_sample=np.arange(20) < 12)
    party = SimpleNamespace(
        n_held=20,
        n_clients=4,
        least_rows=1,
        is_complete=True,
        block=block,
        problem=SimpleNamespace(n_samples=40),
    )
    settings = Hyfdca(step="paper", **given)
    legal = {n_drawn, 12} if n_drawn == 20 else {n_drawn}
    for n_asked in range(1, 21):
        if n_asked in legal:
            check_drawn(settings, party, n_asked)
            continue
        with pytest.raises(RemoteProtocolError, match=f"the study draws {n_drawn}"):
            check_drawn(settings, party, n_asked)

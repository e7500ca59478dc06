"""What is measured, by whom, and of which weights."""

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.holdings import partition as parts
from hyfdca.holdings.participation import random_fraction
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective, reference_optimum
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.runtime.driver import Traffic
from tests.support.small_runs import (
    alike_rows,
    classification,
    diverging_run,
    make_training,
    measure,
    pooled,
    run_round,
    set_up,
)


@pytest.mark.parametrize("step", ["paper", "safe", "line_search"])
@pytest.mark.parametrize("profile", ["open", "sealed"])
def test_a_client_without_samples_counts_its_weights_right(step, profile):
    """The lowest-ranked holder of a feature may have no sample at all."""
    X, y = classification(60, 8, noise=0.5)
    partition = parts.from_holdings(
        60, 8, [([], range(8)), (range(60), range(4)), (range(60), range(4, 8))]
    )
    training = make_training(
        X, y, partition, l2=0.2, step=step, profile=profile, max_rounds=30
    )
    weights = training.finish()
    objective = pooled(X, y, l2=0.2)
    assert training.measurement.primal == pytest.approx(objective.primal(weights))
    assert training.measurement.primal >= objective.primal(weights)
    assert training.measurement.dual <= reference_optimum(objective, 1e-9).primal


def test_margins_for_measuring_go_to_those_who_count_them():
    """A client is sent the margins of the samples it is designated for, no others."""
    X, y = classification(60, 9)
    training = set_up(
        make_training(
            X,
            y,
            parts.grid(60, 9, (2, 3), seed=0),
            labelled=[True, True, False, True, True, False],
            local_steps=5,
        )
    )
    run_round(training)
    seen = {}

    def spy(client, session):
        answer = session.handlers["losses"]

        def handle(request):
            seen[client] = sum(len(v.payload) // 8 for v in request.margins)
            return answer(request)

        session.handlers = {**session.handlers, "losses": handle}

    for client, session in training.driver._clients.items():
        spy(client, session)
    measure(training)
    layout = training.layout
    assert seen == {c: int(layout.counts_samples(c).sum()) for c in range(6)}
    assert seen[2] == seen[5] == 0


def test_bounds_tell_no_label():
    """What clients say openly before grids are chosen are powers of two."""
    X, _ = classification(40, 6)
    y = np.linspace(-117.4, 33.3, 40)[:, None]
    training = make_training(X, y, parts.grid(40, 6, (2, 2), seed=0), loss="squared")
    for half in training.clients:
        bounds = half.handlers["bounds"](Message())
        for name in bounds.__struct_fields__:
            mantissa, _ = np.frexp(getattr(bounds, name))
            assert mantissa in (0.0, 0.5)


def test_weights_after_a_divergence_are_those_last_measured():
    """The model released is the one last measured, however far clients got."""
    training = diverging_run()
    X, y = alike_rows()
    weights = training.finish()
    objective = Objective(X, y, make_loss("half_squared"), 1e-4)
    assert training.stop_reason == "diverged"
    assert training.measurement.primal == pytest.approx(
        objective.primal(weights), rel=1e-9
    )


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1.0, 1e6])
def test_the_size_of_the_losses_does_not_matter(scale):
    """Targets in other units converge in the same rounds."""
    random = np.random.Generator(np.random.PCG64(1))
    X = random.standard_normal((50, 5))
    y = (X @ random.standard_normal(5) + random.standard_normal(50))[:, None]
    training = make_training(
        sp.csr_array(X),
        scale * y,
        parts.grid(50, 5, (2, 2), seed=0),
        loss="half_squared",
        l2=1.0,
        step="auto",
        max_rounds=200,
        tolerance=1e-4,
    )
    training.finish()
    assert training.stop_reason == "tolerance"


def test_a_problem_that_is_solved_by_zero_stops_at_once():
    """With P = D = 0 the relative gap is 0."""
    X, _ = classification(30, 4)
    training = make_training(
        X,
        np.zeros((30, 1)),
        parts.grid(30, 4, (2, 2)),
        loss="half_squared",
        step="auto",
    )
    training.finish()
    assert training.stop_reason == "tolerance"
    assert (training.measurement.primal, training.measurement.dual) == (0.0, 0.0)
    assert training.history == []


def test_a_run_that_was_left_continues():
    """A caller that stops and asks again gets the same run as without a pause."""
    X, y = classification(60, 8)
    runs = [
        make_training(
            X, y, parts.grid(60, 8, (2, 2), seed=0), local_steps=5, max_rounds=6
        )
        for _ in range(2)
    ]
    whole = runs[0].finish()
    for report in runs[1].rounds():
        if report.round_number == 3:
            break
    rest = runs[1].finish()
    assert [r["round"] for r in runs[1].history] == [1, 2, 3, 4, 5, 6]
    assert np.array_equal(whole, rest)


def test_weights_of_no_measurement_are_not_given_away():
    """A client releases weights that were certified, nothing else."""
    X, y = classification(30, 4)
    training = set_up(make_training(X, y, parts.grid(30, 4, (2, 2), seed=0)))
    with pytest.raises(RemoteProtocolError, match="no such measurement"):
        training.driver.run(training.server.release(), Traffic())


@pytest.mark.parametrize("loss", ["huber", "scaled_huber", "pinball"])
def test_changes_as_wide_as_the_domain_fit_the_grid(loss):
    """A dual may go from one end of its domain to the other in one step."""
    X = sp.csr_array(np.ones((20, 1)))
    y = np.where(np.arange(20) < 5, 3.0, 100.0)[:, None]
    for seed in range(6):
        training = make_training(
            X,
            y,
            parts.grid(20, 1, (1, 1)),
            loss=loss,
            step="line_search",
            local_fraction=0.05,
            seed=seed,
            max_rounds=40,
        )
        training.finish()
        assert training.stop_reason == "round limit"
        assert training.measurement.gap >= 0.0


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize("loss", ["hinge", "half_squared_hinge", "half_squared"])
@pytest.mark.parametrize("shape", [(10, 10), (5, 4)])
def test_safe_step_does_not_diverge_where_rows_are_alike(share, loss, shape):
    """With few of the clients present and strongly interacting rows P stays bounded."""
    random = np.random.Generator(np.random.PCG64(2))
    X = np.abs(1.0 + 0.05 * random.standard_normal((200, 20)))
    y = np.where(random.random((200, 1)) < 0.4, 1.0, -1.0)
    n_clients = shape[0] * shape[1]
    training = make_training(
        sp.csr_array(X),
        y,
        parts.grid(200, 20, shape, seed=0),
        loss=loss,
        l2=0.01,
        step="safe",
        participation=random_fraction(n_clients, share, seed=0),
        max_rounds=300,
        measure_every=50,
    )
    training.finish()
    measured = [r["primal"] for r in training.history if np.isfinite(r["primal"])]
    at_zero = pooled(sp.csr_array(X), y, loss, l2=0.01).primal(np.zeros((20, 1)))
    assert max(measured[-3:]) < 3.0 * at_zero

"""The bundle method against a plain one, its certificate, and who may take part."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import LinearConstraint, minimize

from hyfdca.algorithms.bundle.settings import PLACES, TRIAL_STEPS
from hyfdca.holdings import participation
from hyfdca.holdings import partition as parts
from hyfdca.maths.losses import LOSSES
from tests.protocol.wires import listen
from tests.support.small_runs import (
    PROFILES,
    bundle_run,
    classification,
    measure,
    partition_of,
    pooled,
    run_round,
    set_up,
    table_for,
)


class PlainBundle:
    """The method on all the data in one place: one bucket, dense arrays."""

    def __init__(self, objective):
        self.objective = objective
        n_samples, n_features = objective.X.shape
        self.best, self.trial = np.zeros((2, n_features, 1))
        self.duals = [np.zeros((n_samples, 1))]

    def add_planes(self):
        """Touch the loss between the best point and the trial point."""
        for place in PLACES:
            point = self.best + place * (self.trial - self.best)
            margins, labels = self.objective.margins(point), self.objective.labels
            self.duals.append(-self.objective.loss.derivative(margins, labels))

    def planes(self):
        """Return the points that planes alone would give, and their offsets."""
        own = self.objective
        points = [own.weights_from(duals)[:, 0] for duals in self.duals]
        conjugates = [
            own.loss.conjugate(duals, own.labels).mean() for duals in self.duals
        ]
        return np.array(points), -np.array(conjugates)

    def value(self, plane_weights):
        """Return D(b)."""
        points, offsets = self.planes()
        length = self.objective.l2_strength * ((plane_weights @ points) ** 2).sum()
        return float(plane_weights @ offsets - 0.5 * length)

    def best_value(self):
        """Return D(b) of the best mixture that another solver finds."""
        points, offsets = self.planes()
        n_planes, l2 = len(offsets), self.objective.l2_strength

        def negative(b):
            point = b @ points
            gradient = offsets - l2 * points @ point
            return 0.5 * l2 * point @ point - b @ offsets, -gradient

        found = minimize(
            negative,
            np.full(n_planes, 1.0 / n_planes),
            jac=True,
            bounds=[(0.0, 1.0)] * n_planes,
            constraints=LinearConstraint(np.ones(n_planes), 1.0, 1.0),
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        feasible = np.maximum(found.x, 0.0)  # which SLSQP does not always end with
        return self.value(feasible / feasible.sum())

    def go(self, plane_weights):
        """Take the best of the trial steps to the mixture's point; return P there."""
        self.trial = (plane_weights @ self.planes()[0])[:, None]
        change = self.trial - self.best
        values = [self.objective.primal(self.best + s * change) for s in TRIAL_STEPS]
        self.best = self.best + TRIAL_STEPS[int(np.argmin(values))] * change
        return min(values)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "half_squared", "absolute"])
def test_rounds_are_those_of_a_plain_bundle_method(loss, profile, seed):
    """With the server's mixtures, plain arrays give the same P and D every round."""
    X, y = table_for(loss, seed=seed)
    run = bundle_run(
        X,
        y,
        partition_of("1x1" if profile == "open" else "2x2"),
        loss=loss,
        profile=profile,
        l2=0.01,
    )
    plain = PlainBundle(pooled(X, y, loss, 0.01))
    certificate = measure(set_up(run))
    dual = 0.0
    for _ in range(5):
        gap = certificate.gap
        run_round(run)
        plain.add_planes()
        mixture = run.server.model.weights[:, 0]
        dual = max(dual, plain.value(mixture))
        certificate = measure(run)
        assert certificate.primal == pytest.approx(plain.go(mixture), rel=1e-9)
        assert certificate.dual == pytest.approx(dual, rel=1e-9, abs=1e-9)
        # The programme is solved to a tenth of the gap.
        assert plain.value(mixture) >= plain.best_value() - 0.1 * gap - 1e-9


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_first_bound_is_that_of_two_planes(loss, profile, seed, monkeypatch):
    """At w = 0 all new planes are one; with α = 0 the best mixture has a formula."""
    X, y = table_for(loss, seed=seed)
    run = set_up(bundle_run(X, y, partition_of("1x1"), loss=loss, profile=profile))
    at_zero = measure(run).primal
    for inner in ("_INNER", "_SHARP_INNER"):
        monkeypatch.setattr(f"hyfdca.algorithms.bundle.bounding.{inner}", 1e-9)
    run_round(run)
    objective = pooled(X, y, loss)
    duals = -objective.loss.derivative(np.zeros_like(y), y)
    offset = -objective.loss.conjugate(duals, y).mean()
    length = objective.l2_strength * (objective.weights_from(duals) ** 2).sum()
    share = min(offset / length, 1.0)
    expected = share * offset - 0.5 * share**2 * length
    assert at_zero == pytest.approx(objective.primal(np.zeros((8, 1))), rel=1e-9)
    assert measure(run).dual == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "epsilon_insensitive"])
def test_profiles_reach_the_same_optimum(loss, seed):
    """Each run's P is above the other's D: they solve the same problem."""
    X, y = table_for(loss, seed=seed)
    runs = [
        bundle_run(
            X,
            y,
            partition_of("overlapping"),
            loss=loss,
            profile=profile,
            tolerance=1e-5,
        )
        for profile in PROFILES
    ]
    for run in runs:
        run.finish()
        assert run.stop_reason == "tolerance"
    for run, other in (runs, runs[::-1]):
        assert run.measurement.primal >= other.measurement.dual
        assert run.measurement.primal <= other.measurement.primal * (1 + 1e-5)


@pytest.mark.parametrize("profile", PROFILES)
def test_classes_in_one_run_are_as_good_as_alone(profile, seed):
    """Three outputs reach the sum of the optima of three runs."""
    X, first = classification(60, 8, seed, noise=0.5)
    others = [classification(60, 8, seed + k, noise=1.0)[1] for k in (1, 2)]
    labels = np.hstack([first, *others])
    given = {"profile": profile, "tolerance": 1e-5, "loss": "hinge"}
    together = bundle_run(X, labels, partition_of("2x2"), **given)
    weights = together.finish()
    alone = [
        bundle_run(X, labels[:, [c]], partition_of("2x2"), **given) for c in range(3)
    ]
    primals = []
    for output, run in enumerate(alone):
        run.finish()
        objective = pooled(X, labels[:, [output]])
        own = objective.primal(weights[:, [output]])
        # The gap is that of the sum: one output may be further off than its share.
        assert own >= run.measurement.dual
        assert own - run.measurement.dual <= 2e-5 * together.measurement.primal
        primals.append(run.measurement.primal)
    assert together.stop_reason == "tolerance"
    assert together.measurement.primal == pytest.approx(sum(primals), rel=2e-5)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_holders_without_labels_change_nothing(loss, profile, seed):
    """Duals are forwarded to them, on a grid, and they give the same slopes."""
    X, y = table_for(loss, seed=seed)
    lacking = [True, False, False, True]
    runs = [
        bundle_run(
            X,
            y,
            partition_of("2x2"),
            loss=loss,
            profile=profile,
            labelled=labelled,
            max_rounds=6,
        )
        for labelled in (None, lacking)
    ]
    usual, forwarded = [run.finish() for run in runs]
    assert forwarded == pytest.approx(usual, rel=1e-9, abs=1e-9)
    for column in ("primal", "dual"):
        first, second = ([r[column] for r in run.history] for run in runs)
        assert first == pytest.approx(second, rel=1e-9)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("is_complete", [True, False])
def test_a_holder_of_labels_alone_takes_part(profile, is_complete, seed):
    """One client has the labels and no feature, others features and no label."""
    X, y = classification(60, 8, seed, noise=0.5)
    holdings = [(range(60), []), (range(60), range(4)), (range(60), range(4, 8))]
    run = bundle_run(
        X,
        y,
        parts.from_holdings(60, 8, holdings),
        profile=profile,
        labelled=[True, False, False],
        participation=None if is_complete else parts_of_three(),
        tolerance=1e-3,
        max_rounds=400,
    )
    weights = run.finish()
    assert run.stop_reason == "tolerance"
    assert run.measurement.primal == pytest.approx(pooled(X, y).primal(weights))


def parts_of_three():
    """Return two of three clients in turn."""
    return participation.cyclic([[0, 1], [1, 2], [2, 0]])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("n_features", [8, 80])
def test_clients_without_samples_take_part(profile, n_features, seed):
    """Be the data wide or not; they answer for the weights of their features."""
    X, y = classification(60, n_features, seed, noise=0.5)
    half = n_features // 2
    holdings = [
        ([], range(n_features)),
        (range(60), range(half)),
        (range(60), range(half, n_features)),
        ([], []),
    ]
    partition = parts.from_holdings(60, n_features, holdings)
    run = bundle_run(X, y, partition, profile=profile, tolerance=1e-3)
    weights = run.finish()
    assert run.stop_reason == "tolerance"
    assert run.measurement.primal == pytest.approx(pooled(X, y).primal(weights))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "pinball"])
def test_wide_data_are_solved_with_candidates(loss, profile, seed):
    """More features than samples: from the second round on, steps from duals."""
    X, y = table_for(loss, 40, 200, seed)
    run = bundle_run(
        X,
        y,
        partition_of("2x2", 40, 200),
        loss=loss,
        l2=0.01,
        profile=profile,
        tolerance=1e-3,
    )
    heard, _ = listen(run)
    weights = run.finish()
    asked = [said.request for said in heard if said.phase == "planes"]
    assert all(len(request.candidates) == 2 for request in asked)
    assert len(asked[-1].mixture.deliveries) > 0
    assert run.stop_reason == "tolerance"
    primal = pooled(X, y, loss, 0.01).primal(weights)
    assert run.measurement.primal == pytest.approx(primal, rel=1e-9)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shape", [(40, 6), (20, 60)])
def test_rows_of_zeros_get_the_dual_at_the_end(shape, profile, seed):
    """Their hinge loss is 1 whatever w is, and so is their part of D."""
    X, y = classification(*shape, seed)
    X = X.toarray()
    X[::2] = 0.0
    run = bundle_run(
        sp.csr_array(X), y, partition_of("2x2", *shape), profile=profile, tolerance=1e-5
    )
    run.finish()
    assert run.stop_reason == "tolerance"
    assert run.measurement.dual >= 0.5


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "half_squared"])
def test_a_table_of_zeros_is_solved(loss, profile, seed):
    """There is nothing to learn; D still rises to P(0)."""
    _, y = table_for(loss, 20, 4, seed)
    run = bundle_run(
        sp.csr_array((20, 4)),
        y,
        partition_of("2x2", 20, 4),
        loss=loss,
        profile=profile,
        tolerance=1e-6,
    )
    weights = run.finish()
    assert run.stop_reason == "tolerance"
    assert not weights.any()


@pytest.mark.parametrize("profile", PROFILES)
def test_a_problem_that_is_solved_by_zero_stops_at_once(profile):
    """With P = D = 0 there is no round."""
    X, y = classification(30, 4)
    run = bundle_run(
        X, 0.0 * y, partition_of("2x2", 30, 4), loss="half_squared", profile=profile
    )
    run.finish()
    assert (run.stop_reason, run.history) == ("tolerance", [])


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_run_has_the_same_history(profile, seed):
    """The histories are the same bit for bit, except for seconds."""
    X, y = classification(60, 8, seed, noise=0.5)
    histories = []
    for _ in range(2):
        run = bundle_run(X, y, partition_of("3x3"), profile=profile, max_rounds=8)
        weights = run.finish()
        records = [{**record, "seconds": 0.0} for record in run.history]
        histories.append((records, weights.tobytes()))
    assert histories[0] == histories[1]

"""Targets of a regression in a study: centred, scaled, and back in their own units."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from hyfdca.errors import StudyError
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.study.file import load
from hyfdca.study.local.run import pooled_objective
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.support.consortia import N_ROWS, make_files, scores
from tests.support.labelled_files import add_column

REGRESSING = [name for name in LOSSES if make_loss(name).task == "regression"]
DOLLARS = 1e5 * (scores() + 7.0)
VISIBLE = {"labels_visible_to_holders": "true"}


def outcome_of(folder, labels=DOLLARS, prepare_files=lambda files: files, **settings):
    given = {"loss": '"half_squared"', "uncovered": '"mean"', **settings}
    files = prepare_files(make_files(labels=labels.tolist(), **given))
    path = files.write(folder)
    return train(prepare(load(path), path.parent), lambda *_: None)


def pooled_rows(run):
    """Return the scaled table of a run, in the order of its rows."""
    return pooled_objective(run).X.toarray()


@pytest.mark.parametrize("encryption", ["none", "stream"])
def test_model_in_dollars(tmp_path, encryption):
    """Weights and intercept of model.json are Ridge's on the pooled table."""
    outcome = outcome_of(tmp_path, tol="1e-9", encryption=f'"{encryption}"')
    run, model = outcome.run, outcome.model()
    assert run.target.centre == pytest.approx(DOLLARS.mean(), rel=1e-12)
    assert run.target.scale == pytest.approx(DOLLARS.std(), rel=1e-9)
    targets = run.labels()[:, 0] * run.target.scale + run.target.centre
    ridge = Ridge(alpha=0.05 * N_ROWS).fit(pooled_rows(run), targets)
    weights = np.array(list(model.weights.values()))[:, 0]
    np.testing.assert_allclose(weights, ridge.coef_, rtol=1e-3, atol=1.0)
    assert model.intercept[0] == pytest.approx(ridge.intercept_, rel=1e-6)
    assert model.training.target_scale == run.target.scale
    result = outcome.result()
    assert result["r_squared"] == pytest.approx(
        ridge.score(pooled_rows(run), targets), abs=1e-4
    )
    error = np.mean(np.abs(ridge.predict(pooled_rows(run)) - targets))
    assert result["mean_absolute_error"] == pytest.approx(error, rel=1e-3)


@pytest.fixture(scope="module")
def least_squares(tmp_path_factory):
    """Return the R² of least squares."""
    folder = tmp_path_factory.mktemp("least squares")
    return outcome_of(folder, l2="1e-4").result()["r_squared"]


@pytest.mark.parametrize("loss", REGRESSING)
def test_every_loss_in_dollars(tmp_path, loss, least_squares):
    """No loss is lost on large targets: R² is near that of least squares."""
    found = outcome_of(tmp_path, loss=f'"{loss}"', l2="1e-4").result()["r_squared"]
    assert found > least_squares - 0.05


def test_scaling_by_weighted_sums(tmp_path):
    """Mean and deviation are those of the weighted targets; offsets are scaled too."""

    def with_columns(files):
        add_column(files, "weight_column", "w", lambda row: 0.5 + row % 3)
        return add_column(files, "offset_column", "o", lambda row: 1e4 * (row % 5))

    outcome = outcome_of(tmp_path, prepare_files=with_columns, tol="1e-7")
    run = outcome.run
    weights = np.array([0.5 + row % 3 for row in range(N_ROWS)])
    mean = np.average(DOLLARS, weights=weights)
    assert run.target.centre == pytest.approx(mean, rel=1e-12)
    spread = np.sqrt(np.average((DOLLARS - mean) ** 2, weights=weights))
    assert run.target.scale == pytest.approx(spread, rel=1e-9)
    objective = pooled_objective(run)
    targets = objective.labels[:, 0] * run.target.scale + run.target.centre
    left = targets - objective.offsets[:, 0] * run.target.scale
    own = objective.sample_weights[:, 0]
    ridge = Ridge(alpha=0.05 * N_ROWS).fit(objective.X.toarray(), left, own)
    intercept = outcome.model().intercept[0]
    assert intercept == pytest.approx(ridge.intercept_, rel=1e-4)


def test_penalised_intercepts_are_not_centred(tmp_path):
    """An intercept with a penalty has it for the mean of the targets too."""
    outcome = outcome_of(tmp_path, penalise_intercept="true", tol="1e-9")
    run = outcome.run
    assert run.target.centre == 0.0
    assert run.target.scale == pytest.approx(np.sqrt(np.mean(DOLLARS**2)), rel=1e-9)
    targets = run.labels()[:, 0] * run.target.scale
    ridge = Ridge(alpha=0.05 * N_ROWS, fit_intercept=False)
    ridge.fit(pooled_rows(run), targets)
    assert outcome.model().intercept[0] == pytest.approx(ridge.coef_[-1], rel=1e-4)


def test_targets_as_they_are(tmp_path):
    """With scale_target = false the certificate is in the target's own units."""
    outcome = outcome_of(tmp_path, labels=scores(), scale_target="false")
    assert (outcome.run.target.centre, outcome.run.target.scale) == (0.0, 1.0)
    scaled = outcome_of(tmp_path, labels=scores())
    ratio = outcome.certificate.primal / scaled.certificate.primal
    assert ratio == pytest.approx(scores().var(), rel=1e-2)


def test_holders_without_labels(tmp_path):
    """An organisation without labels takes no part in the sums, and changes nothing."""

    def without(files):
        files.organisations["coast"].extra = "label = false"
        return files

    found = outcome_of(tmp_path, tol="1e-6")
    other = outcome_of(tmp_path, prepare_files=without, tol="1e-6", **VISIBLE)
    assert other.run.target.scale == pytest.approx(found.run.target.scale, rel=1e-12)
    assert other.certificate.dual <= found.certificate.primal
    assert found.certificate.dual <= other.certificate.primal


def test_classes_have_no_scale(tmp_path):
    """scale_target is refused where labels are classes."""
    files = make_files(scale_target="true")
    with pytest.raises(StudyError, match="scale_target is for regressions"):
        prepare(load(files.write(tmp_path)), tmp_path)


@pytest.mark.parametrize("precision", ["full", "compact"])
def test_constant_targets(tmp_path, precision):
    """A target that does not vary is certified at once, however its mean is rounded."""

    def weighted(files):
        return add_column(files, "weight_column", "w", lambda row: 0.3 + row % 7)

    settings = {"encryption": '"stream"', "precision": f'"{precision}"'}
    outcome = outcome_of(tmp_path, np.full(N_ROWS, 0.1), weighted, **settings)
    assert outcome.result()["converged"]
    assert outcome.model().intercept[0] == pytest.approx(0.1, rel=1e-11)

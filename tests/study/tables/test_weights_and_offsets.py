"""Studies with weights and offsets of rows: the model of the pooled table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score
from sklearn.utils import compute_class_weight

from hyfdca.errors import StudyError
from hyfdca.study.local.run import pooled_objective
from hyfdca.study.outcome import train
from tests.support.consortia import N_ROWS, extra, make_files, scores
from tests.support.labelled_files import (
    PLAIN,
    VISIBLE,
    add_column,
    check_optimum,
    offset,
    partly_blank,
    repeat,
    run_of,
    trained,
    weight,
)

pytestmark = pytest.mark.usefixtures("no_figure")


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_whole_weights_repeat_rows(loss, tmp_path):
    """P, D and the model are those of repeated rows."""

    def times(row):
        return 1 + row % 3

    settings = {**PLAIN, "scale": '"maxabs"', "loss": f'"{loss}"', "tol": "1e-5"}
    files = add_column(make_files(**settings), "weight_column", "w", times)
    weighted = trained(files, tmp_path / "weighted")
    repeated = trained(repeat(make_files(**settings), times), tmp_path / "repeated")
    many, few = pooled_objective(repeated.run), pooled_objective(weighted.run)
    assert many.labels.shape[0] == sum(map(times, range(N_ROWS)))
    for outcome in (weighted, repeated):
        primal = many.primal(outcome.weights)
        assert few.primal(outcome.weights) == pytest.approx(primal, rel=1e-12)
        assert outcome.certificate.primal == pytest.approx(primal, rel=1e-9)
        assert outcome.ending.is_converged
    assert weighted.certificate.dual <= repeated.certificate.primal
    assert repeated.certificate.dual <= weighted.certificate.primal


def test_weights_and_class_weights_against_scikit_learn(tmp_path):
    """Blank labels, weights and balanced classes give LogisticRegression's model."""
    files = partly_blank(class_weight='"balanced"', tol="1e-7")
    run = run_of(add_column(files, "weight_column", "w", weight), tmp_path)
    outcome = train(run, lambda *_: None)
    objective = pooled_objective(run)
    own = np.array([weight(row) for row in range(N_ROWS)])
    y = objective.labels[:, 0]
    by_class = compute_class_weight(
        "balanced", classes=np.array([-1.0, 1.0]), y=y, sample_weight=own
    )
    wanted = np.where(y > 0, by_class[1], by_class[0]) * own / own.sum()
    np.testing.assert_allclose(run.sample_weights()[:, 0], wanted * N_ROWS, rtol=1e-12)
    reference = LogisticRegression(C=1 / 0.05, tol=1e-10)
    reference.fit(objective.X, y, sample_weight=wanted)
    expected = np.append(reference.coef_[0], reference.intercept_)
    np.testing.assert_allclose(outcome.weights[:, 0], expected, atol=2e-3)
    primal = objective.primal(expected[:, None])
    assert outcome.certificate.dual <= primal
    assert outcome.certificate.primal <= primal * (1 + 1e-6)


def test_training_scores_count_rows_by_their_weights(tmp_path):
    """Weights of classes do not count, as in scikit-learn's metrics."""
    files = partly_blank(class_weight='"balanced"')
    outcome = trained(add_column(files, "weight_column", "w", weight), tmp_path)
    own = np.array([weight(row) for row in range(N_ROWS)])
    y, margins = outcome.run.labels(), outcome.run.margins(outcome.weights)
    expected = accuracy_score(y > 0, margins > 0, sample_weight=own)
    result = outcome.result()
    assert result["accuracy"] == pytest.approx(expected, rel=1e-12)
    assert expected != pytest.approx(np.mean((y > 0) == (margins > 0)), abs=1e-3)


def test_training_scores_of_numbers_count_rows_by_their_weights(tmp_path):
    """R² and the mean absolute error are those of scikit-learn."""
    files = make_files(scores().tolist(), loss='"squared"', **PLAIN)
    outcome = trained(add_column(files, "weight_column", "w", weight), tmp_path)
    own = np.array([weight(row) for row in range(N_ROWS)])
    run = outcome.run
    y, found = (
        values[:, 0] * run.target.scale
        for values in (run.labels(), run.margins(outcome.weights))
    )
    result = outcome.result()
    expected = r2_score(y, found, sample_weight=own)
    assert result["r_squared"] == pytest.approx(expected, rel=1e-9)
    assert result["mean_absolute_error"] == pytest.approx(
        mean_absolute_error(y, found, sample_weight=own), rel=1e-9
    )


@pytest.mark.parametrize("algorithm", ["bundle", "lbfgs", "hyfdca"])
@pytest.mark.parametrize("given", [None, '"balanced"'])
def test_weights_where_some_holders_have_no_labels(algorithm, given, tmp_path):
    """Holders without labels learn weights, so shares and certificates are right."""
    settings = {} if given is None else {"class_weight": given}
    files = make_files(**PLAIN, **VISIBLE, algorithm=f'"{algorithm}"', **settings)
    extra("coast", "label = false")(files)
    run = run_of(add_column(files, "weight_column", "w", weight), tmp_path)
    samples, weights = run.training.federation.layout.samples, run.sample_weights()
    for items, block in zip(samples.items, run.blocks, strict=True):
        assert block.sample_weights.tobytes() == weights[items].tobytes()
    check_optimum(train(run, lambda *_: None))


@pytest.mark.parametrize("given", ['"balanced"', "{ill = 3.0, well = 0.5}", "{0 = 2}"])
def test_class_weights_of_several_classes(given, tmp_path):
    """Every output of a sample has the weight of its class, as in the estimators."""
    is_many = given == "{0 = 2}"
    labels = np.digitize(scores(), [-1.0, 1.0]).tolist() if is_many else None
    run = run_of(make_files(labels, class_weight=given, **PLAIN), tmp_path)
    classes = [2, 0, 1] if is_many else None
    signs = run.labels()
    if is_many:
        expected = np.where(signs[:, 0] > 0, 2.0, 1.0)
        assert sorted(classes) == [int(name) for name in run.consortium.classes]
    elif given == '"balanced"':
        expected = N_ROWS / (
            2 * np.where(signs > 0, (signs > 0).sum(), (signs < 0).sum())
        )
        expected = expected[:, 0]
    else:
        expected = np.where(signs[:, 0] > 0, 0.5, 3.0)
    found = run.sample_weights()
    assert found.shape == signs.shape
    np.testing.assert_array_equal(
        found, np.repeat(expected[:, None], signs.shape[1], 1)
    )


def test_weights_of_1_are_no_weights(tmp_path):
    """The run is that of a study without a weight_column, bit for bit."""
    expected = trained(make_files(**PLAIN), tmp_path / "none")
    files = add_column(make_files(**PLAIN), "weight_column", "w", lambda _: 1)
    add_column(files, "offset_column", "o", lambda _: 0)
    found = trained(files, tmp_path / "ones")
    assert all(b.sample_weights is b.offsets is None for b in found.run.blocks)
    assert found.weights.tobytes() == expected.weights.tobytes()


# Offsets


def test_offsets_reach_the_blocks(tmp_path):
    """Every holder with labels has the offsets of its rows, others have none."""
    files = partly_blank()
    add_column(files, "offset_column", "o", offset)
    extra("coast", "label = false")(files)
    run = run_of(files, tmp_path)
    assert "o" not in run.consortium.features
    samples = run.training.federation.layout.samples
    for client, block in enumerate(run.blocks):
        if client == 2:
            assert block.offsets is None
            continue
        rows = samples.items[client].tolist()
        assert block.offsets[:, 0].tolist() == [offset(row) for row in rows]
    margins = run.margins(np.zeros((len(run.consortium.features) + 1, 1)))
    assert margins[:, 0].tolist() == [offset(row) for row in range(N_ROWS - 10)]


@pytest.mark.parametrize("encryption", ["none", "stream"])
def test_the_model_with_offsets(encryption, tmp_path):
    """It is the optimum of x·w + w_0 + o over the pooled rows, by scipy."""
    settings = {**PLAIN, "encryption": f'"{encryption}"', "tol": "1e-6"}
    files = add_column(make_files(**settings), "offset_column", "o", offset)
    outcome = trained(files, tmp_path)
    objective = pooled_objective(outcome.run)
    assert objective.offsets[:, 0].tolist() == [offset(row) for row in range(N_ROWS)]
    best = minimize(
        lambda w: objective.primal(w[:, None]),
        np.zeros(len(outcome.weights)),
        options={"gtol": 1e-8},
    ).fun
    assert outcome.certificate.dual <= best + 1e-12
    assert objective.primal(outcome.weights) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("algorithm", ["bundle", "lbfgs", "hyfdca"])
@pytest.mark.parametrize("has_weights", [False, True])
def test_offsets_are_part_of_the_margins(algorithm, has_weights, tmp_path):
    """The model is the optimum with offsets, also where some holders lack labels."""
    files = partly_blank(algorithm=f'"{algorithm}"')
    extra("coast", "label = false")(files)
    add_column(files, "offset_column", "o", lambda row: 3 * offset(row))
    if has_weights:
        add_column(files, "weight_column", "w", weight)
    check_optimum(trained(files, tmp_path))


def test_a_method_without_offsets_is_refused(tmp_path):
    """One sentence names the methods that support them."""
    files = add_column(make_files(**PLAIN), "offset_column", "o", offset)
    files.settings["algorithm"] = '"fedavg"'
    with pytest.raises(StudyError, match="takes no offsets; use algorithm='bundle'"):
        run_of(files, tmp_path)

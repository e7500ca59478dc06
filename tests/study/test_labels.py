"""Studies with blank labels, weights and offsets: the model of the pooled table."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.utils import compute_class_weight

from hyfdca.crypto.schemes.registry import SCHEMES
from hyfdca.errors import StudyError
from hyfdca.study.file import load
from hyfdca.study.local.study import pooled_objective, prepare
from hyfdca.study.local.training import train_file
from hyfdca.study.outcome import train
from tests.support.consortia import (
    N_ROWS,
    NAMES,
    Files,
    Organisation,
    extra,
    make_files,
    scores,
)
from tests.support.durable_runs import Consortium, numbers, undisturbed
from tests.support.labelled_files import (
    VISIBLE,
    add_column,
    blank,
    offset,
    remove,
    repeat,
    weight,
)

pytestmark = pytest.mark.usefixtures("no_figure")

PLAIN = {"encryption": '"none"'}
NOBODY = [3, 25, 44, 58]  # rows whose label nobody has


def run_of(files, folder):
    folder.mkdir(exist_ok=True)
    return prepare(load(files.write(folder)), folder)


def trained(files, folder):
    return train(run_of(files, folder), lambda *_: None)


def partly_blank(**settings):
    """Return a study in which north, city and coast know some labels each."""
    files = make_files(**{**PLAIN, **VISIBLE, **settings})
    blank(files, range(20, 30), "north")
    blank(files, [*range(30, 40), *range(50, 60)], "city")
    return blank(files, range(10), "coast")


def check_optimum(outcome):
    """Check a model and its certificate against scipy's optimum of the pooled rows."""
    pooled, settings = pooled_objective(outcome.run), outcome.run.training.settings
    X, y = pooled.X.toarray(), pooled.labels[:, 0]
    n_rows, n_features = X.shape
    if settings.free_intercept:
        X = np.column_stack([X, np.ones(n_rows)])
    v = (
        np.ones(n_rows)
        if pooled.sample_weights is None
        else pooled.sample_weights[:, 0]
    )
    o = np.zeros(n_rows) if pooled.offsets is None else pooled.offsets[:, 0]
    is_penalised = np.arange(X.shape[1]) < n_features

    def primal(w):
        losses = v * np.logaddexp(0.0, -y * (X @ w + o))
        slopes = -v * y / (1.0 + np.exp(y * (X @ w + o)))
        own = settings.l2_strength * np.where(is_penalised, w, 0.0)
        return own @ w / 2 + losses.mean(), own + X.T @ slopes / n_rows

    start = np.zeros(X.shape[1])
    found = minimize(primal, start, jac=True, options={"gtol": 1e-9})
    assert outcome.ending.is_converged
    own = primal(outcome.weights[:, 0])[0]
    assert outcome.certificate.primal == pytest.approx(own, rel=1e-9)
    assert outcome.certificate.dual <= found.fun <= outcome.certificate.primal


def four_files(n_clients, **settings):
    """Return organisations with all rows and some columns; only one has each label."""
    labels = ["ill" if s > 0 else "well" for s in scores()]
    settings = {**PLAIN, **VISIBLE, **settings}
    names = ["east", "west", "north", "south"][:n_clients]
    files = make_files(**settings)
    files.organisations = {
        name: Organisation(list(range(N_ROWS)), NAMES[k : k + 2], labels)
        for k, name in enumerate(names)
    }
    return files


# Labels that are blank here and known there


@pytest.mark.parametrize("settings", [{}, {"algorithm": '"hyfdca"'}], ids=str)
def test_blank_here_and_known_there(settings, tmp_path):
    """The run is that of complete labels, bit for bit."""
    complete = make_files(**PLAIN, **VISIBLE, **settings)
    expected = trained(complete, tmp_path / "complete")
    found = trained(partly_blank(**settings), tmp_path / "blank")
    assert found.weights.tobytes() == expected.weights.tobytes()
    assert found.certificate == expected.certificate
    assert found.result()["rows_without_label"] == 0


@pytest.mark.parametrize("n_clients", [2, 3, 4])
def test_one_holder_knows_each_label(n_clients, tmp_path):
    """However many hold a row, one that knows its label suffices."""
    expected = trained(four_files(n_clients), tmp_path / "complete")
    files = four_files(n_clients)
    for k, name in enumerate(files.organisations):
        others = [row for row in range(N_ROWS) if row % (n_clients - 1) != k - 1]
        blank(files, others if k else range(N_ROWS), name)  # the first knows none
    found = trained(files, tmp_path / "blank")
    assert found.weights.tobytes() == expected.weights.tobytes()


@pytest.mark.parametrize("encryption", ["stream", "bfv"])
def test_sealed_labels_and_weights(encryption, tmp_path):
    """Encrypted equals unencrypted, bit for bit."""
    found = []
    for scheme in ("none", encryption):
        files = partly_blank(encryption=f'"{scheme}"', class_weight='"balanced"')
        add_column(files, "weight_column", "w", weight)
        run = run_of(files, tmp_path)
        found.append((run, run.training.finish()))
    (plain, expected), (sealed, weights) = found
    assert weights.tobytes() == expected.tobytes()
    assert sealed.sample_weights().tobytes() == plain.sample_weights().tobytes()
    assert encryption in SCHEMES


def test_without_consent_nobody_learns_a_label(tmp_path):
    """The refusal names organisations, counts and the setting."""
    files = partly_blank(labels_visible_to_holders="false")
    with pytest.raises(StudyError, match="10 rows of 'north', 20 rows of 'city' and"):
        run_of(files, tmp_path)


# Rows that nobody knows


def test_rows_that_nobody_labels_are_left_out(tmp_path):
    """It is the run of tables without these rows, and they are counted."""
    expected = trained(remove(make_files(**PLAIN), NOBODY), tmp_path / "without")
    found = trained(blank(make_files(**PLAIN), NOBODY), tmp_path / "blank")
    assert found.weights.tobytes() == expected.weights.tobytes()
    assert found.result()["rows_without_label"] == len(NOBODY)
    assert found.run.consortium.partition.n_samples == N_ROWS - len(NOBODY)
    assert found.result()["accuracy"] == expected.result()["accuracy"]


def test_rows_of_organisations_without_labels(tmp_path):
    """Rows that only they hold have no label anywhere."""
    files = make_files(**PLAIN, **VISIBLE)
    extra("city", "label = false")(files)
    path = files.write(tmp_path)
    train_file(path, tmp_path / "out", lambda *_: None)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["rows_without_label"] == 10
    assert result["rows_of_weight_zero"] == 0


def test_rows_of_weight_0_are_left_out(tmp_path):
    """They are as if they were not there, whatever their label and cells."""

    def without(row):
        return 0.0 if row in NOBODY else weight(row)

    files = add_column(make_files(**PLAIN), "weight_column", "w", without)
    for own in files.organisations.values():
        own.table["y"] = [
            "neither" if row in NOBODY else label
            for row, label in zip(own.rows, own.table["y"], strict=True)
        ]
    expected = remove(make_files(**PLAIN), NOBODY)
    expected = trained(
        add_column(expected, "weight_column", "w", weight), tmp_path / "without"
    )
    found = trained(files, tmp_path / "zero")
    assert found.weights.tobytes() == expected.weights.tobytes()
    assert found.result()["rows_of_weight_zero"] == len(NOBODY)
    assert found.run.consortium.classes == ("ill", "well")


# Weights


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
    """One sentence names the methods that take them."""
    files = add_column(make_files(**PLAIN), "offset_column", "o", offset)
    files.settings["algorithm"] = '"fedavg"'
    with pytest.raises(StudyError, match="takes no offsets; use algorithm='bundle'"):
        run_of(files, tmp_path)


def test_own_names_of_columns(tmp_path):
    """An organisation may have its own names for weights and offsets."""
    files = make_files(**PLAIN)
    add_column(files, "weight_column", "w", weight)
    add_column(files, "offset_column", "o", offset)
    expected = run_of(files, tmp_path / "same")
    city = files.organisations["city"]
    city.table["mass"], city.table["start"] = city.table.pop("w"), city.table.pop("o")
    city.extra = 'weight_column = "mass"\noffset_column = "start"'
    found = run_of(files, tmp_path / "own")
    assert found.consortium.features == expected.consortium.features
    assert found.sample_weights().tobytes() == expected.sample_weights().tobytes()
    assert found.offsets().tobytes() == expected.offsets().tobytes()


def test_columns_of_numbered_tables(tmp_path):
    """In a table without column names, a numbered column may be the weight."""
    random = np.arange(30.0).reshape(10, 3) % 7
    arrays = {"X": random, "y": np.arange(10) % 2, "ids": np.arange(10)}
    np.savez(tmp_path / "a.npz", **arrays)
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "n"\nencryption = "none"\nweight_column = "f1"\n'
        '[[clients]]\nname = "a"\ndata = "a.npz"\n'
    )
    run = prepare(load(tmp_path / "study.toml"), tmp_path)
    assert run.consortium.features == ("f0", "f2")
    weights = random[random[:, 1] > 0, 1]
    found = run.sample_weights()[:, 0]
    np.testing.assert_allclose(found, weights * len(weights) / weights.sum())
    assert run.consortium.alignment.n_without_weight == np.sum(random[:, 1] == 0)
    study = (tmp_path / "study.toml").read_text().replace('"f1"', '"w"')
    (tmp_path / "study.toml").write_text(study)
    with pytest.raises(StudyError, match=r"'a': a.npz has no column 'w'"):
        prepare(load(tmp_path / "study.toml"), tmp_path)


# Restarts


@pytest.mark.parametrize("encryption", ["none", "stream"])
def test_a_restart_repeats_the_labels(encryption, tmp_path):
    """Members and server that start again have the same labels and weights."""
    files: Files = partly_blank(encryption=f'"{encryption}"')
    add_column(files, "weight_column", "w", weight).write(tmp_path)
    expected, weights = undisturbed(tmp_path)
    consortium = Consortium(tmp_path)
    consortium.begin(n_rounds=2)
    for rank in range(3):
        consortium.network.restart(rank)
    runner, found = consortium.train()
    assert found.tobytes() == weights.tobytes()
    assert numbers(runner.history) == numbers(expected.history)

"""Studies of separate files give the model that pooling them would give."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from hyfdca import HyFDCAClassifier
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.errors import StudyError
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.support.consortia import (
    NAMES,
    assert_one_sentence,
    held,
    make_files,
    pooled_table,
    scores,
)


def run_of(path):
    return prepare(load(path), path.parent)


def outcome_of(files, folder):
    return train(run_of(files.write(folder)), lambda *_: None)


def scaled(scaler):
    """Return the pooled table: scaled cells, zero where nobody holds one."""
    X = np.where(held(), pooled_table(), np.nan)
    return np.nan_to_num(scaler.fit_transform(X))


def optimum_of(X, labels, loss="logistic", l2=0.05):
    """Return the problem of the pooled table, and its optimum by scipy."""
    own = make_loss(loss)
    objective = Objective(sp.csr_array(X), labels, own, l2, free_intercept=True)
    shape = (X.shape[1] + 1, labels.shape[1])
    found = minimize(
        lambda w: objective.primal(w.reshape(shape)),
        np.zeros(shape).ravel(),
        options={"gtol": 1e-8},
    )
    return objective, found.fun


def binary():
    return np.where(scores() > 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("scale", "scaler"), [("standard", StandardScaler()), ("maxabs", MaxAbsScaler())]
)
@pytest.mark.parametrize("profile", ["sealed", "open"])
def test_the_model_is_that_of_the_pooled_table(tmp_path, scale, scaler, profile):
    """The loss of the model on the pooled table is within its certified gap."""
    files = make_files(
        scale=f'"{scale}"', profile=f'"{profile}"', positive_label='"ill"'
    )
    outcome = outcome_of(files, tmp_path)
    objective, optimum = optimum_of(scaled(scaler), binary()[:, None])
    primal = objective.primal(outcome.weights)
    assert primal == pytest.approx(outcome.certificate.primal, rel=1e-9)
    assert -1e-9 <= primal - optimum <= outcome.certificate.gap + 1e-9
    assert outcome.certificate.dual <= optimum + 1e-12
    assert outcome.ending.warning is None
    assert outcome.run.consortium.classes == ("well", "ill")


@pytest.mark.parametrize("scale", ["none", "maxabs"])
def test_cells_of_nobody_are_means(tmp_path, scale):
    """Without standard scaling too, the pooled table has means there."""
    given = {"scale": f'"{scale}"', "uncovered": '"mean"', "positive_label": '"ill"'}
    outcome = outcome_of(make_files(**given), tmp_path)
    X = np.where(held(), pooled_table(), np.nan)
    X = np.where(held(), X, np.nanmean(X, axis=0))
    if scale == "maxabs":
        X /= np.abs(np.where(held(), pooled_table(), 0.0)).max(axis=0)
    objective, optimum = optimum_of(X, binary()[:, None])
    # Features are centred for training, which the intercept makes up for.
    weights = outcome.weights.copy()
    weights[-1] -= X.mean(axis=0) @ weights[:-1]
    assert objective.primal(weights) == pytest.approx(
        outcome.certificate.primal, rel=1e-6
    )
    assert objective.primal(weights) <= optimum * (1 + 1.1e-4)


def test_the_model_is_that_of_the_estimator(tmp_path):
    """The estimator on the same partition of the scaled table takes the same path."""
    outcome = outcome_of(make_files(positive_label='"ill"'), tmp_path)
    partition = outcome.run.consortium.partition
    estimator = HyFDCAClassifier(
        "logistic", l2=0.05, tol=1e-4, grid=partition, profile="sealed"
    ).fit(scaled(StandardScaler()), binary())
    assert estimator.n_iter_ == outcome.n_rounds
    np.testing.assert_allclose(outcome.weights[:-1, 0], estimator.coef_[0], rtol=1e-6)


def test_missing_cells(tmp_path):
    """A missing cell is the mean, which standard scaling makes zero."""
    files = make_files(missing='"mean"', positive_label='"ill"')
    for name in ("north", "coast"):  # who share these cells
        files.organisations[name].table["x0"][5:8] = [""] * 3
    outcome = outcome_of(files, tmp_path)
    X = np.where(held(), pooled_table(), np.nan)
    X[5:8, 0] = np.nan
    X = np.nan_to_num(StandardScaler().fit_transform(X))
    objective, _ = optimum_of(X, binary()[:, None])
    assert objective.primal(outcome.weights) == pytest.approx(
        outcome.certificate.primal, rel=1e-9
    )


def test_the_first_holder_of_a_cell_owns_it(tmp_path):
    """A later holder's value of a cell held twice is not used."""
    files = make_files(disagreeing_cells='"first"')
    expected = outcome_of(files, tmp_path).weights
    files.organisations["city"].table["x2"][0] = 1e6  # north has this cell too
    np.testing.assert_array_equal(outcome_of(files, tmp_path).weights, expected)


def test_the_same_run_whatever_the_keys(tmp_path):
    """Every run has new alignment keys, and the same history bit for bit."""
    first, second = (outcome_of(make_files(), tmp_path) for _ in range(2))
    np.testing.assert_array_equal(first.weights, second.weights)
    for record, other in zip(
        first.run.training.history, second.run.training.history, strict=True
    ):
        assert {**record, "seconds": 0} == {**other, "seconds": 0}


def test_organisations_apart(tmp_path):
    """Organisations that share no row take part if the study allows it."""
    files = make_files(allow_unshared="true")
    ids = files.organisations["coast"].table["id"]
    ids[:] = [f"C{number}" for number in range(len(ids))]
    run = run_of(files.write(tmp_path))
    assert run.consortium.partition.n_samples == 60 + 20


def test_classes_one_against_the_rest(tmp_path):
    """More than two classes train in one run, one column each, in numeric order."""
    codes = np.digitize(scores(), [-1.0, 1.0])
    files = make_files(labels=[(10, 2, 3)[code] for code in codes])
    outcome = outcome_of(files, tmp_path)
    assert outcome.run.consortium.classes == ("2", "3", "10")
    assert outcome.weights.shape == (6, 3)
    labels = np.column_stack([np.where(codes == c, 1.0, -1.0) for c in (1, 2, 0)])
    objective, optimum = optimum_of(scaled(StandardScaler()), labels)
    assert objective.primal(outcome.weights) <= optimum * (1 + 1.1e-4)
    accuracy = outcome.run.scores(outcome.weights).accuracy
    assert accuracy is not None
    assert accuracy > 1 / 3


def test_a_positive_label_among_many(tmp_path):
    """With a positive label all others are the rest."""
    files = make_files(labels=list(range(60)), positive_label="7")
    run = run_of(files.write(tmp_path))
    assert run.consortium.classes == ("rest", "7")
    assert run.labels().sum() == 1 - 59


def test_regression(tmp_path):
    """A loss for numbers takes the labels as numbers and has no accuracy."""
    files = make_files(
        labels=scores().tolist(), loss='"half_squared"', scale_target="false"
    )
    outcome = outcome_of(files, tmp_path)
    objective, optimum = optimum_of(
        scaled(StandardScaler()), scores()[:, None], "half_squared"
    )
    assert objective.primal(outcome.weights) <= optimum * (1 + 1.1e-4)
    result = outcome.result()
    margins = scaled(StandardScaler()) @ outcome.weights[:-1] + outcome.weights[-1]
    assert result["r_squared"] == pytest.approx(r2_score(scores(), margins))
    error = mean_absolute_error(scores(), margins)
    assert result["mean_absolute_error"] == pytest.approx(error)
    assert result["accuracy"] is None
    assert outcome.model().classes == ()


def test_an_organisation_without_labels(tmp_path):
    """It takes part if the study allows holders to learn labels."""
    files = make_files(labels_visible_to_holders="true", positive_label='"ill"')
    files.organisations["coast"].extra = "label = false"
    outcome = outcome_of(files, tmp_path)
    _, optimum = optimum_of(scaled(StandardScaler()), binary()[:, None])
    assert outcome.certificate.primal <= optimum * (1 + 1.1e-4)
    assert outcome.run.consortium.labelled == (True, True, False)


def test_names_of_columns_may_differ(tmp_path):
    """An organisation may have its own names for the ID and label columns."""
    files = make_files()
    table = files.organisations["city"].table
    table["key"], table["outcome"] = table.pop("id"), table.pop("y")
    files.organisations["city"].extra = 'id_column = "key"\nlabel_column = "outcome"'
    run = run_of(files.write(tmp_path))
    assert run.consortium.features == tuple(NAMES)
    assert run.consortium.partition.n_samples == 60


def test_ids_are_compared_as_text(tmp_path):
    """IDs match after trimming and composing, and 007 is not 7."""
    files = make_files(disagreeing_cells='"first"')
    for name, ids in (("north", ["7", "e\u0301"]), ("city", ["007", " \u00e9 "])):
        files.organisations[name].table["id"][:2] = ids
    for name in ("north", "city"):
        table = files.organisations[name].table
        table["y"][1] = "ill"
    consortium = run_of(files.write(tmp_path)).consortium
    north, city = (set(h.samples.tolist()) for h in consortium.partition.holdings[:2])
    # Rows 20 to 39 are shared; city renamed two, one of them to a row of north.
    assert len(north & city) == 20 - 2 + 1


def test_sparse_organisations(tmp_path):
    """LIBSVM and NPZ tables are matched by row number and feature number."""
    X = np.round(pooled_table(), 6)
    y = binary()
    np.savez(tmp_path / "a.npz", X=X, y=y)
    lines = [
        f"{label:g} "
        + " ".join(f"{j + 1}:{float(x)!r}" for j, x in enumerate(row) if x)
        for row, label in zip(X, y, strict=True)
    ]
    (tmp_path / "b.libsvm").write_text("\n".join(lines) + "\n")
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "s"\nscale = "maxabs"\nl2 = 0.05\nrows = "by order"\n'
        '[[clients]]\nname = "a"\ndata = "a.npz"\nfeatures = ["f0", "f1"]\n'
        '[[clients]]\nname = "b"\ndata = "b.libsvm"\n'
    )
    run = run_of(tmp_path / "study.toml")
    outcome = train(run, lambda *_: None)
    objective, _ = optimum_of(MaxAbsScaler().fit_transform(X), y[:, None])
    order = [run.consortium.features.index(f"f{n}") for n in range(5)]
    weights = outcome.weights[[*order, 5]]
    assert objective.primal(weights) == pytest.approx(outcome.certificate.primal)


def test_partial_participation(tmp_path):
    """Some organisations per round are enough, if slower."""
    files = make_files(participation="0.7", tol="0.05", measure_every="10")
    outcome = outcome_of(files, tmp_path)
    assert outcome.certificate.relative_gap <= 0.05
    assert outcome.n_rounds % 10 == 0


def test_rows_without_ids_are_matched_only_on_request(tmp_path):
    """The first lines of two files are hardly ever the same case."""
    for name in "ab":
        (tmp_path / f"{name}.libsvm").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "s"\n'
        '[[clients]]\nname = "a"\ndata = "a.libsvm"\n'
        '[[clients]]\nname = "b"\ndata = "b.libsvm"\n'
    )
    with pytest.raises(
        StudyError, match=r"'a': a.libsvm has no IDs .* rows = \"by ord"
    ):
        run_of(tmp_path / "study.toml")


def test_standard_scaling_of_a_sparse_table(tmp_path):
    """Centring a sparse table is refused; the message says what to use instead."""
    (tmp_path / "a.libsvm").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "s"\nscale = "standard"\nrows = "by order"\n'
        '[[clients]]\nname = "a"\ndata = "a.libsvm"\n'
    )
    with pytest.raises(StudyError, match="'a' has a sparse table") as caught:
        run_of(tmp_path / "study.toml")
    assert 'set scale = "maxabs" or "none"' in str(caught.value)


def test_no_intercept(tmp_path):
    """Without intercept there is no bias, and the model says zero."""
    outcome = outcome_of(make_files(fit_intercept="false"), tmp_path)
    assert outcome.weights.shape == (5, 1)
    assert outcome.model().intercept == (0.0,)


def test_participation_and_settings_of_an_algorithm(tmp_path):
    """Bernoulli and cyclic participation and HyFDCA's own settings are reachable."""
    own = {"algorithm": '"hyfdca"', "local_steps": "3", "refresh": '"all"'}
    for participation, expected in (
        ('{kind = "cyclic", sets = [["north"], ["city", "coast"]]}', [(0,), (1, 2)]),
        ('{kind = "bernoulli", probability = 1.0}', [(0, 1, 2)] * 2),
    ):
        files = make_files(participation=participation, max_rounds="2", **own)
        training = outcome_of(files, tmp_path).run.training
        assert [r["participants"] for r in training.history] == expected
        assert training.algorithm.algorithm == Hyfdca(local_steps=3, refresh="all")
        assert training.settings.algorithm is training.algorithm.algorithm
    with pytest.raises(StudyError, match="local_steps"):
        load(make_files(**{**own, "local_steps": '"three"'}).write(tmp_path))
    path = make_files(**own).write(tmp_path)
    path.write_text(path.read_text().replace("local_steps =", "colour ="))
    with pytest.raises(StudyError, match="'hyfdca' has no setting 'colour'"):
        load(path)
    files = make_files(participation='{kind = "cyclic", sets = [["nowhere"]]}')
    with pytest.raises(StudyError, match="'nowhere'"):
        outcome_of(files, tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('step = "safe"', ['name = "hyfdca"', 'step = "safe"']),
        ('algorithm = "bundle"', ['name = "bundle"']),
        (
            'algorithm = "hyfdca"\npaper_settings = {local_steps = 3}',
            ['name = "hyfdca"', "local_steps = 3"],
        ),
        ("bundle_settings = {places = 3}", ['name = "bundle"', "places = 3"]),
    ],
)
def test_settings_where_they_used_to_stand_are_refused(tmp_path, old, new):
    """One sentence says what to write instead."""
    path = make_files().write(tmp_path)
    path.write_text(path.read_text().replace("[study]", f"[study]\n{old}"))
    with pytest.raises(StudyError, match=r"write a table \[algorithm\]") as caught:
        load(path)
    said = str(caught.value)
    assert all(line in said for line in new)
    assert "paper_settings =" not in said
    assert_one_sentence(f"{said}\n".replace(str(path), "it"))


def test_settings_between_machines(tmp_path):
    """Quorum, timeout and server address have their own defaults."""
    files = make_files()
    file = load(files.write(tmp_path))
    assert (file.study.quorum, file.study.phase_timeout) == ("all", 60.0)
    assert (file.study.checkpoint_every, file.study.predictions_per_hour) == (1, 1000)
    assert (file.server.host, file.server.port) == ("localhost", 8102)
    assert not any(client.may_predict for client in file.clients)
    files = make_files(quorum="2", phase_timeout="5", checkpoint_every="10")
    files.organisations[
        "coast"
    ].extra = '# data =\nmay_predict = true\n[server]\nhost = "fl.example.org"'
    file = load(files.write(tmp_path))
    assert (file.study.quorum, file.study.phase_timeout) == (2, 5.0)
    assert file.study.checkpoint_every == 10
    assert (file.clients[2].data, file.clients[2].may_predict) == (None, True)
    assert (file.server.host, file.server.port) == ("fl.example.org", 8102)

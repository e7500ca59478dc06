"""Curves: the loss of rows set aside after some rounds, as if they were pooled."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import OneHotEncoder

from hyfdca.errors import StudyError
from hyfdca.maths.seeds import stream
from hyfdca.model.file import as_bytes
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.local.training import train_file
from hyfdca.study.outcome import train
from tests.study.held_out.test_evaluation import breast_cancer, digits
from tests.support.held_out_studies import HeldOutStudy, close
from tests.support.mixed_tables import MixedStudy, mixed_frame

pytestmark = pytest.mark.usefixtures("no_figure")

EVERY = 3


def points_of(outcome):
    """Return loss and score by round, where there are any."""
    return {
        record["round"]: (record["validation_loss"], record["validation_score"])
        for record in outcome.run.training.history
        if "validation_loss" in record
    }


def trained(study, folder, **evaluation):
    folder.mkdir(exist_ok=True)
    return replace(study, evaluation=evaluation).trained(folder)


def stopped(study, folder, n_rounds):
    """Return the rows set aside, with margins of the model after some rounds."""
    settings = {**study.settings, "max_rounds": str(n_rounds), "tol": "0.0"}
    outcome = trained(replace(study, settings=settings), folder)
    assert outcome.n_rounds == n_rounds
    return study.pooled(outcome)


def signs(rows):
    """Return labels as one-against-all losses take them, (rows, outputs)."""
    numbers = np.array([rows.classes.index(str(label)) for label in rows.y])
    if len(rows.classes) == 2:
        return np.where(numbers == 1, 1.0, -1.0)[:, None]
    return np.where(numbers[:, None] == np.arange(len(rows.classes)), 1.0, -1.0)


CLASS_LOSSES = {
    "logistic": lambda z: np.logaddexp(0.0, -z),
    "hinge": lambda z: np.maximum(0.0, 1.0 - z),
    "squared_hinge": lambda z: np.maximum(0.0, 1.0 - z) ** 2,
}

STUDIES = {
    "bundle": breast_cancer,
    "overlapping": lambda: breast_cancer(shape="overlapping"),
    "BFV": lambda: breast_cancer(shape="2x2", settings={"encryption": '"bfv"'}),
    "open": lambda: breast_cancer(settings={"profile": '"open"'}),
    "hinge": lambda: breast_cancer(settings={"loss": '"hinge"'}),
    "squared hinge": lambda: breast_cancer(settings={"loss": '"squared_hinge"'}),
    "classes": lambda: digits(shape="2x2"),
    "labels at one organisation": lambda: breast_cancer(shape="1x3", unlabelled=(0, 2)),
    "penalised intercept": lambda: breast_cancer(
        shape="2x2",
        settings={"penalise_intercept": "true", "intercept_scaling": "2.0"},
    ),
    "no intercept": lambda: breast_cancer(settings={"fit_intercept": "false"}),
    "L-BFGS": lambda: breast_cancer(algorithm={"name": '"lbfgs"'}),
    "HyFDCA": lambda: breast_cancer(algorithm={"name": '"hyfdca"'}),
    "safe step": lambda: breast_cancer(
        algorithm={"name": '"hyfdca"', "step": '"safe"'}, shape="2x2"
    ),
    "FedAvg": lambda: breast_cancer(algorithm={"name": '"fedavg"'}, shape="2x2"),
    "some of the organisations": lambda: breast_cancer(
        shape="2x2", settings={"participation": "0.5"}
    ),
    "some of them, open": lambda: breast_cancer(
        shape="2x2", settings={"participation": "0.5", "profile": '"open"'}
    ),
}


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", STUDIES)
def test_a_point_is_the_loss_of_the_pooled_rows_under_the_model_of_its_round(
    name, tmp_path
):
    """The oracle is numpy, with the model of a study that ends after that round."""
    study = STUDIES[name]()
    study.settings = {**study.settings, "max_rounds": str(3 * EVERY), "tol": "1e-9"}
    outcome = trained(study, tmp_path / "curves", curves=str(EVERY))
    points = points_of(outcome)
    assert list(points) == list(range(EVERY, outcome.n_rounds + 1, EVERY))
    assert len(points) >= 2
    loss_of = CLASS_LOSSES[outcome.run.study.loss]
    for number, (loss, score) in points.items():
        rows = stopped(study, tmp_path / str(number), number)
        wanted = loss_of(signs(rows) * rows.margins).sum(axis=1)
        close(loss, float(wanted.mean()))
        is_two = len(rows.classes) == 2
        chosen = rows.margins[:, 0] > 0 if is_two else rows.margins.argmax(axis=1)
        names = np.array(rows.classes)[chosen.astype(int)]
        close(score, metrics.accuracy_score(rows.y.astype(str), names))


RESIDUAL_LOSSES = {
    "half_squared": lambda r, _: r**2 / 2,
    "squared": lambda r, _: r**2,
    "absolute": lambda r, _: np.abs(r),
    "epsilon_insensitive": lambda r, e: np.maximum(0.0, np.abs(r) - e),
    "squared_epsilon_insensitive": lambda r, e: np.maximum(0.0, np.abs(r) - e) ** 2,
    "huber": lambda r, k: np.where(np.abs(r) < k, r**2 / 2, k * (np.abs(r) - k / 2)),
    "scaled_huber": lambda r, k: np.where(
        np.abs(r) < k, r**2 / (2 * k), np.abs(r) - k / 2
    ),
    "pinball": lambda r, t: np.maximum(t * r, (t - 1.0) * r),
}
PARAMETERS = {
    "epsilon_insensitive": 0.2,
    "squared_epsilon_insensitive": 0.2,
    "huber": 0.7,
    "scaled_huber": 0.7,
    "pinball": 0.8,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", RESIDUAL_LOSSES)
def test_points_of_a_regression_are_in_the_units_of_the_target(loss, tmp_path):
    """Weights count and offsets are added; widths are in units of the deviation."""
    data, random = load_diabetes(), stream(4, "curves")
    settings = {"loss": f'"{loss}"', "max_rounds": "4", "tol": "1e-12"}
    parameter = PARAMETERS.get(loss)
    if parameter is not None:
        settings["loss_parameter"] = str(parameter)
    study = HeldOutStudy(data.data, 7.0 * data.target + 900.0, "2x2", settings)
    n_rows = len(study.y)
    study.beside = {
        "weight_column": random.uniform(0.1, 5.0, n_rows),
        "offset_column": random.normal(size=n_rows),
    }
    outcome = trained(study, tmp_path / "curves", curves="2")
    scale = outcome.run.target.scale
    assert scale > 100.0
    points = points_of(outcome)
    assert list(points) == [2, 4]
    for number, (found, score) in points.items():
        rows = stopped(study, tmp_path / str(number), number)
        width = parameter if loss == "pinball" else (parameter or 0.0) * scale
        errors = RESIDUAL_LOSSES[loss](rows.y - rows.margins[:, 0], width)
        assert found == pytest.approx(np.average(errors, weights=rows.weights), 1e-8)
        wanted = metrics.r2_score(
            rows.y, rows.margins[:, 0], sample_weight=rows.weights
        )
        assert score == pytest.approx(wanted, rel=1e-7)


def mixed_study(tmp_path, **settings):
    """Write a study with categories that sets rows aside."""
    study = MixedStudy(settings={"tol": "1e-9", "max_rounds": "6", **settings})
    path = study.write(tmp_path)
    tested = '[evaluation]\nholdout = 0.4\nsalt = "30"\ncurves = 2\n'
    path.write_text(path.read_text().replace("[[clients]]", f"{tested}[[clients]]", 1))
    return path


def test_levels_that_an_organisation_has_in_rows_set_aside_alone(tmp_path):
    """They count with the weight of the level, as in the evaluation at the end."""
    path = mixed_study(tmp_path)
    run = prepare(load(path), tmp_path)
    outcome = train(run, lambda *_: None)
    strangers = set()
    for member in run.members:
        trained_levels, held = member.aligned.levels, member._stages.held_out.levels
        entries = run.consortium.levels.entries
        for name in held:
            known = {*(entries[name].levels or ()), entries[name].reference}
            strangers |= known & (set(held[name]) - set(trained_levels[name]))
    assert strangers  # or the test would say nothing
    points = points_of(outcome)
    assert list(points) == [2, 4, 6]
    close(points[6][0], outcome.evaluation["log_loss"])
    close(points[6][1], outcome.evaluation["accuracy"])


def test_a_level_of_rows_set_aside_counts_by_its_weight(tmp_path):
    """The last point, from the pooled table and the weights in the model file."""
    path = mixed_study(tmp_path)
    outcome = train(prepare(load(path), tmp_path), lambda *_: None)
    model, frame = outcome.model(), mixed_frame()
    is_tested = np.isin(np.arange(len(frame)), held_out_rows(frame["id"].tolist()))
    rows = frame[is_tested]
    margins = np.full(len(rows), model.intercept[0])
    for column in ("age", "pressure", "smoker", "admitted"):
        values = rows[column]
        if column == "admitted":
            values = (values - np.datetime64(model.date_origin)).dt.days
        scaling = model.scaling
        scaled = (values.astype(float) - scaling.offsets[column]) / scaling.scales[
            column
        ]
        margins += scaled.to_numpy() * model.weights[column][0]
    for column, entry in model.categories.items():
        known = [*entry.levels, entry.reference]
        levels = rows[column].where(rows[column].isin(known), "other")
        hot = OneHotEncoder(sparse_output=False).fit(levels.to_frame())
        for place, level in enumerate(hot.categories_[0]):
            weight = model.weights.get(f"{column}={level}", (0.0,))[0]
            margins += weight * hot.transform(levels.to_frame())[:, place]
    y = np.where(rows["y"] == "well", 1.0, -1.0)
    close(points_of(outcome)[6][0], float(np.logaddexp(0.0, -y * margins).mean()))


def held_out_rows(ids):
    from hyfdca.data.held_out import is_drawn  # noqa: PLC0415

    return np.flatnonzero(is_drawn(ids, 0.4, "30"))


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["sealed", "open"])
def test_curves_change_no_bit_of_the_model_and_no_scheme_changes_a_curve(
    profile, tmp_path
):
    """The test compares runs with and without curves, in the clear and sealed."""
    given = {"profile": f'"{profile}"', "max_rounds": "8", "tol": "1e-6"}
    found = set()
    for scheme in ("none", "stream", "bfv"):
        study = breast_cancer(settings={**given, "encryption": f'"{scheme}"'})
        plain = trained(study, tmp_path / f"{scheme} plain")
        with_curves = trained(study, tmp_path / scheme, curves="2")
        assert as_bytes(plain.model()) == as_bytes(with_curves.model())
        assert plain.evaluation == with_curves.evaluation
        gaps = [
            [record["relative_gap"] for record in outcome.run.training.history]
            for outcome in (plain, with_curves)
        ]
        assert gaps[0] == gaps[1]
        assert not points_of(plain)
        found.add(tuple(points_of(with_curves).items()))
    assert len(found) == 1
    assert len(next(iter(found))) == 4


@pytest.mark.parametrize("name", ["fedavg", "hyfdca", "lbfgs"])
def test_curves_change_no_bit_of_any_method(name, tmp_path):
    """The exchange changes no half, whatever the method keeps in it."""
    study = breast_cancer(shape="2x2", algorithm={"name": f'"{name}"'})
    study.settings = {"max_rounds": "6", "tol": "1e-9"}
    plain = trained(study, tmp_path / "plain")
    with_curves = trained(study, tmp_path / "curves", curves="1")
    assert as_bytes(plain.model()) == as_bytes(with_curves.model())
    assert len(points_of(with_curves)) == with_curves.n_rounds


def test_the_history_file_has_the_points(tmp_path):
    """They are null between points; without curves there is no such key."""
    study = breast_cancer(shape="2x2", settings={"max_rounds": "5", "tol": "1e-9"})
    for name, evaluation in (("plain", {}), ("curves", {"curves": "2"})):
        (tmp_path / name).mkdir()
        path = replace(study, evaluation=evaluation).write(tmp_path / name)
        train_file(path, tmp_path / name / "out", lambda *_: None)
    plain, curves = (
        json.loads((tmp_path / name / "out" / "history.json").read_text())
        for name in ("plain", "curves")
    )
    assert not any("validation_loss" in record for record in plain)
    losses = [record["validation_loss"] for record in curves]
    assert [loss is None for loss in losses] == [True, False, True, False, True]
    assert [r["validation_score"] is None for r in curves] == [
        loss is None for loss in losses
    ]


def test_a_model_that_diverges_has_no_points(tmp_path):
    """Its scores may be of any size; the study ends as without curves."""
    study = breast_cancer(shape="2x2", settings={"max_rounds": "40", "l2": "1e-7"})
    study.algorithm = {"name": '"hyfdca"', "step": '"paper"'}
    outcome = trained(study, tmp_path, curves="1")
    assert outcome.ending.stop_reason == "diverged"
    points = points_of(outcome)
    assert all(math.isfinite(loss) for loss, _ in points.values())
    assert 0 < len(points) < outcome.n_rounds


@pytest.mark.parametrize(
    ("settings", "evaluation", "why"),
    [
        ({}, {"holdout": "0.0", "curves": "5"}, "sets no rows aside"),
        (
            {"l2": "[1.0, 0.1]"},
            {"folds": "2", "curves": "5"},
            "leaves l2 to be chosen",
        ),
        ({"measure_every": "2"}, {"curves": "5"}, "a multiple of measure_every"),
        ({}, {"curves": "0"}, "curves"),
    ],
)
def test_curves_that_cannot_be_are_refused(settings, evaluation, why, tmp_path):
    """One sentence says why, before anything is read."""
    study = breast_cancer(settings=settings, evaluation=evaluation)
    with pytest.raises(StudyError, match=why):
        load(study.write(tmp_path))


def test_a_label_holder_without_a_part_in_the_intercept_is_refused(tmp_path):
    """A penalised intercept is a feature of those who count a training row."""
    study = breast_cancer(shape="2x2", settings={"penalise_intercept": "true"})
    study.evaluation = {"curves": "2"}
    path = study.write(tmp_path)
    # A third organisation shares all its training rows with the first, and has labels
    # of rows set aside that nobody else has.
    add_organisation(study, tmp_path, path)
    with pytest.raises(StudyError, match="does not know the penalised intercept"):
        prepare(load(path), tmp_path)


def add_organisation(study, folder, path):
    """Let the first organisations lose some rows set aside, and another have them."""
    import pandas as pd  # noqa: PLC0415

    own = study.held_out[:12]
    ids = {study.ids[row] for row in own.tolist()}
    frames = [pd.read_parquet(folder / f"{rank}.parquet") for rank in range(4)]
    mine = [frame[frame["id"].isin(ids)] for frame in frames]
    shared = [frame[~frame["id"].isin(ids)].head(30) for frame in frames]
    for rank, frame in enumerate(frames):
        rest = frame[~frame["id"].isin(ids)]
        rest.to_parquet(folder / f"{rank}.parquet", index=False)
    sides = [
        pd.concat([mine[k], mine[k + 2], shared[k]]).drop_duplicates("id")
        for k in (0, 1)
    ]
    whole = sides[0].merge(sides[1].drop(columns="y"), on="id")
    whole.to_parquet(folder / "4.parquet", index=False)
    path.write_text(path.read_text() + '[[clients]]\nname = "4"\ndata = "4.parquet"\n')


@pytest.mark.parametrize(("max_rounds", "is_said"), [("400", True), ("6", False)])
def test_what_curves_will_expose_is_said_before_the_first_round(
    max_rounds, is_said, tmp_path
):
    """If there may be as many scores of a row as others have columns in it."""
    said = []
    study = breast_cancer(
        shape="1x3",
        settings={"max_rounds": max_rounds, "tol": "0.5"},
        evaluation={"curves": "2"},
    )
    train_file(
        study.write(tmp_path), tmp_path / "out", lambda *_: None, tell=said.append
    )
    assert bool(said) == is_said
    for sentence in said:
        assert "up to 201 scores of each row set aside" in sentence
        assert "So 0 can compute features of others" in sentence

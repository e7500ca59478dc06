"""A model on rows set aside: the numbers of scikit-learn on these rows, pooled."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import metrics
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from hyfdca.maths.seeds import stream
from tests.support.held_out_studies import SALT, SHARE, HeldOutStudy, close


def breast_cancer(**more):
    data = load_breast_cancer()
    return HeldOutStudy(data.data, data.target_names[data.target], **more)


def digits(**more):
    data = load_digits()
    rows = stream(0, "digits").permutation(len(data.target))[:900]
    X = data.data[rows]
    return HeldOutStudy(X[:, X.std(axis=0) > 0], data.target[rows], **more)


def like_a9a(n_rows=6000, **more):
    """Return columns of 0 and 1, most of them 0, and a class of a quarter."""
    random = stream(1, "a9a")
    X = (random.random((n_rows, 40)) < random.uniform(0.02, 0.5, 40)).astype(float)
    scores = X @ random.normal(size=40) + random.normal(size=n_rows)
    y = np.where(scores > np.quantile(scores, 0.76), ">50K", "<=50K")
    return HeldOutStudy(X, y, **more)


STUDIES = {
    "breast cancer": breast_cancer,
    "overlapping, stream": lambda: breast_cancer(
        shape="overlapping", settings={"encryption": '"stream"'}
    ),
    "BFV": lambda: breast_cancer(shape="2x2", settings={"encryption": '"bfv"'}),
    "labels at one organisation": lambda: breast_cancer(
        shape="1x3", unlabelled=(0, 2), settings={"encryption": '"stream"'}
    ),
    "digits": lambda: digits(shape="2x2"),
    "a9a": lambda: like_a9a(shape="2x3"),
    "single bins": lambda: breast_cancer(evaluation={"min_bin": "1"}),
    "penalised intercept": lambda: breast_cancer(
        shape="2x2", settings={"penalise_intercept": "true", "profile": '"open"'}
    ),
    "compact": lambda: breast_cancer(settings={"precision": '"compact"'}),
}


@pytest.mark.parametrize("name", STUDIES)
def test_an_evaluation_has_the_numbers_of_the_pooled_rows(name, tmp_path):
    """AUC and KS lie in their intervals, everything else differs in rounding alone."""
    study = STUDIES[name]()
    outcome = study.trained(tmp_path)
    study.pooled(outcome).check(outcome.evaluation)


def test_weights_count_and_offsets_are_added(tmp_path):
    """Rows count as in training, and a model without probabilities has no log loss."""
    random, study = stream(2, "beside"), breast_cancer(shape="2x2")
    study.beside = {
        "weight_column": random.uniform(0.1, 5.0, len(study.y)),
        "offset_column": random.normal(size=len(study.y)),
    }
    (tmp_path / "logistic").mkdir()
    outcome = study.trained(tmp_path / "logistic")
    study.pooled(outcome).check(outcome.evaluation)
    study.settings["loss"] = '"hinge"'
    (tmp_path / "hinge").mkdir()
    outcome = study.trained(tmp_path / "hinge")
    study.pooled(outcome).check(outcome.evaluation, has_probabilities=False)


class SparseStudy(HeldOutStudy):
    """The same with sparse tables whose rows have no IDs."""

    @property
    def ids(self):
        """Return the numbers of rows."""
        return [str(row) for row in range(len(self.y))]

    def write(self, folder):
        """Write all cells to one file, of which organisations take some columns."""
        cells = sp.csr_array(self.X)
        parts = {name: getattr(cells, name) for name in ("data", "indices", "indptr")}
        np.savez(folder / "all.npz", y=self.y, shape=cells.shape, **parts)
        lines = ["[study]", 'name = "sparse"', 'rows = "by order"', "l2 = 1e-2"]
        lines += ['scale = "maxabs"', 'encryption = "none"']
        lines += ["[evaluation]", f"holdout = {SHARE}", f'salt = "{SALT}"']
        for name, columns in (("a", range(25)), ("b", range(25, 40))):
            features = [f"f{column}" for column in columns]
            lines += ["[[clients]]", f'name = "{name}"', 'data = "all.npz"']
            lines += [f"features = {features}"]
        path = folder / "study.toml"
        path.write_text("\n".join(lines) + "\n")
        return path


def test_rows_by_order_of_sparse_tables(tmp_path):
    """The number of a row stands for its ID."""
    dense = like_a9a(2000)
    study = SparseStudy(dense.X, (dense.y == ">50K").astype(int), prefix="f")
    outcome = study.trained(tmp_path)
    study.pooled(outcome).check(outcome.evaluation)


def test_a_training_that_diverges_has_no_evaluation(tmp_path):
    """Its model may have scores of any size."""
    study = breast_cancer(shape="2x2", settings={"max_rounds": "40"})
    study.algorithm = {"name": '"hyfdca"', "step": '"paper"'}
    outcome = study.trained(tmp_path)
    assert outcome.ending.stop_reason == "diverged"
    assert outcome.evaluation is None


@pytest.mark.parametrize("loss", ["half_squared", "pinball"])
def test_a_regression_has_the_errors_of_the_pooled_rows(loss, tmp_path):
    """R² is against the mean of the rows set aside."""
    data = load_diabetes()
    study = HeldOutStudy(data.data, data.target + 1e4, "2x2", {"loss": f'"{loss}"'})
    if loss == "pinball":
        study.settings["loss_parameter"] = "0.8"
    random = stream(3, "weights")
    study.beside = {"weight_column": random.uniform(0.1, 5.0, len(study.y))}
    outcome = study.trained(tmp_path)
    rows, found = study.pooled(outcome), outcome.evaluation
    y, margins = rows.y, rows.margins[:, 0]
    given = {"sample_weight": rows.weights}
    assert found["n_rows"] == len(y)
    close(found["r2"], metrics.r2_score(y, margins, **given))
    close(found["mae"], metrics.mean_absolute_error(y, margins, **given))
    close(found["rmse"], metrics.mean_squared_error(y, margins, **given) ** 0.5)
    if loss == "pinball":
        wanted = metrics.mean_pinball_loss(y, margins, alpha=0.8, **given)
        close(found["quantile_loss"], wanted)
    else:
        assert found["quantile_loss"] is None

"""Four organisations with all that real tables have: one model, that of pooling.

Text, dates, blanks, weights, an offset, overlapping rows and columns; one organisation
has the labels of its rows, another some of them, two have none.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.support.mixed_tables import (
    CITY,
    N_ROWS,
    NORTH,
    MixedStudy,
    mixed_frame,
    pooled_features,
)

L2 = 0.05
UNKNOWN = list(range(100, 106))  # rows of the city whose label nobody has
BLANK = [*range(50, 60), *UNKNOWN]  # blank at the city; north has the first ones


def real_frame() -> pd.DataFrame:
    """Return the pooled table with blanks, weights and offsets."""
    frame = mixed_frame()
    frame.loc[::11, "ward"] = None
    frame["w"] = 0.5 + np.arange(N_ROWS) % 4
    frame["o"] = np.linspace(-1.0, 2.0, N_ROWS)
    return frame


class RealStudy(MixedStudy):
    """A study of such tables."""

    def __init__(self, has_offset: bool, **settings: str) -> None:
        own = {
            "fit_intercept": "true",
            "missing": '"mean"',
            "weight_column": '"w"',
            "labels_visible_to_holders": "true",
            **settings,
        }
        if has_offset:
            own["offset_column"] = '"o"'
        super().__init__(real_frame(), own)
        roles = ["w", "o"] if has_offset else ["w"]
        for name, rows in (("north", NORTH), ("city", CITY)):
            for role in roles:
                self.tables[name][role] = self.frame[role].to_numpy()[rows]
        is_blank = np.isin(CITY, BLANK)
        for column in ("y", *roles):
            self.tables["city"].loc[is_blank, column] = None

    def write(self, folder):
        """Write the study; coast and island have no labels."""
        path = super().write(folder)
        text = path.read_text()
        for name in ("coast", "island"):
            self.tables[name].drop(columns="y", errors="ignore")
            text = text.replace(f'name = "{name}"', f'name = "{name}"\nlabel = false')
        path.write_text(text)
        return path


def trained(study, folder):
    path = study.write(folder)
    return train(prepare(load(path), folder), lambda *_: None)


def pooled(outcome):
    """Return features, labels, weights and offsets of the rows that have a label."""
    frame = real_frame().drop(index=UNKNOWN)
    entries = outcome.run.consortium.levels.entries
    references = {name: own.reference or "missing" for name, own in entries.items()}
    X, names = pooled_features(frame, references)
    assert sorted(outcome.run.consortium.features) == sorted(names)
    order = [names.index(name) for name in outcome.run.consortium.features]
    y = np.where(frame["y"] == "well", 1.0, -1.0)
    weights = frame["w"].to_numpy() / frame["w"].mean()
    return X[:, order], y, weights, frame["o"].to_numpy()


def distance_allowed(outcome):
    """Return how far weights may be from the optimum, by the certified gap."""
    return np.sqrt(2.0 * outcome.certificate.gap / L2) + 1e-5


def test_the_model_of_a_pooled_pipeline(tmp_path):
    """Encoder, scaler and LogisticRegression with weights, on the pooled table."""
    outcome = trained(RealStudy(has_offset=False), tmp_path)
    X, y, weights, _ = pooled(outcome)
    assert outcome.run.consortium.alignment.layout.samples.n_items == len(y)
    oracle = LogisticRegression(C=1.0 / (L2 * len(y)), tol=1e-12, max_iter=10_000)
    oracle.fit(X, y, sample_weight=weights)
    found = outcome.weights[:, 0]
    away = np.linalg.norm(found[:-1] - oracle.coef_[0])
    assert away <= distance_allowed(outcome)
    assert found[-1] == pytest.approx(oracle.intercept_[0], abs=1e-2)
    assert outcome.result()["rows_without_label"] == len(UNKNOWN)


def test_the_model_with_an_offset(tmp_path):
    """The same with x·w + w_0 + o, which scipy minimises in one place."""
    outcome = trained(RealStudy(has_offset=True), tmp_path)
    X, y, weights, offsets = pooled(outcome)

    def primal(w):
        margins = X @ w[:-1] + w[-1] + offsets
        losses = np.logaddexp(0.0, -y * margins)
        return 0.5 * L2 * w[:-1] @ w[:-1] + np.mean(weights * losses)

    best = minimize(primal, np.zeros(X.shape[1] + 1), options={"gtol": 1e-9})
    found = outcome.weights[:, 0]
    assert outcome.certificate.dual <= best.fun + 1e-12
    assert primal(found) == pytest.approx(best.fun, rel=1e-7)
    assert np.linalg.norm(found[:-1] - best.x[:-1]) <= distance_allowed(outcome)


@pytest.mark.parametrize("encryption", ["stream", "bfv"])
def test_encrypted_is_unencrypted(tmp_path, encryption):
    """They are equal bit for bit, with everything that such a study exchanges."""
    plain = trained(RealStudy(has_offset=True, tol="1e-2"), tmp_path)
    given = {"tol": "1e-2", "encryption": f'"{encryption}"'}
    sealed = trained(RealStudy(has_offset=True, **given), tmp_path)
    np.testing.assert_array_equal(sealed.weights, plain.weights)
    assert sealed.certificate == plain.certificate

"""Studies with rows set aside, and scikit-learn's numbers of these rows pooled."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn import metrics
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression

from hyfdca.data.held_out import is_drawn
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import Outcome, train
from tests.support.small_runs import partition_of

SALT, SHARE = "2026", 0.4


@dataclass
class HeldOutStudy:
    """A pooled table and how it is split over organisations."""

    X: np.ndarray
    y: np.ndarray
    shape: str = "3x3"
    settings: dict[str, str] = field(default_factory=dict)
    evaluation: dict[str, str] = field(default_factory=dict)
    unlabelled: tuple[int, ...] = ()  # organisations without labels
    beside: dict[str, np.ndarray] = field(default_factory=dict)  # weights, offsets
    algorithm: dict[str, str] = field(default_factory=dict)
    prefix: str = "x"  # of the names of columns

    @property
    def ids(self) -> list[str]:
        """Return the IDs of all rows."""
        return [f"P{row:06d}" for row in range(len(self.y))]

    @property
    def held_out(self) -> np.ndarray:
        """Return the rows that are set aside."""
        return np.flatnonzero(is_drawn(self.ids, SHARE, SALT))

    def write(self, folder: Path) -> Path:
        """Write the organisations' tables and the study file."""
        settings = {
            "name": '"tested"',
            "scale": '"standard"',
            "l2": "1e-2",
            "tol": "1e-3",
            "id_column": '"id"',
            "label_column": '"y"',
            "encryption": '"none"',
            **{key: f'"{key[0]}"' for key in self.beside},
            **self.settings,
        }
        if self.unlabelled:
            settings["labels_visible_to_holders"] = "true"
        tested = {"holdout": str(SHARE), "salt": f'"{SALT}"', **self.evaluation}
        lines = ["[study]", *(f"{k} = {v}" for k, v in settings.items())]
        if self.algorithm:
            lines += ["[algorithm]", *(f"{k} = {v}" for k, v in self.algorithm.items())]
        lines += ["[evaluation]", *(f"{k} = {v}" for k, v in tested.items())]
        names = [f"{self.prefix}{column}" for column in range(self.X.shape[1])]
        frame = pd.DataFrame(self.X, columns=names)
        frame.insert(0, "id", self.ids)
        frame["y"] = self.y
        for key, values in self.beside.items():
            frame[key[0]] = values
        partition = partition_of(self.shape, *self.X.shape)
        for rank, holding in enumerate(partition.holdings):
            columns = [names[column] for column in holding.features]
            has_labels = rank not in self.unlabelled
            more = ["y", *(key[0] for key in self.beside)] if has_labels else []
            own = frame.iloc[holding.samples][["id", *columns, *more]]
            own.to_parquet(folder / f"{rank}.parquet", index=False)
            lines += ["[[clients]]", f'name = "{rank}"', f'data = "{rank}.parquet"']
            lines += [] if has_labels else ["label = false"]
        path = folder / "study.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def trained(self, folder: Path) -> Outcome:
        """Train the study in this process."""
        return train(prepare(load(self.write(folder)), folder), lambda *_: None)

    def pooled(self, outcome: Outcome) -> PooledRows:
        """Return the rows set aside in one place, with margins of the model file."""
        model = msgspec.to_builtins(outcome.model())
        names = [f"{self.prefix}{column}" for column in range(self.X.shape[1])]
        scaling, rows = model["scaling"], self.held_out
        offset, scale = (
            np.array([scaling[key][name] for name in names])
            for key in ("offsets", "scales")
        )
        weights = np.array([model["weights"][name] for name in names])
        margins = (self.X[rows] - offset) / scale @ weights + model["intercept"]
        if "offset_column" in self.beside:
            margins = margins + self.beside["offset_column"][rows][:, None]
        sample_weight = self.beside.get("weight_column", np.ones(len(self.y)))[rows]
        classes = list(model["classes"])
        return PooledRows(self.y[rows], margins, sample_weight, classes)


@dataclass
class PooledRows:
    """Labels and margins of all rows set aside."""

    y: np.ndarray
    margins: np.ndarray
    weights: np.ndarray
    classes: list[str]

    def check(self, found: dict[str, Any], has_probabilities: bool = True) -> None:
        """Compare an evaluation with scikit-learn."""
        assert found["n_rows"] == len(self.y)
        assert found["n_rows_left_out"] == 0
        numbers = np.array([self.classes.index(str(label)) for label in self.y])
        if len(self.classes) == 2:
            self._check_two(found, numbers, has_probabilities)
        else:
            self._check_more(found, numbers)

    def _check_two(self, found, numbers, has_probabilities) -> None:
        margins, w = self.margins[:, 0], self.weights
        chosen = margins > 0
        close(
            found["accuracy"], metrics.accuracy_score(numbers, chosen, sample_weight=w)
        )
        recall = metrics.recall_score(numbers, chosen, average=None, sample_weight=w)
        close(found["specificity"], recall[0])
        close(found["sensitivity"], recall[1])
        assert found["classes"] is None
        check_curves(found, numbers, margins, w)
        if not has_probabilities:
            assert found["log_loss"] is found["brier"] is found["calibration"] is None
            return
        p = expit(margins)
        close(found["log_loss"], metrics.log_loss(numbers, p, sample_weight=w))
        close(found["brier"], metrics.brier_score_loss(numbers, p, sample_weight=w))
        check_calibration(found["calibration"], numbers, margins, w)

    def _check_more(self, found, numbers) -> None:
        chosen, w = self.margins.argmax(axis=1), self.weights
        close(
            found["accuracy"], metrics.accuracy_score(numbers, chosen, sample_weight=w)
        )
        shares = expit(self.margins)
        shares /= shares.sum(axis=1, keepdims=True)
        close(found["log_loss"], metrics.log_loss(numbers, shares, sample_weight=w))
        one_hot = np.eye(len(self.classes))[numbers]
        squares = ((shares - one_hot) ** 2).sum(axis=1)
        close(found["brier"], np.average(squares, weights=w))
        assert found["auc"] is found["roc"] is found["calibration"] is None
        assert list(found["classes"]) == self.classes
        recall = metrics.recall_score(numbers, chosen, average=None, sample_weight=w)
        for number, own in enumerate(found["classes"].values()):
            is_own = numbers == number
            p = shares[:, number]
            close(own["sensitivity"], recall[number])
            is_right = chosen[~is_own] != number
            close(own["specificity"], np.average(is_right, weights=w[~is_own]))
            scores = np.log(p) - np.log1p(-p)
            check_curves(own, is_own, scores, w)
            check_calibration(own["calibration"], is_own, scores, w)


def close(found: float, wanted: float) -> None:
    """Check that two numbers differ in rounding alone."""
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def check_curves(found, y, scores, weights) -> None:
    """Check that intervals contain AUC, the distance and the ROC curve."""
    auc = metrics.roc_auc_score(y, scores, sample_weight=weights)
    assert found["auc_low"] <= auc <= found["auc_high"]
    assert found["auc_low"] <= found["auc"] <= found["auc_high"]
    false, true, _ = metrics.roc_curve(
        y, scores, sample_weight=weights, drop_intermediate=False
    )
    assert found["ks_low"] <= np.abs(true - false).max() <= found["ks_high"]
    assert 2 < len(found["roc"]) <= 101
    for point in found["roc"]:
        best = true[false <= point["false_positive_rate"] + 1e-12].max()
        assert point["true_positive_rate_low"] <= best + 1e-9
        assert best <= point["true_positive_rate_high"] + 1e-9


def check_calibration(found, y, scores, weights) -> None:
    """Check the line against an unpenalised regression, and the bins against sums."""
    line = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000)
    apart = scores[y == 1].min() > scores[y == 0].max()
    if found["slope"] is None:
        assert apart  # the slope would be infinite
    else:
        line.fit(scores[:, None], y, sample_weight=weights)
        assert found["slope"] == pytest.approx(line.coef_[0, 0], rel=1e-4)
        assert found["intercept"] == pytest.approx(
            line.intercept_[0], rel=1e-4, abs=1e-4
        )
    p, bins = expit(scores), found["bins"]
    assert [own["low"] for own in bins] == [0.0, *(own["high"] for own in bins[:-1])]
    assert bins[-1]["high"] == 1.0
    for own in bins:
        is_in = (p > own["low"]) & (p <= own["high"])
        is_in |= (own["low"] == 0.0) & (p == 0.0)
        assert own["n_rows"] == is_in.sum()
        close(own["predicted"], np.average(p[is_in], weights=weights[is_in]))
        close(own["observed"], np.average(y[is_in], weights=weights[is_in]))
    if len(bins) == 10 and np.all(weights == 1.0):
        observed, predicted = calibration_curve(y, p, n_bins=10)
        assert [own["observed"] for own in bins] == pytest.approx(observed)
        assert [own["predicted"] for own in bins] == pytest.approx(predicted)

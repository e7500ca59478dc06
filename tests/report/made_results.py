"""Result folders to report on: trained, or with sections made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score, roc_curve

from hyfdca.maths.seeds import stream
from hyfdca.study.local.training import train_file

N_BINS = 10
WIDTH = 4e-4  # of an interval that histograms give


def trained(study: Path, out: Path) -> Path:
    """Train a study; return the folder of its result."""
    train_file(study, out, lambda *_: None)
    return out


def changed(folder: Path, name: str, change: Callable[[Any], None]) -> None:
    """Change the content of a JSON file."""
    path = folder / name
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def held_out(n_rows: int = 400, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of held-out rows and probabilities that are nearly right."""
    random = stream(seed, "held out")
    margins = 2.0 * random.normal(size=n_rows)
    is_ill = random.random(n_rows) < 1.0 / (1.0 + np.exp(-margins))
    return is_ill.astype(float), 1.0 / (1.0 + np.exp(-1.2 * margins - 0.1))


def scores_of(y: np.ndarray, p: np.ndarray) -> dict[str, Any]:
    """Return the scores of two classes, in the form of ``evaluation``."""
    auc = float(roc_auc_score(y, p))
    false, true, _ = roc_curve(y, p)
    logit = np.log(p / (1 - p))[:, None]
    line = LogisticRegression(C=1e9).fit(logit, y)
    every = np.unique(np.linspace(0, len(false) - 1, 60).astype(int))
    return {
        "n_rows": len(y),
        "accuracy": float(np.mean((p > 0.5) == y)),
        "sensitivity": float(np.mean(p[y == 1] > 0.5)),
        "specificity": float(np.mean(p[y == 0] <= 0.5)),
        "log_loss": float(log_loss(y, p)),
        "brier": float(brier_score_loss(y, p)),
        "auc": auc,
        "auc_low": auc - WIDTH / 2,
        "auc_high": auc + WIDTH / 2,
        "ks_low": float(np.max(true - false)) - WIDTH / 2,
        "ks_high": float(np.max(true - false)) + WIDTH / 2,
        "calibration": {
            "slope": float(line.coef_[0, 0]),
            "intercept": float(line.intercept_[0]),
            "bins": list(_bins(y, p)),
        },
        "roc": [
            {
                "false_positive_rate": float(false[place]),
                "true_positive_rate_low": max(float(true[place]) - 0.01, 0.0),
                "true_positive_rate_high": min(float(true[place]) + 0.01, 1.0),
            }
            for place in every
        ],
    }


def _bins(y, p):
    edges = np.linspace(0, 1, N_BINS + 1)
    for low, high in pairwise(edges):
        own = (p >= low) & (p < high)
        yield {
            "low": float(low),
            "high": float(high),
            "n_rows": int(own.sum()),
            "predicted": float(p[own].mean()),
            "observed": float(y[own].mean()),
        }


def class_scores(names: list[str]) -> dict[str, Any]:
    """Return the scores of several classes."""
    classes = {
        name: scores_of(*held_out(seed=place)) for place, name in enumerate(names)
    }
    flat = dict.fromkeys(["sensitivity", "auc", "auc_low", "calibration", "roc"])
    return {
        "n_rows": 400,
        "accuracy": 0.87,
        "log_loss": 0.41,
        **flat,
        "classes": classes,
    }


REGRESSION = {"n_rows": 88, "r2": 0.4821, "mae": 41.2, "rmse": 53.7}


def path_of() -> list[dict[str, Any]]:
    """Return scores by λ, largest first; the simplest near the best is chosen."""
    random, points = stream(8, "path"), []
    for power in np.linspace(-1, -5, 9):
        folds = 0.3 + 0.02 * (power + 3.5) ** 2 + 0.02 * random.normal(size=5)
        points.append(
            {
                "l2": float(10.0**power),
                "mean": float(folds.mean()),
                "standard_error": float(folds.std(ddof=1) / 5**0.5),
                "folds": folds.tolist(),
                "relative_gap": [8e-4] * 5,
                "rounds": [12, 14, 13, 12, 15],
                "is_best": False,
                "is_chosen": False,
            }
        )
    best = min(points, key=lambda point: point["mean"])
    limit = best["mean"] + best["standard_error"]
    best["is_best"] = True
    next(p for p in points if p["mean"] <= limit)["is_chosen"] = True
    return points


def evaluate(folder: Path) -> None:
    """Add everything that a study with held-out rows and folds has."""

    def add(result):
        result["evaluation"] = scores_of(*held_out())
        result["path"], result["path_score"] = path_of(), "log_loss"

    changed(folder, "result.json", add)

    def curve(history):
        for record in history:
            is_measured = record["round"] % 3 == 0
            record["validation_loss"] = 0.5 / record["round"] if is_measured else None

    changed(folder, "history.json", curve)

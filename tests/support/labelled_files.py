"""Changes of small consortia: blank labels, weights, offsets, rows left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from hyfdca.study.file import load
from hyfdca.study.local.run import pooled_objective
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.support.consortia import N_ROWS, Files, make_files

VISIBLE = {"labels_visible_to_holders": "true"}


def blank(files: Files, rows: Iterable[int], *names: str) -> Files:
    """Remove the labels of some rows at some organisations, or at all."""
    chosen = set(rows)
    for name in names or files.organisations:
        own = files.organisations[name]
        own.table["y"] = [
            "" if row in chosen else label
            for row, label in zip(own.rows, own.table["y"], strict=True)
        ]
    return files


def remove(files: Files, rows: Iterable[int]) -> Files:
    """Remove some rows everywhere."""
    gone = set(rows)
    for own in files.organisations.values():
        kept = [place for place, row in enumerate(own.rows) if row not in gone]
        own.rows = [own.rows[place] for place in kept]
        for name, column in own.table.items():
            own.table[name] = [column[place] for place in kept]
    return files


def add_column(
    files: Files, key: str, name: str, value: Callable[[int], Any], *left_out: str
) -> Files:
    """Give every organisation a column, and the study its name under a key."""
    files.settings[key] = f'"{name}"'
    for organisation, own in files.organisations.items():
        if organisation not in left_out:
            own.table[name] = [value(row) for row in own.rows]
    return files


def repeat(files: Files, times: Callable[[int], int]) -> Files:
    """Repeat each row this many times, under separate IDs."""
    for own in files.organisations.values():
        counts = [times(row) for row in own.rows]
        ids = own.table["id"]
        own.table = {
            name: [
                cell for cell, n in zip(column, counts, strict=True) for _ in range(n)
            ]
            for name, column in own.table.items()
        }
        own.table["id"] = [
            f"{i}-{number}"
            for i, n in zip(ids, counts, strict=True)
            for number in range(n)
        ]
    return files


def weight(row: int) -> float:
    """Return a weight that is not a round number."""
    return 0.2 + (row * 37 % N_ROWS) / 7


def offset(row: int) -> float:
    """Return an offset."""
    return (row * 11 % N_ROWS) / 50 - 0.4


PLAIN = {"encryption": '"none"'}


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

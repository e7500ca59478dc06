"""Estimators warn about a loss_parameter in the units of the target."""

from __future__ import annotations

import numpy as np
import pytest

from hyfdca import HyFDCARegressor
from hyfdca.maths.seeds import stream


@pytest.fixture(scope="module")
def dollars():
    """Return a table, and costs of some thousand dollars."""
    X = stream(3, "dollars").normal(size=(60, 4))
    return X, 5000.0 + 1500.0 * X[:, 0]


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ("epsilon_insensitive", "nothing to train"),
        ("squared_epsilon_insensitive", "nothing to train"),
        ("huber", "hardly any error is so large"),
        ("scaled_huber", "hardly any error is so large"),
    ],
)
def test_parameter_in_dollars(dollars, loss, words):
    """Such a model is another one than was meant, or none."""
    X, y = dollars
    model = HyFDCARegressor(loss, loss_parameter=500.0)
    with pytest.warns(UserWarning, match=f"{words}.*its deviation, {y.std():.4g}"):
        model.fit(X, y)


def test_parameter_in_deviations(dollars):
    """Divided by the deviation it trains, without a warning."""
    X, y = dollars
    model = HyFDCARegressor("epsilon_insensitive", loss_parameter=500.0 / y.std())
    assert abs(model.fit(X, y).coef_[0]) > 500.0


def test_constant_targets():
    """Targets that do not vary have no deviation to divide by."""
    X, y = np.eye(8), np.full(8, 7.0)
    with pytest.warns(UserWarning, match="nothing to train.*use a smaller one"):
        HyFDCARegressor("epsilon_insensitive").fit(X, y)

"""A table that estimators learn."""

import pytest
from sklearn.datasets import (
    load_breast_cancer,
)
from sklearn.preprocessing import StandardScaler


@pytest.fixture(scope="module")
def cancer():
    """Return a scaled table and its labels."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y

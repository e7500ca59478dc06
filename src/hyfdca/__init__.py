"""Hybrid federated learning for convex models, with a certificate."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyfdca.estimators.cross_validation import (
        HyFDCAClassifierCV,
        HyFDCARegressorCV,
    )
    from hyfdca.estimators.estimator import HyFDCAClassifier, HyFDCARegressor

__version__ = "0.2.0"
__all__ = [
    "HyFDCAClassifier",
    "HyFDCAClassifierCV",
    "HyFDCARegressor",
    "HyFDCARegressorCV",
    "__version__",
]

_ESTIMATORS = {
    "HyFDCAClassifier": "estimator",
    "HyFDCAClassifierCV": "cross_validation",
    "HyFDCARegressor": "estimator",
    "HyFDCARegressorCV": "cross_validation",
}


def __getattr__(name: str) -> Any:
    """Import the estimators on first use; encrypting processes do not need them."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module 'hyfdca' has no attribute {name!r}")
    module = f"hyfdca.estimators.{_ESTIMATORS[name]}"
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return __all__

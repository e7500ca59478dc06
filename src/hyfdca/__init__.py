"""Hybrid federated learning for convex models, with a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyfdca.estimators.estimator import HyFDCAClassifier, HyFDCARegressor

__all__ = ["HyFDCAClassifier", "HyFDCARegressor"]


def __getattr__(name: str) -> Any:
    """Import the estimators when asked for: processes that encrypt need none."""
    if name not in __all__:
        raise AttributeError(f"module 'hyfdca' has no attribute {name!r}")
    from hyfdca.estimators import estimator  # noqa: PLC0415

    return getattr(estimator, name)


def __dir__() -> list[str]:
    return __all__

"""Hybrid federated learning for convex models, with a certificate."""

from hyfdca.estimator import HyFDCAClassifier, HyFDCARegressor

__all__ = ["HyFDCAClassifier", "HyFDCARegressor"]

"""Training methods: one registry, one file or folder per method."""

from hyfdca.algorithms.bundle.bundle import Bundle, Lbfgs
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca

__all__ = ["Bundle", "Hyfdca", "Lbfgs"]

"""Training methods: one registry, one file or folder per method."""

from hyfdca.algorithms.bundle.bundle import Bundle, Lbfgs
from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.fedbcd import FedBcd
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfem import HyFem
from hyfdca.algorithms.tdcd import Tdcd

__all__ = ["Bundle", "FedAvg", "FedBcd", "HyFem", "Hyfdca", "Lbfgs", "Tdcd"]

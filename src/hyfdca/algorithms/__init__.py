"""Training methods: one registry, one file or folder per method."""

from hyfdca.algorithms.bundle.bundle import Bundle, Lbfgs
from hyfdca.algorithms.cocoa import CoCoA
from hyfdca.algorithms.d3ca import D3ca
from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.fedbcd import FedBcd
from hyfdca.algorithms.feddcd import FedDcd
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfem import HyFem
from hyfdca.algorithms.tdcd import Tdcd

__all__ = [
    "Bundle",
    "CoCoA",
    "D3ca",
    "FedAvg",
    "FedBcd",
    "FedDcd",
    "HyFem",
    "Hyfdca",
    "Lbfgs",
    "Tdcd",
]

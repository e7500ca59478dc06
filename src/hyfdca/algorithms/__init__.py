"""Training methods: one registry, one file or folder per method."""

from hyfdca.algorithms.block_admm import BlockAdmm
from hyfdca.algorithms.bundle.bundle import Bundle, Lbfgs
from hyfdca.algorithms.bundle.pooled import Pooled
from hyfdca.algorithms.cocoa import CoCoA
from hyfdca.algorithms.d3ca import D3ca
from hyfdca.algorithms.disco.disco import Disco
from hyfdca.algorithms.dscovr import Dscovr
from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.fedbcd import FedBcd
from hyfdca.algorithms.feddcd import FedDcd
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.hyfem import HyFem
from hyfdca.algorithms.tdcd import Tdcd

__all__ = [
    "BlockAdmm",
    "Bundle",
    "CoCoA",
    "D3ca",
    "Disco",
    "Dscovr",
    "FedAvg",
    "FedBcd",
    "FedDcd",
    "HyFem",
    "Hyfdca",
    "Lbfgs",
    "Pooled",
    "Tdcd",
]

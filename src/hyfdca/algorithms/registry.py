"""The algorithms by name, and the choice among them where a study leaves it open."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from hyfdca.algorithms.block_admm import BlockAdmm
from hyfdca.algorithms.bundle.bundle import Bundle, Lbfgs
from hyfdca.algorithms.bundle.lbfgs import PAIRS
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
from hyfdca.federation.algorithm import Algorithm
from hyfdca.federation.server import Federation

ALGORITHMS: dict[str, type[Algorithm]] = {
    "bundle": Bundle,
    "lbfgs": Lbfgs,
    "hyfdca": Hyfdca,
    "fedavg": FedAvg,
    "hyfem": HyFem,
    "block_admm": BlockAdmm,
    "cocoa": CoCoA,
    "d3ca": D3ca,
    "disco": Disco,
    "dscovr": Dscovr,
    "fedbcd": FedBcd,
    "feddcd": FedDcd,
    "tdcd": Tdcd,
    "pooled": Pooled,
}

AUTO = "auto"
CHOSEN_BY_AUTO = ("bundle", "lbfgs")

_LBFGS_GAPS = (1e-8, 1e-5)  # below, rounding stops it earlier than the bundle


class Choice(NamedTuple):
    """An algorithm with its settings, and why it was chosen."""

    algorithm: Algorithm
    reason: str


def make_algorithm(name: object, settings: Mapping[str, Any]) -> Algorithm | None:
    """Return an algorithm by name with these settings; None where it is left open.

    Raises
    ------
    ValueError
        If there is no such algorithm or setting, with one plain sentence.
    """
    if isinstance(name, type) and issubclass(name, Algorithm):
        raise ValueError(f"algorithm must be {name.__name__}(...), not the class.")
    if not isinstance(name, str) or name not in (AUTO, *ALGORITHMS):
        known = ", ".join([AUTO, *ALGORITHMS])
        raise ValueError(f"algorithm must be one of {known}, got {name!r}.")
    own = settings_of(name)
    unknown = [key for key in settings if key not in own]
    if unknown:
        raise ValueError(_unknown_setting(name, unknown[0]))
    return None if name == AUTO else ALGORITHMS[name](**settings)


def settings_of(name: str) -> list[str]:
    """Return the names of an algorithm's settings."""
    if name == AUTO:
        return []
    return [field.name for field in dataclasses.fields(ALGORITHMS[name])]


def _unknown_setting(name: str, setting: str) -> str:
    owners = [repr(other) for other in ALGORITHMS if setting in settings_of(other)]
    if owners:
        *others, last = owners
        them = f"algorithm {last}"
        if others:
            them = f"algorithms {', '.join(others)} and {last}"
        advice = "; name the algorithm too" if name == AUTO else ""
        return f"{setting} is a setting of {them}, not of {name!r}{advice}."
    known = ", ".join(settings_of(name)) or "none"
    return f"algorithm {name!r} has no setting {setting!r}; it has: {known}."


def frees_intercept(
    algorithm: Algorithm | None, is_penalised: bool | None, scaling: float
) -> bool:
    """Return whether an intercept goes without penalty.

    By default it does if the algorithm allows, and if there is no scaling, which makes
    sense only with a penalty. An algorithm that is left open (None) allows it.

    Raises
    ------
    ValueError
        If there is a scaling that would have no effect.
    """
    if is_penalised is False and scaling != 1.0:
        raise ValueError(
            f"intercept_scaling = {scaling:g} scales an intercept with a penalty; "
            "leave it at 1, or set penalise_intercept to true."
        )
    if is_penalised is not None:
        return not is_penalised
    return scaling == 1.0 and (algorithm is None or algorithm.frees_intercept)


def choose_algorithm(
    wanted: Algorithm | None, federation: Federation, tolerance: float
) -> Choice:
    """Return the algorithm to run, with the reason where the study leaves it open.

    L-BFGS needs about half the bundle's rounds to a very small gap where its memory
    spans all features, and twice as many elsewhere (docs/acceleration.md).

    Raises
    ------
    ValueError
        If the algorithm does not apply to this federation.
    """
    choice = Choice(wanted, "as set") if wanted else _chosen(federation, tolerance)
    choice.algorithm.check(federation)
    return choice


def _chosen(federation: Federation, tolerance: float) -> Choice:
    loss = federation.problem.loss
    suits_lbfgs = (
        math.isfinite(loss.smoothness)
        and loss.task == "regression"
        and federation.layout.features.n_items <= PAIRS
        and federation.is_complete
        # Its planes may all be balanced, and then do not enclose a free intercept.
        and not federation.problem.free_intercept
        and federation.problem.path is None
    )
    if suits_lbfgs and _LBFGS_GAPS[0] < tolerance < _LBFGS_GAPS[1]:
        reason = f"few features, a smooth regression loss and a gap of {tolerance:g}"
        return Choice(Lbfgs(), reason)
    return Choice(Bundle(), f"fewest rounds to {tolerance:g} for the {loss.name} loss")
